"""Retention: offsets expire `offsets.retention.minutes` after the time that the table counts from.

| group                           | retention counts from                                               |
|---------------------------------|---------------------------------------------------------------------|
| simple (nobody ever joined)     | the commit                                                          |
| Empty                           | when it became empty                                                |
| Stable, protocol type consumer  | the commit, for topics that no member subscribes to; others stay    |
| anything else                   | nothing expires                                                     |

An offset that was committed with a retention time (OffsetCommit up to version 4) expires by that instead.
"""

from kcoord.groups.classic.group import Group
from kcoord.groups.classic.protocols import CONSUMER
from kcoord.groups.classic.state import State
from kcoord.groups.records import CommitInfo, OffsetDeleted


def expired(group: Group, wall_ms: int, retention_ms: int) -> list[OffsetDeleted]:
    """Returns the tombstones of the group's offsets that have expired at `wall_ms`, given `offsets.retention.minutes`
    as milliseconds."""
    if not _may_expire(group):
        return []
    return [
        OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for topic, partitions in group.offsets.items()
        if not group.subscribes_to(topic)
        for partition, (*_, info) in partitions.items()
        if _is_expired(group, info, wall_ms, retention_ms)
    ]


def _may_expire(group: Group) -> bool:
    if group.protocol_type is None or group.is_empty:
        return True
    is_known = group.protocol_type == CONSUMER and group.subscribed_topics is not None
    return is_known and group.state is State.STABLE


def _is_expired(group: Group, info: CommitInfo, wall_ms: int, retention_ms: int) -> bool:
    if info.expires_at_ms is not None:
        return wall_ms >= info.expires_at_ms
    since_ms = info.committed_at_ms
    if group.protocol_type is not None and group.is_empty and group.since_ms is not None:
        since_ms = group.since_ms
    return wall_ms - since_ms >= retention_ms
