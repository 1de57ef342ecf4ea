"""Produce: by topic name up to version 12, by id from 13 on (KIP-516)."""

from typing import Any, Final

from kcoord.broker.producing import Produce, ProducedPartition, ProducedTopic

KEY: Final = 0
NAME: Final = "Produce"
VERSIONS: Final = range(3, 14)
ANNOUNCED_FROM: Final = 0
"""Kafka 4 serves from 3 on too, and says 0: librdkafka takes a higher minimum for a broker too new (KAFKA-18659)."""


def to_request(entity: Any) -> Produce:
    return Produce(
        acks=entity.acks,
        is_transactional=entity.transactional_id is not None,
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
