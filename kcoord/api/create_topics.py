"""CreateTopics."""

from typing import Any

from kcoord.broker.topics import CreateTopics, NewTopic
from kcoord.broker.topics import create_topics as decide

__all__ = ["decide", "to_request"]


def to_request(entity: Any) -> CreateTopics:
    return CreateTopics(topics=tuple(map(_new_topic, entity.topics)), validate_only=entity.validate_only)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )
