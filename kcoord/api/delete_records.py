"""DeleteRecords: let partitions begin later (KIP-107)."""

from typing import Any, Final

from kcoord.broker.offsets import DeleteRecords, TopicDeletions

KEY: Final = 21
NAME: Final = "DeleteRecords"
VERSIONS: Final = range(3)


def to_request(entity: Any) -> DeleteRecords:
    return DeleteRecords(
        topics=tuple(
            TopicDeletions(
                name=topic.name,
                offsets=tuple((line.partition_index, line.offset) for line in topic.partitions),
            )
            for topic in entity.topics
        )
    )
