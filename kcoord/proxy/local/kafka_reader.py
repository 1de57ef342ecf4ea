"""Reads a journal on the upstream cluster: all that it holds, or who has written last. Blocks, in the writer's thread.

Theory of operation. A broker that has just become the leader of a partition does not know yet how far what was
acknowledged reaches, and lets consumers read up to where it is sure: what looks like the end may be before it. KIP-207
guards who asks for the end, not who reads up to it. So the writer says how far to read: it has written a proof to each
partition, and whoever has passed that has seen all before it.

Consumers without a group need an id all the same, and librdkafka looks for the coordinator of that group, though nobody
joins it or asks for its offsets. What comes of that is of no interest.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kcoord.offsets_log.encoding import group_key
from kcoord.proxy.local.kafka_topic import KafkaJournal, configuration

PROOF_KEY: Final = group_key("")
"""That no group has an empty id: a record that changes nothing, and is compacted away."""
WRITER: Final = "writer"
"""The header of a proof that says who wrote it."""
TERM: Final = "term"
"""The header of a proof that says in which term of office: 8 bytes, see claiming."""

NO_TERM: Final = -1


class Claim(NamedTuple):
    """Who says to be the writer of the journal; of two claims the greater one counts. claiming.py says why."""

    term: int
    """NO_TERM, if the proof has none: kcoord did not write them always."""
    writer: bytes


class Claims(NamedTuple):
    found: Sequence[Claim]
    read_to: int
    """The last offset that was looked at."""


Contents = dict[bytes, bytes]
"""What a partition holds: the last value of each key, in the order in which they were written."""

_MESSAGES_AT_ONCE: Final = 1000
_AT_MOST: Final = 0.1  # seconds that so many are waited for
_STALLED: Final = 30.0
"""Seconds without a record, after which it is proven anew how far to read: the cluster may have lost a proof."""
_PASSING: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
_OF_ITS_GROUP: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class KafkaReader:
    def __init__(self, journal: KafkaJournal, is_stopping: Callable[[], bool]) -> None:
        self._journal = journal
        self._is_stopping = is_stopping

    def read(self, proofs: Sequence[int]) -> list[Contents] | None:
        """All that is committed up to these offsets, one of each partition; None if it is stopped meanwhile.

        Raises KafkaException.
        """
        found: list[Contents] = [{} for _ in proofs]
        unfinished = set(range(len(proofs)))
        # From 0, not from OFFSET_BEGINNING: librdkafka would ask where that is, and rest for half a second first.
        with self._consumer([TopicPartition(self._journal.topic, index, 0) for index in unfinished]) as consumer:
            for message in self._messages(consumer):
                index = _place(message.partition())
                if message.error() is None:
                    _keep_last(found[index], message)
                if _reached(message) >= proofs[index]:
                    unfinished.discard(index)
                if not unfinished:
                    return found
        return None

    def claims_after(self, offset: int) -> "Claims":
        """The claims of all proofs in partition 0 behind this offset; none if it is stopped meanwhile.

        Raises KafkaException.
        """
        found: list[Claim] = []
        with self._consumer([TopicPartition(self._journal.topic, 0, offset + 1)]) as consumer:
            for message in self._messages(consumer):
                if message.error() is not None:  # the end
                    return Claims(found, _reached(message))
                if message.key() == PROOF_KEY and _place(message.offset()) > offset:
                    found.append(_claim_of(message))
        return Claims([], offset)

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        """Records, and ends of partitions, until it is stopped. Raises KafkaException."""
        heard_at = time.monotonic()
        while not self._is_stopping():
            for message in consumer.consume(_MESSAGES_AT_ONCE, _AT_MOST):
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    heard_at = time.monotonic()
                    yield message
                elif error.code() not in _PASSING | _OF_ITS_GROUP:
                    raise KafkaException(error)
            if time.monotonic() - heard_at > _STALLED:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "what was written cannot be read"))

    @contextmanager
    def _consumer(self, places: list[TopicPartition]) -> Iterator[Consumer]:
        consumer = Consumer(
            configuration(
                self._journal,
                **{
                    "group.id": self._journal.transactional_id,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,  # nothing new is expected, and groups wait for the end
                    "auto.offset.reset": "earliest",  # where 0 is no longer there, or the log's start moves meanwhile
                },
            )
        )
        try:
            consumer.assign(places)
            yield consumer
        finally:
            consumer.close()


def _reached(message: Message) -> int:
    """Up to where the partition is read: at its end, the next offset is told."""
    offset = _place(message.offset())
    return offset if message.error() is None else offset - 1


def _keep_last(contents: Contents, message: Message) -> None:
    """As compaction would: what was said later of a key stands behind what was said before of others."""
    key: Any = message.key()
    value: Any = message.value()
    if key is not None:
        contents.pop(key, None)
        if value is not None:
            contents[key] = value


def _claim_of(message: Message) -> Claim:
    headers: Any = message.headers()
    said = dict(headers or ())
    term = said.get(TERM)
    return Claim(int.from_bytes(term) if term else NO_TERM, said.get(WRITER) or b"")


def _place(number: int | None) -> int:
    assert number is not None
    return number
