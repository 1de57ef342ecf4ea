"""Replies with one result per partition, as OffsetCommit and OffsetDelete have them.

Partitions that do not exist are refused before the group is asked. If there are any, Kafka returns them first and
merges all results of a topic; if there are none, it returns topics as the request named them, a repeated topic
repeatedly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.replies import PartitionError, TopicErrors

PartitionErrors = tuple[PartitionError, ...]


@dataclass(slots=True, kw_only=True)
class PartitionResults:
    """The error codes of one topic's partitions while an OffsetCommit or OffsetDelete is decided: `missing` has those
    of partitions that do not exist, None if all exist."""

    name: str | None
    topic_id: UUID | None = None
    missing: PartitionErrors | None  # of partitions that do not exist; None if all of them exist
    results: PartitionErrors = ()  # of partitions that exist


def results_for(partitions: Iterable[int], error: ErrorCode) -> PartitionErrors:
    """Returns this error code for each of the partitions."""
    return tuple([PartitionError(partition_index=partition, error_code=error) for partition in partitions])


def to_topics(results: Sequence[PartitionResults]) -> tuple[TopicErrors, ...]:
    """Returns the topics of the reply to OffsetCommit or OffsetDelete, in Kafka's order."""
    if all(topic.missing is None for topic in results):
        return tuple([_topic(topic, topic.results) for topic in results if topic.results])
    merged: dict[tuple[str | None, UUID | None], tuple[PartitionResults, list[PartitionError]]] = {}
    for topic in results:
        if topic.missing is not None:
            merged.setdefault((topic.name, topic.topic_id), (topic, []))[1].extend(topic.missing)
    for topic in results:
        if topic.results:
            merged.setdefault((topic.name, topic.topic_id), (topic, []))[1].extend(topic.results)
    return tuple([_topic(topic, tuple(errors)) for topic, errors in merged.values()])


def _topic(topic: PartitionResults, errors: PartitionErrors) -> TopicErrors:
    return TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=errors)
