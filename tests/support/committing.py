"""Commits with librdkafka to a broker that has just created its offsets topic."""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

PATIENCE: Final = 60.0
_EARLY: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def commit(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """Retries the commit while the coordinator is not ready; librdkafka passes these errors on to synchronous
    commits."""
    deadline = time.monotonic() + PATIENCE
    while not _is_taken(consumer, offsets):
        assert time.monotonic() < deadline, "the group is not loaded"
        time.sleep(0.05)


def _is_taken(consumer: Consumer, offsets: Sequence[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in _EARLY:
            raise
        return False
    return True
