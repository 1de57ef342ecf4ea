"""Produce and fetch throughput against the real broker: python -m tests.bench.produce_fetch [ROUNDS]

The same clients (confluent-kafka, each a process of its own, acks=all, one partition) write to and read from kcoord and
a broker with the flags of Kafka's own script, both up all the time, in turn, round by round; the first round only warms
up and is not counted. Shown are medians. CPU is the server's own, so a ratio there holds even where the client is the
slower half, as it is with small records.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from uuid import uuid4

from tests.bench.support import client
from tests.bench.support.client import Passed
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SERVERS, Running

ROUNDS = 3
RIVALS = ("kcoord", "Kafka, script's flags")
GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    records: int
    size: int
    codec: str
    batch: int = 1_000_000

    def __str__(self) -> str:
        size = f"{self.size} B" if self.size < 1000 else f"{self.size // 1000} KB"
        return f"{size}, {self.codec}{'' if self.batch == 1_000_000 else f', batches of {self.batch // 1000} KB'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run: megabytes and records per second, and the server's CPU seconds per gigabyte."""

    megabytes: float
    records: float
    cpu: float


SETTINGS = (
    Setting(records=300_000, size=100, codec="none", batch=16_000),
    Setting(records=500_000, size=100, codec="none"),
    Setting(records=500_000, size=100, codec="lz4"),
    Setting(records=150_000, size=1_000, codec="none"),
    Setting(records=150_000, size=1_000, codec="lz4"),
    Setting(records=25_000, size=10_000, codec="none"),
    Setting(records=25_000, size=10_000, codec="lz4"),
)

Samples = dict[tuple[str, str, str], list[Sample]]
"""By setting, verb and server."""


def main(rounds: int = ROUNDS) -> None:
    print(f"produce and fetch: the median of {rounds} rounds, kcoord / Kafka\n{machine()}\n")
    samples: Samples = defaultdict(list)
    with ExitStack() as stack:
        servers = {name: stack.enter_context(Running(SERVERS[name])) for name in RIVALS}
        for number in range(rounds + 1):
            for setting in SETTINGS:
                for name, server in servers.items():
                    _measure(server, name, setting, samples, is_counted=number > 0)
    print(table(_rows(samples)), "\n")


def _measure(server: Running, name: str, setting: Setting, samples: Samples, *, is_counted: bool) -> None:
    topic = f"bench-{uuid4()}"  # a broker goes on deleting the one before for a while
    client.create_topic(server.bootstrap, topic)
    options = {"size": setting.size, "codec": setting.codec, "batch": setting.batch}
    produced = _sample(
        server,
        lambda: client.produce(server.bootstrap, topic, records=setting.records, **options),  # type: ignore[arg-type]
    )
    fetched = _sample(server, lambda: client.fetch(server.bootstrap, topic, records=setting.records))
    client.delete_topic(server.bootstrap, topic)
    if is_counted:
        samples[str(setting), "produce", name].append(produced)
        samples[str(setting), "fetch", name].append(fetched)


def _sample(server: Running, act: Callable[[], Passed]) -> Sample:
    before = server.cpu_seconds()
    passed = act()
    cpu = server.cpu_seconds() - before
    return Sample(
        megabytes=passed.bytes / passed.seconds / 1e6,
        records=passed.records / passed.seconds,
        cpu=cpu / (passed.bytes / GB),
    )


def _rows(samples: Samples) -> list[list[str]]:
    rows = [
        [
            "records",
            "",
            "kcoord MB/s",
            "Kafka MB/s",
            "ratio",
            "kcoord rec/s",
            "Kafka rec/s",
            "CPU s/GB",
            "Kafka",
            "ratio",
        ]
    ]
    for setting in map(str, SETTINGS):
        for verb in ("produce", "fetch"):
            ours, theirs = (samples[setting, verb, name] for name in RIVALS)
            rows.append([setting, verb, *_compared(ours, theirs)])
    return rows


def _compared(ours: list[Sample], theirs: list[Sample]) -> list[str]:
    def medians(field: str) -> tuple[float, float]:
        return median(getattr(each, field) for each in ours), median(getattr(each, field) for each in theirs)

    (our_mb, their_mb), (our_records, their_records), (our_cpu, their_cpu) = map(
        medians, ("megabytes", "records", "cpu")
    )
    return [
        f"{our_mb:.1f}",
        f"{their_mb:.1f}",
        f"{our_mb / their_mb:.2f}x",
        f"{our_records:,.0f}",
        f"{their_records:,.0f}",
        f"{our_cpu:.2f}",
        f"{their_cpu:.2f}",
        f"{our_cpu / their_cpu:.2f}x",
    ]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
