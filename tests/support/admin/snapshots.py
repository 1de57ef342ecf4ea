"""Builds snapshots of groups in few words: partitions are written "orders-0"."""

from collections.abc import Iterable, Mapping
from typing import Any

from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot, lag_of
from kcoord.admin.model import Bounds, Committed, Group, GroupType, Member, Node, Refusal, Topic, TopicPartition

NOW = 1_800_000_000.0
NODE = Node(id=1, host="127.0.0.1", port=9092)


def tp(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def member(name: str, *owned: str, topics: Iterable[str] | None = None, **changes: Any) -> Member:
    """Builds a member, by default with a subscription to the topics that it owns."""
    partitions = tuple(map(tp, owned))
    fields: dict[str, Any] = {
        "member_id": f"{name}-id",
        "instance_id": None,
        "client_id": name,
        "host": "/10.0.0.1",
        "assignment": partitions,
        "subscription": tuple(sorted({each.topic for each in partitions} if topics is None else topics)),
    }
    return Member(**fields | changes)


def group(*members: Member, state: str = "Stable", kind: GroupType = GroupType.CLASSIC, **changes: Any) -> Group:
    fields: dict[str, Any] = {
        "name": "g",
        "type": kind,
        "state": state,
        "protocol_type": "consumer",
        "protocol": "range",
        "coordinator": NODE,
        "members": members,
    }
    return Group(**fields | changes)


def seen_partition(
    tp: TopicPartition,
    committed: Committed | None,
    bounds: Bounds | None,
    owner: Member | None,
    next_record_at: int | None = None,
) -> PartitionLag:
    return PartitionLag(tp, committed, bounds, owner, lag_of(committed, bounds), next_record_at)


def seen(
    of: Group,
    logs: Mapping[str, tuple[int | None, int, int] | None] | None = None,
    *,
    next_record_at: float | None = None,
) -> GroupSnapshot:
    """Builds a group. Each log is (committed, start, end), or None if its bounds are unknown; `next_record_at` is in
    seconds."""
    logs = logs or {}
    owners = of.owners
    names = {*map(tp, logs), *owners}
    return GroupSnapshot(
        group=of, partitions=tuple(_partition(name, logs, owners, next_record_at) for name in sorted(names))
    )


def snapshot(*groups: GroupSnapshot, after: float = 0.0, refused: Iterable[Refusal] = ()) -> Snapshot:
    return Snapshot(at=NOW + after, groups={each.group.name: each for each in groups}, refused=tuple(refused))


def topic(name: str, partitions: int) -> Topic:
    return Topic(name=name, id=None, is_internal=False, leaders=dict.fromkeys(range(partitions), 1))


def _partition(
    name: TopicPartition,
    logs: Mapping[str, tuple[int | None, int, int] | None],
    owners: Mapping[TopicPartition, Member],
    next_record_at: float | None,
) -> PartitionLag:
    known = logs.get(str(name), (None, 0, 0))
    committed, start, end = known if known else (5, 0, 0)
    return seen_partition(
        tp=name,
        committed=None if committed is None else Committed(committed),
        bounds=Bounds(start, end) if known else None,
        owner=owners.get(name),
        next_record_at=None if next_record_at is None else int(next_record_at * 1000),
    )
