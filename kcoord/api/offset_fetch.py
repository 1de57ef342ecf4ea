"""OffsetFetch: one group up to version 7, many from 8 on (KIP-709); by topic name up to 9, by id from 10 on."""

from dataclasses import dataclass
from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import FetchOffsetsReply, OffsetGroup, OffsetTopic
from kcoord.groups.requests import FetchOffsets, RequestedGroup, TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Single:
    """The response up to version 7."""

    topics: tuple[OffsetTopic, ...]
    error_code: ErrorCode
    throttle_time: float


def to_request(entity: Any, caller: Caller) -> FetchOffsets:
    """Converts kio's OffsetFetch request of any version to the version-free one. `require_stable` is ignored: without
    transactions no offset is pending.
    """
    version = entity.__version__
    groups = entity.groups if version >= 8 else (entity,)
    return FetchOffsets(groups=tuple(_requested_group(group, version) for group in groups), is_by_id=version >= 10)


def to_response(reply: FetchOffsetsReply, version: int) -> FetchOffsetsReply | _Single:
    """Adapts the reply to a version: before version 8 a response has one group, without a list."""
    if version >= 8:
        if not any(group.error_code for group in reply.groups):
            return reply
        return FetchOffsetsReply(groups=tuple(map(_without_topics_on_error, reply.groups)))
    group = reply.groups[0]
    # In version 1 only partitions have an error field.
    shown = group if version < 2 else _without_topics_on_error(group)
    return _Single(topics=shown.topics, error_code=shown.error_code, throttle_time=reply.throttle_time)


def _requested_group(group: Any, version: int) -> RequestedGroup:
    if group.topics is None:
        return RequestedGroup(group_id=group.group_id, topics=None)
    is_by_id = version >= 10
    topics = tuple(
        TopicPartitions(
            name=None if is_by_id else topic.name,
            topic_id=topic.topic_id if is_by_id else None,
            partitions=topic.partition_indexes,
        )
        for topic in group.topics
    )
    return RequestedGroup(group_id=group.group_id, topics=topics)


def _without_topics_on_error(group: OffsetGroup) -> OffsetGroup:
    return OffsetGroup(group_id=group.group_id, error_code=group.error_code) if group.error_code else group


API = group_api(to_request=to_request, decide=Coordinator.fetch_offsets, to_response=to_response)
