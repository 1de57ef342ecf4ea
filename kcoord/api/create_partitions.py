"""CreatePartitions: more partitions for a topic."""

from typing import Any, Final

from kcoord.broker.topics import CreatePartitions, Growth

KEY: Final = 37
NAME: Final = "CreatePartitions"
VERSIONS: Final = range(4)


def to_request(entity: Any) -> CreatePartitions:
    return CreatePartitions(topics=tuple(map(_growth, entity.topics)), validate_only=entity.validate_only)


def _growth(topic: Any) -> Growth:
    chosen = topic.assignments
    return Growth(
        name=topic.name,
        count=topic.count,
        assignments=None if chosen is None else tuple(line.broker_ids for line in chosen),
    )
