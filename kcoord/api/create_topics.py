"""CreateTopics."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.topics import CreateTopics, NewTopic, create_topics


def to_request(entity: Any) -> CreateTopics:
    """Converts kio's CreateTopics request of any version to the version-free one."""
    return CreateTopics(topics=tuple(map(_new_topic, entity.topics)), validate_only=entity.validate_only)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


API = broker_api(to_request=to_request, decide=create_topics)
