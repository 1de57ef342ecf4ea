"""Answers of one line per partition, as OffsetCommit and OffsetDelete give them.

Partitions that are not there are refused before the group is asked. If there are such, Kafka answers them first and
puts all lines on a topic together; if there are none, it answers topics as they were named: twice if twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.replies import PartitionError, TopicErrors

Lines = tuple[PartitionError, ...]


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """On one topic of a request."""

    name: str | None
    topic_id: UUID | None = None
    missing: Lines | None  # None: the topic is there, and so are the partitions of it
    lines: Lines = ()  # on those that are there


def same_for(partitions: Iterable[int], error: ErrorCode) -> Lines:
    return tuple([PartitionError(partition_index=partition, error_code=error) for partition in partitions])


def in_order(verdicts: Sequence[Verdicts]) -> tuple[TopicErrors, ...]:
    """The topics of the answer."""
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
