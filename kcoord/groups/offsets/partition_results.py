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

Lines = tuple[PartitionError, ...]


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """The results of one topic of a request."""

    name: str | None
    topic_id: UUID | None = None
    missing: Lines | None  # of partitions that do not exist; None if all of them exist
    lines: Lines = ()  # of partitions that exist


def same_for(partitions: Iterable[int], error: ErrorCode) -> Lines:
    return tuple([PartitionError(partition_index=partition, error_code=error) for partition in partitions])


def in_order(verdicts: Sequence[Verdicts]) -> tuple[TopicErrors, ...]:
    """Returns the topics of the reply, in Kafka's order."""
    if all(topic.missing is None for topic in verdicts):
        return tuple([_topic(topic, topic.lines) for topic in verdicts if topic.lines])
    merged: dict[tuple[str | None, UUID | None], tuple[Verdicts, list[PartitionError]]] = {}
    for topic in verdicts:
        if topic.missing is not None:
            merged.setdefault((topic.name, topic.topic_id), (topic, []))[1].extend(topic.missing)
    for topic in verdicts:
        if topic.lines:
            merged.setdefault((topic.name, topic.topic_id), (topic, []))[1].extend(topic.lines)
    return tuple([_topic(topic, tuple(lines)) for topic, lines in merged.values()])


def _topic(topic: Verdicts, lines: Lines) -> TopicErrors:
    return TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=lines)
