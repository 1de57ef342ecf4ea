"""The coordinator against the real broker: python -m tests.bench.groups [heartbeats] [commits] [rebalances] [growth]

Both servers are up all the time. Each is warmed up with each load, for as long as the JIT compilers need. When both are
quiet again, they are measured in turn, round by round, under the same load (load/), each time after a little warm-up.
The loads follow each other, those that write most last: either server compacts its log for a while afterwards, which
would be in the way of whatever is measured next. Shown are medians over the rounds. The server's CPU time is that of
its whole process, kernel and garbage collection included, so that a ratio of requests per CPU-second holds even where
the two share the machine with the load in different ways.

    heartbeats   200 members of one group, each with 1 or 8 requests in flight on its connection
    commits      the same members, of 1 or 100 offsets in each request, no two requests with the same offsets; what is
                 acknowledged is in the log of __consumer_offsets of either server
    rebalances   all members of a Stable group rejoin at the same moment, with a new subscription of 140 bytes for each
                 of two protocols, and the leader hands out assignments of 90 bytes: until the last member has its own
    growth       how these change with members, groups and offsets
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from tests.bench.support import client
from tests.bench.support.generator import Flood, Generator
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SCRIPT_FLAGS, SETTINGS, Kafka, Kcoord, Prepared, Running

ROUNDS = 5
REBALANCE_ROUNDS = 9  # of these, as each is over in a tenth of a second or two
JIT_WARMUP = 30  # seconds of each load before anything is measured
QUIET, QUIET_CORES, MOST_SECONDS_TO_QUIET = 17, 0.12, 120  # seconds: both check for logs to compact every 15
WARMUP, WINDOW = "2s", "5s"
TOPICS = [f"bench-commits-{number}" for number in range(10)]
PARTITIONS = 100  # of each topic
# The goals: how many times more requests per CPU-second, and how many times faster rebalances.
MORE_REQUESTS, FASTER_REBALANCE = 2.0, 1.0
KCOORD, KAFKA = "kcoord", "Kafka"
GROUP_SETTINGS = {**SETTINGS, "offsets.topic.num.partitions": "50", "group.initial.rebalance.delay.ms": "0"}
RIVALS: dict[str, Prepared] = {
    KCOORD: Kcoord(GROUP_SETTINGS, has_data_dir=True),
    KAFKA: Kafka(SCRIPT_FLAGS, uses_archive=False, settings=GROUP_SETTINGS),
}
SECTIONS = ("heartbeats", "commits", "rebalances", "growth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One load: the verb of the generator and its options."""

    name: str
    verb: str
    members: int = 200
    groups: int = 1
    inflight: int = 1
    topics: int = 1
    partitions: int = 1

    @property
    def options(self) -> dict[str, object]:
        common: dict[str, object] = {"members": self.members, "groups": self.groups, "inflight": self.inflight}
        if self.verb == "heartbeat":
            return common
        return {**common, "topics": ",".join(TOPICS[: self.topics]), "partitions": self.partitions}


