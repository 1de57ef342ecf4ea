"""OffsetForLeaderEpoch: the end offset of a leader epoch (KIP-320)."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.offsets import OffsetForLeaderEpoch, RequestedEpoch, RequestedTopicEpochs, offset_for_leader_epoch


def to_request(entity: Any) -> OffsetForLeaderEpoch:
    """Converts kio's OffsetForLeaderEpoch request of any version to the version-free one."""
    return OffsetForLeaderEpoch(topics=tuple(map(_topic, entity.topics)))


def _topic(topic: Any) -> RequestedTopicEpochs:
    return RequestedTopicEpochs(
        topic=topic.topic,
        partitions=tuple(
            RequestedEpoch(
                partition=partition.partition,
                current_leader_epoch=partition.current_leader_epoch,
                leader_epoch=partition.leader_epoch,
            )
            for partition in topic.partitions
        ),
    )


API = broker_api(to_request=to_request, decide=offset_for_leader_epoch)
