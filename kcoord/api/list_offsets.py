"""ListOffsets: offsets by timestamp. Special timestamps were added one version at a time."""

from typing import Any, Final

from kcoord.api.contract import broker_api
from kcoord.broker.offsets import ListOffsets, RequestedOffset, RequestedTopicOffsets, Special, list_offsets

_SPECIAL_SINCE: Final = (
    (11, Special.EARLIEST_PENDING_UPLOAD),
    (9, Special.LATEST_TIERED),
    (8, Special.EARLIEST_LOCAL),
    (7, Special.MAX_TIMESTAMP),
    (1, Special.EARLIEST),
)


def to_request(entity: Any) -> ListOffsets:
    """Converts kio's ListOffsets request of any version to the version-free one."""
    return ListOffsets(
        topics=tuple(map(_topic, entity.topics)),
        oldest_special=next(special for since, special in _SPECIAL_SINCE if entity.__version__ >= since),
        isolation_level=getattr(entity, "isolation_level", 0),
    )


def _topic(topic: Any) -> RequestedTopicOffsets:
    return RequestedTopicOffsets(
        name=topic.name,
        partitions=tuple(
            RequestedOffset(
                partition_index=partition.partition_index,
                current_leader_epoch=getattr(partition, "current_leader_epoch", -1),
                timestamp=partition.timestamp,
            )
            for partition in topic.partitions
        ),
    )


API = broker_api(to_request=to_request, decide=list_offsets)