HEARTBEATS = (
    Setting(name="1 in flight", verb="heartbeat"),
    Setting(name="8 in flight", verb="heartbeat", inflight=8),
)
COMMITS = (
    Setting(name="1 offset", verb="commit"),
    Setting(name="1 offset, 8 in flight", verb="commit", inflight=8),
    Setting(name="100 offsets", verb="commit", topics=10, partitions=10),
    Setting(name="100 offsets, 8 in flight", verb="commit", topics=10, partitions=10, inflight=8),
)
HEARTBEAT_GROWTH = tuple(
    Setting(name=f"{members:,} in {groups}", verb="heartbeat", members=members // groups, groups=groups)
    for members, groups in ((10, 1), (100, 1), (1000, 1), (100, 10), (1000, 10), (1000, 100))
)
COMMIT_GROWTH = tuple(
    Setting(name=f"{topics * partitions:,}", verb="commit", members=50, topics=topics, partitions=partitions)
    for topics, partitions in ((1, 1), (1, 10), (10, 10), (10, 100))
)
REBALANCES = ((10, 1), (50, 1), (200, 1), (1000, 1))  # members and groups
REBALANCE_GROWTH = ((50, 1), (50, 4), (50, 20), (10, 100))


@dataclass(frozen=True, slots=True)
class Bench:
    load: Generator
    servers: dict[str, Running]

    def floods(self, settings: Sequence[Setting], rounds: int) -> dict[tuple[str, str], list[Flood]]:
        """Runs all settings on all servers; the results are by setting and server."""
        seen: dict[tuple[str, str], list[Flood]] = defaultdict(list)
        for setting in settings:
            for _ in range(rounds):
                for name, server in self.servers.items():
                    flood = self.load.flood(setting.verb, server, warmup=WARMUP, window=WINDOW, **setting.options)
                    seen[setting.name, name].append(flood)
        return seen

    def warm_up(self, settings: Iterable[Setting]) -> None:
        for setting in settings:
            for server in self.servers.values():
                self.load.flood(setting.verb, server, warmup=f"{JIT_WARMUP}s", window="1s", **setting.options)

    def rest(self) -> None:
        """Waits until neither server has done anything for a while."""
        give_up_at, quiet = time.monotonic() + MOST_SECONDS_TO_QUIET, 0
        while quiet < QUIET and time.monotonic() < give_up_at:
            before = {name: server.cpu_seconds() for name, server in self.servers.items()}
            time.sleep(1)
            used = [server.cpu_seconds() - before[name] for name, server in self.servers.items()]
            quiet = quiet + 1 if max(used) < QUIET_CORES else 0

    def rebalances(self, sizes: Sequence[tuple[int, int]], rounds: int) -> dict[tuple[int, int, str], list[float]]:
        """Returns the median of each round, by members, groups and server."""
        seen: dict[tuple[int, int, str], list[float]] = defaultdict(list)
        for number in range(rounds + 1):
            for members, groups in sizes:
                for name, server in self.servers.items():
                    # The first round is for the JIT compilers: some 20,000 joins.
                    warmup = 5 if number else max(5, 20_000 // (members * groups))
                    run = self.load.rebalance(server, members=members, groups=groups, warmup_rounds=warmup, rounds=21)
                    if number:
                        seen[members, groups, name].append(median(run.rounds))
        return seen


def main(sections: Sequence[str] = SECTIONS) -> None:
    unknown = set(sections) - set(SECTIONS)
    assert not unknown, f"{', '.join(unknown)}: say any of {', '.join(SECTIONS)}"
    print(f"groups: medians of {ROUNDS} rounds, of {REBALANCE_ROUNDS} for rebalances\n{machine()}\n")
    with ExitStack() as stack:
        load = stack.enter_context(Generator())
        servers = {name: stack.enter_context(Running(prepared)) for name, prepared in RIVALS.items()}
        for server in servers.values():
            for topic in TOPICS:
                client.create_topic(server.bootstrap, topic, partitions=PARTITIONS)
        bench = Bench(load, servers)
        for section in sections:
            _SECTIONS[section](bench)


def _heartbeats(bench: Bench) -> None:
    bench.warm_up(HEARTBEATS)
    bench.rest()
    _show("heartbeats of 200 members", HEARTBEATS, bench.floods(HEARTBEATS, ROUNDS), target=MORE_REQUESTS)


def _commits(bench: Bench) -> None:
    bench.warm_up(COMMITS)
    bench.rest()
    _show("commits of 200 members", COMMITS, bench.floods(COMMITS, ROUNDS), target=MORE_REQUESTS)


def _rebalances(bench: Bench) -> None:
    bench.rest()
    _show_rebalances("rebalances of one group", REBALANCES, bench.rebalances(REBALANCES, REBALANCE_ROUNDS))


def _growth(bench: Bench) -> None:
    bench.warm_up((HEARTBEATS[0], COMMITS[2]))
    bench.rest()
    _show("heartbeats, by members in groups", HEARTBEAT_GROWTH, bench.floods(HEARTBEAT_GROWTH, 1))
    _show("commits of 50 members, by offsets in a request", COMMIT_GROWTH, bench.floods(COMMIT_GROWTH, 1))
    _show_rebalances("rebalances of groups at once", REBALANCE_GROWTH, bench.rebalances(REBALANCE_GROWTH, 1))


_SECTIONS: dict[str, Callable[[Bench], None]] = {
    "heartbeats": _heartbeats,
    "commits": _commits,
    "rebalances": _rebalances,
    "growth": _growth,
}


def _show(
    title: str, settings: Sequence[Setting], seen: dict[tuple[str, str], list[Flood]], target: float | None = None
) -> None:
    head = ["", "kcoord req/s", "Kafka", "kcoord req/CPU s", "Kafka", "ratio", "p99", "Kafka", "cores", "Kafka"]
    head += ["load", "Kafka", "refused"]
    rows = [[*head, *(["target", "met"] if target else [])]]
    for setting in settings:
        ours, theirs = seen[setting.name, KCOORD], seen[setting.name, KAFKA]
        assert not any(each.refused for each in ours), "kcoord refused requests"
        ratio = _median(ours, "per_cpu_second") / _median(theirs, "per_cpu_second")
        row = [setting.name]
        row += [f"{_median(side, 'per_second'):,.0f}" for side in (ours, theirs)]
        row += [f"{_median(side, 'per_cpu_second'):,.0f}" for side in (ours, theirs)]
        row += [f"{ratio:.2f}x"]
        row += [f"{_median(side, 'p99') * 1000:.1f} ms" for side in (ours, theirs)]
        row += [f"{_median(side, 'server_cores'):.2f}" for side in (ours, theirs)]
        row += [f"{_median(side, 'load_cores'):.2f}" for side in (ours, theirs)]
        row += [str(sum(each.refused for each in theirs))]
        rows.append([*row, *([f"{target:.1f}x", "yes" if ratio >= target else "NO"] if target else [])])
    print(f"{title}\n{table(rows)}\n")


def _show_rebalances(
    title: str, sizes: Sequence[tuple[int, int]], seen: dict[tuple[int, int, str], list[float]]
) -> None:
    rows = [["members", "groups", "kcoord", "Kafka", "times faster", "no slower"]]
    for members, groups in sizes:
        ours, theirs = (median(seen[members, groups, name]) for name in (KCOORD, KAFKA))
        faster = theirs / ours
        is_met = "yes" if faster >= FASTER_REBALANCE else "NO"
        rows.append(
            [f"{members:,}", str(groups), f"{ours * 1000:.1f} ms", f"{theirs * 1000:.1f} ms", f"{faster:.2f}x", is_met]
        )
    print(f"{title}\n{table(rows)}\n")


def _median(floods: Sequence[Flood], name: str) -> float:
    values: list[float] = [getattr(flood, name) for flood in floods]
    return median(values)


if __name__ == "__main__":
    main(sys.argv[1:] or SECTIONS)
