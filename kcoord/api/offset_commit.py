"""OffsetCommit: by topic name up to version 9, by id from 10 on; up to 4 a client may say how long to keep it."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.records import Committed
from kcoord.groups.replies import CommitReply, TopicErrors
from kcoord.groups.requests import Commit, CommittedTopic

decide = Coordinator.commit


def to_request(entity: Any, caller: Caller) -> Commit:
    version = entity.__version__
    has_epoch = version >= 6
    is_by_id = version >= 10
    return Commit(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id if version >= 7 else None,
        generation=entity.generation_id_or_member_epoch,
        retention=_retention(entity) if version <= 4 else None,
        topics=tuple(
            [
                CommittedTopic(
                    name=None if is_by_id else topic.name,
                    topic_id=topic.topic_id if is_by_id else None,
                    partitions=topic.partitions if has_epoch else tuple(map(_without_epoch, topic.partitions)),
                )
                for topic in entity.topics
            ]
        ),
    )


def to_response(reply: CommitReply, version: int) -> CommitReply:
    """That there is no such group can be said from version 9 on; before, the generation is called wrong."""
    if version >= 9:
        return reply
    return CommitReply(topics=tuple(map(_in_old_words, reply.topics)))


def _in_old_words(topic: TopicErrors) -> TopicErrors:
    if all(line.error_code is not ErrorCode.group_id_not_found for line in topic.partitions):
        return topic
    lines = (
        line._replace(error_code=ErrorCode.illegal_generation)
        if line.error_code is ErrorCode.group_id_not_found
        else line
        for line in topic.partitions
    )
    return topic._replace(partitions=tuple(lines))


def _retention(entity: Any) -> float | None:
    seconds: float = entity.retention_time.total_seconds()
    return None if seconds == -0.001 else seconds


def _without_epoch(line: Any) -> Committed:
    return Committed(
        partition_index=line.partition_index,
        committed_offset=line.committed_offset,
        committed_metadata=line.committed_metadata,
    )
