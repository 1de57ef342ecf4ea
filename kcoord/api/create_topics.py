"""CreateTopics."""

from typing import Any, Final

from kcoord.broker.topics import CreateTopics, NewTopic

KEY: Final = 19
NAME: Final = "CreateTopics"
VERSIONS: Final = range(2, 8)


def to_request(entity: Any) -> CreateTopics:
    return CreateTopics(topics=tuple(map(_new_topic, entity.topics)), validate_only=entity.validate_only)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((line.partition_index, line.broker_ids) for line in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )
