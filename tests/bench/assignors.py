"""How long plans take, in kcoord and in Java: python -m tests.bench.assignors [MEMBERSxTOPICSxPARTITIONS …]

The same members, all subscribed to all topics, are assigned for the first time, after one member was added, and after
one was removed. Each strategy starts from its own plan before the change. Two times are taken: that of the plan, from
decoded subscriptions; and that of the leader's whole work, from the bytes of subscriptions to the bytes of assignments.
Server-side assignors have no such bytes.

Both sides take turns, round by round, and what counts is the median of the rounds' ratios. Times are processor time of
the thread that plans, so that other work on the machine matters less. Java's classes run in one JVM with its default
flags, warmed up with ten plans for each group. Garbage of one round is collected before the next one outside of the
clock in Python; in Java other threads collect it, whose time is not counted.
"""

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple
from uuid import UUID

from kcoord.assignors.plan import MemberPlan, Plan, Subscriber, Topics
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

ROUNDS: Final = 5
GENERATION: Final = 7
SIZES: Final = ("200x100x1000", "1000x100x1000", "200x1000x1000")
"""The second has five times as many members as the first one, the third ten times as many partitions."""
TARGETS: Final = {"range": 1.0, "roundrobin": 1.0, "sticky": 2.0, "cooperative-sticky": 2.0}
SOURCE: Final = Path(__file__).parent / "support" / "AssignorBench.java"


class Seconds(NamedTuple):
    """What a plan took: processor time, and time by the clock."""

    processor: float
    clock: float


