"""How long plans take, in kcoord and in Java: python -m tests.bench.assignors [MEMBERSxTOPICSxPARTITIONS …]

The same members, all subscribed to all topics, are assigned for the first time, after one member was added, and after
one was removed. Each strategy starts from its own plan before the change. Two times are taken: that of the plan, from
decoded subscriptions; and that of the leader's whole work, from the bytes of subscriptions to the bytes of assignments.

Java's classes run in a JVM with its default flags, which is warm when the clock starts. What is shown is the median of
the rounds. Garbage of one round is collected before the next one, on both sides outside of the clock where Python is
concerned: Java decides for itself.
"""

import gc
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from kcoord.assignors.plan import MemberPlan, Plan, Topics
from kcoord.assignors.strategies import STRATEGIES, Strategy
from kcoord.assignors.subscriptions import subscriber_from
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    decode_subscription,
    write_assignment,
    write_sticky_user_data,
    write_subscription,
)
from kcoord.testing.jars import kafka_jvm
from kcoord.testing.process import temporary_folder
from tests.bench.support.machine import machine, table

ROUNDS: Final = 7
GENERATION: Final = 7
SIZES: Final = ("1000x100x1000", "200x1000x1000")
GROWTH: Final = ("1000x10x1000", "1000x1000x1000")
TARGETS: Final = {"range": 1.0, "roundrobin": 1.0, "sticky": 2.0, "cooperative-sticky": 2.0}
SOURCE: Final = Path(__file__).parent / "support" / "AssignorBench.java"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A group of so many members, with so many topics of so many partitions, and what has changed in it."""

    strategy: str
    members: int
    topics: int
    partitions: int
    change: str


def main(sizes: tuple[str, ...] = (*SIZES, *GROWTH)) -> None:
    print(f"plans: medians of {ROUNDS} rounds, in milliseconds\n{machine()}\n")
    for size in sizes:
        members, topics, partitions = map(int, size.split("x"))
        print(
            f"{members:,} members, {topics:,} topics of {partitions:,} partitions: {topics * partitions:,} partitions"
        )
        rows = [["strategy", "change", "plan", "Java", "ratio", "bytes to bytes", "Java", "ratio", "target", "met"]]
        for strategy in TARGETS:
            for change in ("first", "added", "removed"):
                load = Load(strategy=strategy, members=members, topics=topics, partitions=partitions, change=change)
                rows.append(_row(load, _measure(load), _measure_java(load)))
        print(table(rows), "\n", flush=True)


def _row(load: Load, ours: tuple[float, float], java: tuple[float, float]) -> list[str]:
    target = TARGETS[load.strategy]
    return [
        load.strategy,
        load.change,
        f"{ours[0]:.1f} ms",
        f"{java[0]:.1f} ms",
        f"{ours[0] / java[0]:.2f}x",
        f"{ours[1]:.1f} ms",
        f"{java[1]:.1f} ms",
        f"{ours[1] / java[1]:.2f}x",
        f"{target:.0f}x",
        "yes" if ours[0] <= target * java[0] else "no",
    ]


def _measure(load: Load) -> tuple[float, float]:
    strategy = STRATEGIES[load.strategy]
    topics = Topics(counts={f"topic-{topic:04}": load.partitions for topic in range(load.topics)})
    subscriptions = _subscriptions(load, strategy, topics)
    plans, wholes = [], []
    for _ in range(ROUNDS):
        decoded = {member_id: decode_subscription(content) for member_id, content in subscriptions.items()}
        gc.collect()
        start = time.perf_counter()
        plan = _plan(strategy, decoded, topics)
        plans.append(time.perf_counter() - start)
        del plan, decoded
        gc.collect()
        start = time.perf_counter()
        decoded = {member_id: decode_subscription(content) for member_id, content in subscriptions.items()}
        plan = _plan(strategy, decoded, topics)
        for held in plan.values():
            write_assignment(held)
        wholes.append(time.perf_counter() - start)
        del plan, decoded
    return median(plans) * 1000, median(wholes) * 1000


def _plan(strategy: Strategy, decoded: dict[str, Subscription], topics: Topics) -> Plan:
    assert strategy.owned_from is not None
    members = [subscriber_from(member_id, each, strategy.owned_from) for member_id, each in decoded.items()]
    return strategy.assign(members, topics)


def _subscriptions(load: Load, strategy: Strategy, topics: Topics) -> dict[str, bytes]:
    before = {"first": 0, "added": load.members - 1, "removed": load.members + 1}[load.change]
    wanted = tuple(topics.counts)
    plain = Subscription(topics=wanted)
    owned: Plan = _plan(strategy, {_name(member): plain for member in range(before)}, topics) if before else {}
    removed = load.members // 2 if load.change == "removed" else None
    last = load.members + (removed is not None)
    return {
        _name(member): write_subscription(_subscription(load, wanted, owned.get(_name(member))))
        for member in range(last)
        if member != removed
    }


def _subscription(load: Load, topics: tuple[str, ...], owned: MemberPlan | None) -> Subscription:
    if owned is None or load.strategy in ("range", "roundrobin"):
        return Subscription(topics=topics)
    if load.strategy == "cooperative-sticky":
        return Subscription(topics=topics, owned=owned, generation=GENERATION)
    data = OwnedPartitions(owned=owned, generation=GENERATION)
    return Subscription(topics=topics, user_data=write_sticky_user_data(data), generation=GENERATION)


def _measure_java(load: Load) -> tuple[float, float]:
    arguments = [load.strategy, str(load.members), str(load.topics), str(load.partitions), load.change, str(ROUNDS)]
    with temporary_folder() as folder:
        command = kafka_jvm().command(
            str(SOURCE), *arguments, temp_folder=Path(folder), flags=("-Xmx8g",), log_level="off"
        )
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    plans, wholes = (json.loads(line) for line in printed.splitlines())
    return median(plans), median(wholes)


def _name(member: int) -> str:
    return f"consumer-{member:05}-5e1f0000-0000-4000-8000-{member * 7919:012}"


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or (*SIZES, *GROWTH))
