"""CreatePartitions: more partitions for a topic."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.topics import CreatePartitions, GrowingTopic, create_partitions


def to_request(entity: Any) -> CreatePartitions:
    """Converts kio's CreatePartitions request of any version to the version-free one."""
    return CreatePartitions(topics=tuple(map(_growth, entity.topics)), validate_only=entity.validate_only)


def _growth(topic: Any) -> GrowingTopic:
    chosen = topic.assignments
    return GrowingTopic(
        name=topic.name,
        count=topic.count,
        assignments=None if chosen is None else tuple(assignment.broker_ids for assignment in chosen),
    )


API = broker_api(to_request=to_request, decide=create_partitions)
