"""Builders of commits, partition by partition."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kcoord.groups import requests
from kcoord.groups.classic.member import Holder
from kcoord.groups.records import OffsetsStored


class Line(NamedTuple):
    """The commit of one partition."""

    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


CommittedTopic = tuple[str | UUID, Sequence[Line]]


def commit_of(
    topics: Sequence[CommittedTopic],
    *,
    group_id: str = "g",
    member_id: str = "",
    instance_id: str | None = None,
    generation: int = -1,
    retention: float | None = None,
    client_id: str = "client",
    host: str = "/127.0.0.1",
    principal: str = "",
) -> requests.Commit:
    return requests.Commit(
        group_id=group_id,
        member_id=member_id,
        instance_id=instance_id,
        generation=generation,
        retention=retention,
        holder=Holder(principal, host, client_id),
        topics=tuple(_topic(name, lines) for name, lines in topics),
        offsets=tuple(line.offset for _, lines in topics for line in lines),
    )


def stored(group_id: str, topic: str, lines: Sequence[Line], committed_at_ms: int) -> OffsetsStored:
    return OffsetsStored(
        group_id=group_id,
        topic=topic,
        partitions=tuple(line.partition for line in lines),
        offsets=tuple(line.offset for line in lines),
        leader_epochs=tuple(line.leader_epoch for line in lines),
        metadata=tuple(line.metadata for line in lines),
        committed_at_ms=committed_at_ms,
    )


def _topic(name: str | UUID, lines: Sequence[Line]) -> requests.CommittedTopic:
    return requests.CommittedTopic(
        name=name if isinstance(name, str) else None,
        topic_id=None if isinstance(name, str) else name,
        partitions=tuple(line.partition for line in lines),
        leader_epochs=tuple(line.leader_epoch for line in lines),
        metadata=tuple(line.metadata for line in lines),
    )
