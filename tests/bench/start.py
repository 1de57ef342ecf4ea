"""How fast a server is there and how much memory it takes: python -m tests.bench.start [ROUNDS]

Each round starts kcoord and the real broker in turn, the broker both with the flags that its own script gives the JVM
and with the small, quick ones of kcoord.testing. Clocks run from the start of the process to the first Metadata answer.
Memory is read from /proc when the server was left alone for two seconds, and again after each of two loads:

  kept   200,000 records of 100 bytes in batches of about 20, by four producers, read by four consumers, all of them
         kept: by kcoord in memory, by Kafka on disk
  flow   2,000,000 such records by four producers into a topic that keeps 2 MiB of each of its four partitions

What is shown is the median of the rounds.
"""

import sys
import time
from dataclasses import dataclass
from statistics import median

from tests.bench import client
from tests.bench.machine import machine, table
from tests.bench.servers import SERVERS, Running

ROUNDS = 3
KEPT_RECORDS = 200_000
FLOW_RECORDS = 2_000_000
CLIENTS = 4
SMALL_BATCH = 2_400  # bytes: about 20 records
COMMON_BATCH = 16_384
MIB = 1 << 20
# How many times faster, or smaller, kcoord is to be than each of the two brokers.
FASTER_START, LESS_IDLE, LESS_LOADED = 15, 6, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One server in one round; memory in MiB."""

    start_seconds: float
    idle: float
    idle_proportional: float
    kept: float
    kept_proportional: float
    flow: float
    flow_proportional: float


def main(rounds: int = ROUNDS) -> None:
    print(f"start and memory: the median of {rounds} rounds\n{machine()}\n")
    seen: dict[str, list[Seen]] = {name: [] for name in SERVERS}
    for _ in range(rounds):
        for name, prepared in SERVERS.items():
            with Running(prepared) as server:
                seen[name].append(_look(server))
    print(table(_rows(seen)), "\n")
    print(table(_targets(seen)), "\n")


def _look(server: Running) -> Seen:
    time.sleep(2)
    idle, idle_proportional = server.memory()
    _keep(server.bootstrap)
    time.sleep(1)
    kept, kept_proportional = server.memory()
    client.delete_topic(server.bootstrap, "kept")
    _flow(server.bootstrap)
    time.sleep(3)
    flow, flow_proportional = server.memory()
    return Seen(
        start_seconds=server.start_seconds,
        idle=idle,
        idle_proportional=idle_proportional,
        kept=kept,
        kept_proportional=kept_proportional,
        flow=flow,
        flow_proportional=flow_proportional,
    )


def _keep(bootstrap: str) -> None:
    client.create_topic(bootstrap, "kept", partitions=CLIENTS)
    _produce(bootstrap, "kept", KEPT_RECORDS, SMALL_BATCH)
    consumers = [client.start("fetch", bootstrap, "kept", records=KEPT_RECORDS) for _ in range(CLIENTS)]
    for consumer in consumers:
        client.finish(consumer)


def _flow(bootstrap: str) -> None:
    keep = {"retention_bytes": str(2 * MIB), "segment_bytes": str(MIB)}
    client.create_topic(bootstrap, "flow", partitions=CLIENTS, **keep)
    _produce(bootstrap, "flow", FLOW_RECORDS, COMMON_BATCH)


def _produce(bootstrap: str, topic: str, records: int, batch: int) -> None:
    share = records // CLIENTS
    producers = [
        client.start("produce", bootstrap, topic, records=share, size=100, batch=batch) for _ in range(CLIENTS)
    ]
    for producer in producers:
        client.finish(producer)


def _rows(seen: dict[str, list[Seen]]) -> list[list[str]]:
    head = ["server", "start", "from–to", "idle RSS", "PSS", "kept RSS", "PSS", "flow RSS", "PSS"]
    return [head, *[[name, *_cells(rounds)] for name, rounds in seen.items()]]


def _cells(rounds: list[Seen]) -> list[str]:
    starts = [each.start_seconds for each in rounds]
    loads = [f"{load}{proportional}" for load in ("idle", "kept", "flow") for proportional in ("", "_proportional")]
    memory = [_median(rounds, name) for name in loads]
    spread = f"{min(starts):.2f}–{max(starts):.2f}"
    return [f"{median(starts):.2f} s", spread, *[f"{mib:.0f} MiB" for mib in memory]]


def _targets(seen: dict[str, list[Seen]]) -> list[list[str]]:
    rows = [["kcoord against", "what", "ratio", "target", "met"]]
    for name in list(seen)[1:]:
        for field, what, target in (
            ("start_seconds", "faster to start", FASTER_START),
            ("idle", "less memory idle", LESS_IDLE),
            ("kept", "less memory after the load that is kept", LESS_LOADED),
            ("flow", "less memory after the load that flows", LESS_LOADED),
        ):
            ratio = _median(seen[name], field) / _median(seen["kcoord"], field)
            rows.append([name, what, f"{ratio:.1f}x", f"{target}x", "yes" if ratio >= target else "NO"])
    return rows


def _median(rounds: list[Seen], field: str) -> float:
    values: list[float] = [getattr(each, field) for each in rounds]
    return median(values)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
