"""DeleteRecords: moves the start offsets of partitions (KIP-107)."""

from typing import Any

from kcoord.broker.offsets import DeleteRecords, TopicDeletions
from kcoord.broker.offsets import delete_records as decide

__all__ = ["decide", "to_request"]


def to_request(entity: Any) -> DeleteRecords:
    return DeleteRecords(
        topics=tuple(
            TopicDeletions(
                name=topic.name,
                offsets=tuple((partition.partition_index, partition.offset) for partition in topic.partitions),
            )
            for topic in entity.topics
        )
    )
