"""DeleteRecords: moves the start offsets of partitions (KIP-107)."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.offsets import DeleteRecords, TopicDeletions, delete_records


def to_request(entity: Any) -> DeleteRecords:
    """Converts kio's DeleteRecords request of any version to the version-free one."""
    return DeleteRecords(
        topics=tuple(
            TopicDeletions(
                name=topic.name,
                offsets=tuple((partition.partition_index, partition.offset) for partition in topic.partitions),
            )
            for topic in entity.topics
        )
    )


API = broker_api(to_request=to_request, decide=delete_records)
