"""The clock does not touch acknowledged state while groups are being loaded."""

from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from uuid import UUID

from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.broker.offsets_topic import make_offsets_topic
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.instant import Instant
from kcoord.groups.requests import FetchOffsets, RequestedGroup
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.support.groups.commits import Line, commit_of

_NODE: Final = NodeId(1)
_LONG_AGO: Final = Instant(1000.0, 1_700_000_000_000)
_NOW: Final = Instant(1000.0 + 30 * 86_400, 1_700_000_000_000 + 30 * 86_400_000)


def _cluster() -> Cluster:
    ids = count(1)
    cluster = Cluster(
        cluster_id="c",
        nodes=[Node(node_id=_NODE, host="host", port=1)],
        settings=Settings(offsets_topic_num_partitions=1),
        fresh_id=lambda: UUID(int=next(ids)),
    )
    cluster.create_topic("t", [(_NODE,)], {}, _LONG_AGO.wall_ms)
    make_offsets_topic(cluster, _LONG_AGO.wall_ms)
    return cluster


def _commit(runtime: GroupRuntime, group_id: str, line: Line, at: Instant) -> None:
    commit: Any = Coordinator.commit
    runtime.decide(_NODE, commit, commit_of([("t", [line])], group_id=group_id), Ticket(1), at)
    assert runtime.flush(at)


def _offsets(runtime: GroupRuntime, group_id: str) -> list[int]:
    asked = FetchOffsets(groups=(RequestedGroup(group_id=group_id, topics=None),), is_by_id=False)
    fetch_offsets: Any = Coordinator.fetch_offsets
    reply: Any = runtime.decide(_NODE, fetch_offsets, asked, Ticket(1), _NOW)
    [group] = reply.groups
    assert group.error_code is ErrorCode.none
    return [line.committed_offset for topic in group.topics for line in topic.partitions]


def _half_read(cluster: Cluster) -> tuple[GroupRuntime, Iterator[None]]:
    """Returns a runtime that has loaded the first of two commits of "g", and the steps that load the rest."""
    runtime = GroupRuntime(cluster, lambda: "id")
    _commit(runtime, "g", Line(0, 7), _LONG_AGO)
    for _ in range(300):  # More than is read at once.
        _commit(runtime, "other", Line(0, 1, "x" * 3000), _NOW)
    _commit(runtime, "g", Line(0, 8), _NOW)
    runtime = GroupRuntime(cluster, lambda: "id")
    steps = runtime.load(lambda: _NOW)
    next(steps)
    return runtime, steps


def _finish(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _read_anew(cluster: Cluster) -> GroupRuntime:
    runtime = GroupRuntime(cluster, lambda: "id")
    _finish(runtime.load(lambda: _NOW))
    return runtime


def test_offsets_do_not_expire_by_what_is_read_of_them_so_far() -> None:
    cluster = _cluster()
    runtime, steps = _half_read(cluster)
    runtime.expire_offsets(_NOW)
    assert runtime.flush(_NOW)
    _finish(steps)
    assert _offsets(runtime, "g") == [8]
    assert _offsets(_read_anew(cluster), "g") == [8]


def test_offsets_of_a_topic_that_is_deleted_meanwhile_do_not_come_back_with_what_is_read_later() -> None:
    cluster = _cluster()
    runtime, steps = _half_read(cluster)
    topic = cluster.topics["t"]
    cluster.delete_topic(topic)
    runtime.topic_deleted("t", topic.topic_id, _NOW)
    _finish(steps)
    assert _offsets(runtime, "g") == []
    assert runtime.flush(_NOW)
    assert _offsets(_read_anew(cluster), "g") == []


def test_offsets_of_a_topic_that_is_made_anew_meanwhile_are_those_that_are_committed_then() -> None:
    cluster = _cluster()
    runtime, steps = _half_read(cluster)
    topic = cluster.topics["t"]
    cluster.delete_topic(topic)
    runtime.topic_deleted("t", topic.topic_id, _NOW)
    cluster.create_topic("t", [(_NODE,)], {}, _NOW.wall_ms)
    _finish(steps)
    assert _offsets(runtime, "g") == []
    _commit(runtime, "g", Line(0, 1), _NOW)
    assert _offsets(runtime, "g") == [1]
    assert _offsets(_read_anew(cluster), "g") == [1]
