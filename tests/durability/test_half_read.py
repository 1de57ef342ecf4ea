"""What is done by the clock while groups are being read does not touch what was acknowledged."""

from itertools import count
from typing import Any, Final
from uuid import UUID

from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.instant import Instant
from kcoord.groups.requests import AskedGroup, FetchOffsets
from kcoord.server.group_runtime import GroupRuntime, make_offsets_topic
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.groups.commits import Line, commit_of

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
    asked = FetchOffsets(groups=(AskedGroup(group_id=group_id, topics=None),), is_by_id=False)
    fetch_offsets: Any = Coordinator.fetch_offsets
    reply: Any = runtime.decide(_NODE, fetch_offsets, asked, Ticket(1), _NOW)
    [group] = reply.groups
    assert group.error_code is ErrorCode.none
    return [line.committed_offset for topic in group.topics for line in topic.partitions]


def test_offsets_do_not_expire_by_what_is_read_of_them_so_far() -> None:
    cluster = _cluster()
    runtime = GroupRuntime(cluster, lambda: "id")
    _commit(runtime, "g", Line(0, 7), _LONG_AGO)
    for _ in range(300):  # more than is read at once
        _commit(runtime, "other", Line(0, 1, "x" * 3000), _NOW)
    _commit(runtime, "g", Line(0, 8), _NOW)
    runtime = GroupRuntime(cluster, lambda: "id")
    steps = runtime.read(lambda: _NOW)
    next(steps)
    runtime.expire_offsets(_NOW)
    assert runtime.flush(_NOW)
    for _ in steps:
        pass
    assert _offsets(runtime, "g") == [8]
    again = GroupRuntime(cluster, lambda: "id")
    for _ in again.read(lambda: _NOW):
        pass
    assert _offsets(again, "g") == [8]
