"""OffsetCommit: by topic name up to version 9, by id from 10 on; up to 4 with a retention time."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import NO_EPOCH, CommitReply, TopicErrors
from kcoord.groups.requests import Commit, CommittedTopic


def to_request(entity: Any, caller: Caller) -> Commit:
    """Converts kio's OffsetCommit request of any version to the version-free one."""
    version = entity.__version__
    return Commit(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id if version >= 7 else None,
        generation=entity.generation_id_or_member_epoch,
        retention=_retention(entity) if version <= 4 else None,
        holder=caller.holder,
        topics=tuple([_topic(topic, version) for topic in entity.topics]),
        offsets=tuple([partition.committed_offset for topic in entity.topics for partition in topic.partitions]),
    )


def with_fields(request: Commit, offsets: tuple[int, ...]) -> Commit:
    """Returns the OffsetCommit request with other committed offsets."""
    return Commit(*request[:-1], offsets)


def to_response(reply: CommitReply, version: int) -> CommitReply:
    """Adapts the reply to a version: replaces GROUP_ID_NOT_FOUND by ILLEGAL_GENERATION before version 9, which does not
    know the former.
    """
    if version >= 9:
        return reply
    return CommitReply(topics=tuple(map(_for_old_versions, reply.topics)))


def _for_old_versions(topic: TopicErrors) -> TopicErrors:
    if all(partition.error_code is not ErrorCode.group_id_not_found for partition in topic.partitions):
        return topic
    partitions = (
        partition._replace(error_code=ErrorCode.illegal_generation)
        if partition.error_code is ErrorCode.group_id_not_found
        else partition
        for partition in topic.partitions
    )
    return topic._replace(partitions=tuple(partitions))


def _topic(topic: Any, version: int) -> CommittedTopic:
    partitions, is_by_id = topic.partitions, version >= 10
    return CommittedTopic(
        name=None if is_by_id else topic.name,
        topic_id=topic.topic_id if is_by_id else None,
        partitions=tuple([partition.partition_index for partition in partitions]),
        leader_epochs=tuple([partition.committed_leader_epoch for partition in partitions])
        if version >= 6
        else (NO_EPOCH,) * len(partitions),
        metadata=tuple([partition.committed_metadata or "" for partition in partitions]),
    )


def _retention(entity: Any) -> float | None:
    seconds: float = entity.retention_time.total_seconds()
    return None if seconds == -0.001 else seconds


API = group_api(
    to_request=to_request,
    decide=Coordinator.commit,
    prevalidate=Coordinator.prevalidate_commit,
    variable_field="committed_offset",
    with_fields=with_fields,
    to_response=to_response,
)
