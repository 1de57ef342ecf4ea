"""Produce: by topic name up to version 12, by id from 13 on (KIP-516)."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.producing import Produce, ProducedPartition, ProducedTopic, produce


def to_request(entity: Any) -> Produce:
    """Converts kio's Produce request of any version to the version-free one."""
    return Produce(
        acks=entity.acks,
        has_transactional_id=entity.transactional_id is not None,
        allows_zstd=entity.__version__ >= 7,
        topics=tuple(map(_topic, entity.topic_data)),
    )


def _topic(topic: Any) -> ProducedTopic:
    return ProducedTopic(
        name=getattr(topic, "name", None),
        topic_id=getattr(topic, "topic_id", None),
        partitions=tuple(
            ProducedPartition(index=partition.index, records=partition.records) for partition in topic.partition_data
        ),
    )


API = broker_api(to_request=to_request, decide=produce)