class Round(NamedTuple):
    """One plan, and the way from bytes to bytes."""

    plan: Seconds
    whole: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A group of so many members, with so many topics of so many partitions, and what has changed in it."""

    strategy: str
    members: int
    topics: int
    partitions: int
    change: str


def main(sizes: tuple[str, ...] = SIZES) -> None:
    print(f"plans: medians of {ROUNDS} rounds, in milliseconds of processor time\n{machine()}\n")
    with _java() as start_java:
        for size in sizes:
            members, topics, partitions = map(int, size.split("x"))
            print(f"{members:,} members, {topics:,} topics of {partitions:,}: {topics * partitions:,} partitions")
            rows = [["strategy", "change", "plan", "Java", "ratio", "bytes to bytes", "Java", "ratio", "target", "met"]]
            for strategy in STRATEGIES:
                for change in ("first", "added", "removed"):
                    load = Load(strategy=strategy, members=members, topics=topics, partitions=partitions, change=change)
                    run = _kcoord(load)
                    run_java = start_java(load)
                    rows.append(_row(load, [(run(), run_java()) for _ in range(ROUNDS)]))
            print(table(rows), flush=True)
            print(f"most memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MiB\n")


def _row(load: Load, rounds: list[tuple[Round, Round]]) -> list[str]:
    target = TARGETS.get(load.strategy)
    plan = _cells([(ours.plan, java.plan) for ours, java in rounds])
    whole = ["", "", ""]
    if not STRATEGIES[load.strategy].is_server_side:
        whole = _cells([(ours.whole, java.whole) for ours, java in rounds])
    ratio = median(ours.plan.processor / java.plan.processor for ours, java in rounds)
    met = "" if target is None else "yes" if ratio <= target else "no"
    return [load.strategy, load.change, *plan, *whole, "" if target is None else f"{target:.0f}x", met]


def _cells(pairs: list[tuple[Seconds, Seconds]]) -> list[str]:
    """Returns the medians of both sides, and that of their ratios."""
    return [
        f"{median(ours.processor for ours, _ in pairs) * 1000:.1f} ms",
        f"{median(java.processor for _, java in pairs) * 1000:.1f} ms",
        f"{median(ours.processor / java.processor for ours, java in pairs):.2f}x",
    ]


def _measured(work: Callable[[], object]) -> Seconds:
    gc.collect()
    clock, processor = time.perf_counter(), time.thread_time()
    work()
    return Seconds(time.thread_time() - processor, time.perf_counter() - clock)


def _kcoord(load: Load) -> Callable[[], Round]:
    """Returns what plans once for the group."""
    strategy = STRATEGIES[load.strategy]
    topics = _topics(load)
    if strategy.is_server_side:
        members = _served(load, strategy, topics)
        return lambda: Round(_measured(lambda: strategy.assign(members, topics)), Seconds(0, 0))
    subscriptions = _subscriptions(load, strategy, topics)
    decoded = {member_id: decode_subscription(content) for member_id, content in subscriptions.items()}

    def whole() -> None:
        fresh = {member_id: decode_subscription(content) for member_id, content in subscriptions.items()}
        for held in _plan(strategy, fresh, topics).values():
            write_assignment(held)

    return lambda: Round(_measured(lambda: _plan(strategy, decoded, topics)), _measured(whole))


def _topics(load: Load) -> Topics:
    names = [f"topic-{topic:04}" for topic in range(load.topics)]
    ids = {name: UUID(int=0x5E1F_0000_0000_4000 << 64 | topic * 7919 + 1) for topic, name in enumerate(names)}
    return Topics(counts=dict.fromkeys(names, load.partitions), ids=ids)


def _before(load: Load) -> list[str]:
    return [
        _name(member) for member in range({"first": 0, "added": load.members - 1}.get(load.change, load.members + 1))
    ]


def _present(load: Load) -> list[str]:
    """Returns the members after the change. Of those before it, the one in the middle is removed."""
    removed = load.members // 2 if load.change == "removed" else None
    return [_name(member) for member in range(load.members + (removed is not None)) if member != removed]


def _served(load: Load, strategy: Strategy, topics: Topics) -> list[Subscriber]:
    wanted = tuple(topics.counts)
    before = strategy.assign([Subscriber(member_id=each, topics=wanted) for each in _before(load)], topics)
    return [Subscriber(member_id=each, topics=wanted, owned=before.get(each, {})) for each in _present(load)]


def _plan(strategy: Strategy, decoded: dict[str, Subscription], topics: Topics) -> Plan:
    assert strategy.owned_from is not None
    members = [subscriber_from(member_id, each, strategy.owned_from) for member_id, each in decoded.items()]
    return strategy.assign(members, topics)


def _subscriptions(load: Load, strategy: Strategy, topics: Topics) -> dict[str, bytes]:
    wanted = tuple(topics.counts)
    owned = _plan(strategy, {member_id: Subscription(topics=wanted) for member_id in _before(load)}, topics)
    return {
        member_id: write_subscription(_subscription(load, wanted, owned.get(member_id))) for member_id in _present(load)
    }


def _subscription(load: Load, topics: tuple[str, ...], owned: MemberPlan | None) -> Subscription:
    if owned is None or load.strategy in ("range", "roundrobin"):
        return Subscription(topics=topics)
    if load.strategy == "cooperative-sticky":
        return Subscription(topics=topics, owned=owned, generation=GENERATION)
    data = OwnedPartitions(owned=owned, generation=GENERATION)
    return Subscription(topics=topics, user_data=write_sticky_user_data(data), generation=GENERATION)


@contextmanager
def _java() -> Iterator[Callable[[Load], Callable[[], Round]]]:
    """Yields a function that prepares a group in the JVM, and returns what plans once for it."""
    with temporary_folder() as folder:
        command = kafka_jvm().command(str(SOURCE), temp_folder=Path(folder), flags=("-Xmx5g",), log_level="off")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def ask(line: str) -> str:
                assert process.stdin
                assert process.stdout
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
                return process.stdout.readline()

            def play() -> Round:
                plan, plan_clock, whole, whole_clock = map(float, ask("round").split())
                return Round(Seconds(plan, plan_clock), Seconds(whole, whole_clock))

            def start(load: Load) -> Callable[[], Round]:
                answer = ask(f"load {load.strategy} {load.members} {load.topics} {load.partitions} {load.change}")
                assert answer == "ready\n", "see what Java printed"
                return play

            yield start
            assert process.stdin
            process.stdin.close()


def _name(member: int) -> str:
    return f"consumer-{member:05}-5e1f0000-0000-4000-8000-{member * 7919:012}"


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or SIZES)
