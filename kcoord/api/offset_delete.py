"""OffsetDelete (KIP-496)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import DeleteOffsets, TopicPartitions


def to_request(entity: Any, caller: Caller) -> DeleteOffsets:
    """Converts kio's OffsetDelete request to the version-free one."""
    return DeleteOffsets(
        group_id=entity.group_id,
        topics=tuple(
            TopicPartitions(
                name=topic.name,
                topic_id=None,
                partitions=tuple(partition.partition_index for partition in topic.partitions),
            )
            for topic in entity.topics
        ),
    )


API = group_api(to_request=to_request, decide=Coordinator.delete_offsets)
