"""Fetch: full or within a session (7+, KIP-227), by topic name up to version 12, by id from 13 on (KIP-516)."""

from typing import Any, Final
from uuid import UUID

from kcoord.api.contract import broker_api
from kcoord.broker.fetch_sessions import CLOSING_EPOCH, NO_SESSION, FetchSessions, PartitionKey, RequestedPartition
from kcoord.broker.fetching import Fetch, Waiting, finish
from kcoord.broker.fetching import fetch as decide

__all__ = ["API", "FetchSessions", "Waiting", "decide", "finish"]


_NIL_ID: Final = UUID(int=0)


def to_request(entity: Any) -> Fetch:
    """Converts kio's Fetch request of any version to the version-free one."""
    is_by_id = entity.__version__ >= 13
    return Fetch(
        max_wait=entity.max_wait.total_seconds(),
        min_bytes=entity.min_bytes,
        max_bytes=entity.max_bytes,
        isolation_level=entity.isolation_level,
        is_by_id=is_by_id,
        session_id=getattr(entity, "session_id", NO_SESSION),
        session_epoch=getattr(entity, "session_epoch", CLOSING_EPOCH),
        partitions={
            (_topic(topic, is_by_id), partition.partition): RequestedPartition(
                fetch_offset=partition.fetch_offset,
                current_leader_epoch=getattr(partition, "current_leader_epoch", -1),
                last_fetched_epoch=getattr(partition, "last_fetched_epoch", -1),
                max_bytes=partition.partition_max_bytes,
            )
            for topic in entity.topics
            for partition in topic.partitions
        },
        forgotten=_forgotten(entity, is_by_id),
    )


def _forgotten(entity: Any, is_by_id: bool) -> tuple[PartitionKey, ...]:
    topics = getattr(entity, "forgotten_topics_data", ())
    return tuple((_topic(topic, is_by_id), partition) for topic in topics for partition in topic.partitions)


def _topic(topic: Any, is_by_id: bool) -> str | UUID:
    if is_by_id:
        return topic.topic_id or _NIL_ID
    name: str = topic.topic
    return name


API = broker_api(to_request=to_request, decide=None)
