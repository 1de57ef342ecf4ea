"""How fast a server starts and how much memory it takes: python -m tests.bench.start [ROUNDS]

Each round starts kcoord and the real broker in turn, the broker both with the flags that its own script gives the JVM
and with the small, quick ones of kcoord.testing. Clocks run from the start of the process to the first Metadata answer.
Memory is read from /proc when the server was left alone for some seconds, and again after a load: 200,000 records of
100 bytes in batches of about 20, by four producers, read by four consumers, none of them deleted. Both servers store
them in files, so the page cache, which the system reclaims when it needs the memory, is in neither figure.

What is shown is the median of the rounds.
"""

import sys
import time
from dataclasses import dataclass
from statistics import median

from tests.bench.support import client
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SERVERS, Running

ROUNDS = 3
RECORDS = 200_000
CLIENTS = 4
BATCH = 2_400  # bytes: about 20 records
REST = 3  # seconds
# The goals: how many times faster, or smaller, kcoord is than each of the two brokers.
FASTER_START, LESS_IDLE, LESS_LOADED = 15, 6, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurements of one server in one round; memory in MiB."""

    start_seconds: float
    idle: float
    idle_proportional: float
    loaded: float
    loaded_proportional: float


def main(rounds: int = ROUNDS) -> None:
    print(f"start and memory: the median of {rounds} rounds\n{machine()}\n")
    seen: dict[str, list[Measurement]] = {name: [] for name in SERVERS}
    for _ in range(rounds):
        for name, prepared in SERVERS.items():
            with Running(prepared) as server:
                seen[name].append(_measure(server))
    print(table(_rows(seen)), "\n")
    print(table(_targets(seen)), "\n")


def _measure(server: Running) -> Measurement:
    time.sleep(REST)
    idle, idle_proportional = server.memory()
    _load(server.bootstrap)
    time.sleep(REST)
    loaded, loaded_proportional = server.memory()
    return Measurement(
        start_seconds=server.start_seconds,
        idle=idle,
        idle_proportional=idle_proportional,
        loaded=loaded,
        loaded_proportional=loaded_proportional,
    )


def _load(bootstrap: str) -> None:
    client.create_topic(bootstrap, "load", partitions=CLIENTS)
    share = RECORDS // CLIENTS
    producers = [
        client.start("produce", bootstrap, "load", records=share, size=100, batch=BATCH) for _ in range(CLIENTS)
    ]
    for producer in producers:
        client.finish(producer)
    consumers = [client.start("fetch", bootstrap, "load", records=RECORDS) for _ in range(CLIENTS)]
    for consumer in consumers:
        client.finish(consumer)


def _rows(seen: dict[str, list[Measurement]]) -> list[list[str]]:
    head = ["server", "start", "from–to", "idle RSS", "PSS", "loaded RSS", "PSS"]
    return [head, *[[name, *_cells(rounds)] for name, rounds in seen.items()]]


def _cells(rounds: list[Measurement]) -> list[str]:
    starts = [each.start_seconds for each in rounds]
    memory = [_median(rounds, name) for name in ("idle", "idle_proportional", "loaded", "loaded_proportional")]
    spread = f"{min(starts):.2f}–{max(starts):.2f}"
    return [f"{median(starts):.2f} s", spread, *[f"{mib:.0f} MiB" for mib in memory]]


def _targets(seen: dict[str, list[Measurement]]) -> list[list[str]]:
    rows = [["kcoord against", "what", "ratio", "target", "met"]]
    for name in list(seen)[1:]:
        for field, what, target in (
            ("start_seconds", "faster to start", FASTER_START),
            ("idle", "less memory idle", LESS_IDLE),
            ("loaded", "less memory after the load", LESS_LOADED),
        ):
            ratio = _median(seen[name], field) / _median(seen["kcoord"], field)
            rows.append([name, what, f"{ratio:.1f}x", f"{target}x", "yes" if ratio >= target else "NO"])
    return rows


def _median(rounds: list[Measurement], field: str) -> float:
    values: list[float] = [getattr(each, field) for each in rounds]
    return median(values)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
