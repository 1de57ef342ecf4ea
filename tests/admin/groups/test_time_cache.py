"""The times of next records, read once from an embedded cluster and cached over successive snapshots."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.snapshot_reader import read_snapshot as take_snapshot
from kcoord.admin.groups.time_cache import TimeCache
from kcoord.admin.model import Answers, Bounds, Committed, Position
from kcoord.admin.opening import open_cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.snapshots import tp

FIRST_AT = 1_700_000_000_000


class _Counting:
    """A client that counts the positions whose times were requested."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.asked: list[set[Position]] = []

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        self.asked.append(set(positions))
        answers: Answers[Position, int] = self._cluster.timestamps(positions)
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


@pytest.fixture
def cluster(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Any:
    embedded = kcoord_cluster_factory(topics={"t": 2})
    producer = Producer({"bootstrap.servers": embedded.bootstrap})
    for number in range(10):
        for partition in (0, 1):
            producer.produce("t", b"x", partition=partition, timestamp=FIRST_AT + 1000 * number + partition)
    producer.flush()
    with open_cluster(Connection(bootstrap=(embedded.bootstrap,))) as live:
        live.commit("done", {tp("t-0"): Committed(10)})
        live.commit("g", {tp("t-0"): Committed(3), tp("t-1"): Committed(7)})
        yield _Counting(live)


def _snapshot(cluster: Any) -> Snapshot:
    return take_snapshot(cluster, ["g", "done"], at=FIRST_AT / 1000 + 60, with_times=False)


def _times(snapshot: Snapshot) -> dict[str, int | None]:
    return {str(seen.tp): seen.next_record_at for seen in snapshot.groups["g"].partitions}


def test_the_time_of_the_next_record_is_read_once(cluster: Any) -> None:
    cache = TimeCache()
    first = cache.fill(cluster, _snapshot(cluster))
    assert _times(first) == {"t-0": FIRST_AT + 3000, "t-1": FIRST_AT + 7001}
    assert first.groups["g"].worst_seconds(first.at) == 57.0
    assert _times(cache.fill(cluster, _snapshot(cluster))) == _times(first)
    cluster.commit("g", {tp("t-1"): Committed(8)})
    assert _times(cache.fill(cluster, _snapshot(cluster))) == {"t-0": FIRST_AT + 3000, "t-1": FIRST_AT + 8001}
    assert cluster.asked == [{(tp("t-0"), 3), (tp("t-1"), 7)}, {(tp("t-1"), 8)}]


def test_a_look_reads_no_more_than_some_and_the_largest_lag_first(cluster: Any) -> None:
    cache = TimeCache(read_at_once=1)
    assert _times(cache.fill(cluster, _snapshot(cluster))) == {"t-0": FIRST_AT + 3000, "t-1": None}
    assert _times(cache.fill(cluster, _snapshot(cluster))) == {"t-0": FIRST_AT + 3000, "t-1": FIRST_AT + 7001}
    cache.fill(cluster, _snapshot(cluster))
    assert cluster.asked == [{(tp("t-0"), 3)}, {(tp("t-1"), 7)}]


def test_a_group_that_has_consumed_all_costs_nothing(cluster: Any) -> None:
    cache = TimeCache()
    done = take_snapshot(cluster, ["done"], at=0.0, with_times=False)
    assert cache.fill(cluster, done).groups["done"].worst_seconds(0.0) == 0.0
    assert cluster.asked == []


def test_positions_without_an_answer_do_not_keep_the_others_waiting(cluster: Any) -> None:
    class Withholding(_Counting):
        def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
            answers = super().timestamps(positions)
            return Answers(found={each: time for each, time in answers.found.items() if each[0] != tp("t-0")})

    cache, withholding = TimeCache(read_at_once=1), Withholding(cluster)
    for _ in range(2):
        last = cache.fill(withholding, _snapshot(cluster))
    assert _times(last) == {"t-0": None, "t-1": FIRST_AT + 7001}


def test_a_log_that_was_deleted_whole_is_not_asked(cluster: Any) -> None:
    snapshot = _snapshot(cluster)
    emptied = tuple(seen._replace(bounds=Bounds(start=10, end=10)) for seen in snapshot.groups["g"].partitions)
    TimeCache().fill(cluster, replace(snapshot, groups={"g": replace(snapshot.groups["g"], partitions=emptied)}))
    assert cluster.asked == []
