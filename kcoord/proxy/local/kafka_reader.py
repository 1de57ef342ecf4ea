"""Reads a journal on the upstream cluster: its contents, or the latest claims. It blocks, in the writer's thread.

Theory of operation. A broker that has just become a partition's leader may not know the high watermark yet, and lets
consumers read only up to what it knows: the apparent end may be before the real one. KIP-207 protects requests for the
end offset, not consumers that read up to it. So the writer states how far to read: it has written a proof to each
partition, and a reader that has passed the proof has seen everything before it.

Consumers without a group still need a group id, and librdkafka looks up that group's coordinator, although this one
never joins or fetches offsets. Errors from that are ignored.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kcoord.offsets_log.encoding import group_key
from kcoord.proxy.local.kafka_topic import KafkaJournal, configuration

PROOF_KEY: Final = group_key("")
"""The key of proofs: a group with an empty id, which cannot exist. Such a record changes nothing and is compacted."""
WRITER: Final = "writer"
"""The header of a proof with the writer's name."""
TERM: Final = "term"
"""The header of a proof with the writer's term, in 8 bytes: see journal_claims."""

NO_TERM: Final = -1


class Claim(NamedTuple):
    """The claim of a proxy to be the journal's only writer; of two claims the greater one counts: see
    journal_claims.py.
    """

    term: int
    """NO_TERM if the proof has none: older kcoord did not write them."""
    writer: bytes


class Claims(NamedTuple):
    """The result of a scan of the journal, the topic in which this proxy's groups are stored: the records by which
    proxies claim to be its only writer."""

    found: Sequence[Claim]
    read_to: int
    """The last offset that was read."""


Contents = dict[bytes, bytes]
"""A partition's contents: the last value of each key, in the order in which they were written."""

_MAX_POLL_MESSAGES: Final = 1000
_POLL_TIMEOUT: Final = 0.1  # seconds
_STALLED: Final = 30.0
"""Seconds without a record after which new proofs are written: the cluster may have lost one."""
_RETRIABLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
_IGNORED_GROUP_ERRORS: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class KafkaReader:
    """Reads the journal, the topic with the groups' records on the upstream cluster, with short-lived consumers. It
    blocks.
    """

    def __init__(self, journal: KafkaJournal, is_stopping: Callable[[], bool]) -> None:
        self._journal = journal
        self._is_stopping = is_stopping

    def read(self, proofs: Sequence[int]) -> list[Contents] | None:
        """Reads everything committed to the journal up to these offsets, one per partition; None if it is stopped
        meanwhile.

        Raises KafkaException.
        """
        found: list[Contents] = [{} for _ in proofs]
        unfinished = set(range(len(proofs)))
        # From 0, not from OFFSET_BEGINNING: librdkafka would query that offset, and pause for half a second first.
        with self._consumer([TopicPartition(self._journal.topic, index, 0) for index in unfinished]) as consumer:
            for message in self._messages(consumer):
                index = _not_none(message.partition())
                if message.error() is None:
                    _store_last(found[index], message)
                if _last_read_offset(message) >= proofs[index]:
                    unfinished.discard(index)
                if not unfinished:
                    return found
        return None

    def claims_after(self, offset: int) -> "Claims":
        """Reads the writers' claims in the journal's partition 0 behind this offset; none if it is stopped meanwhile.

        Raises KafkaException.
        """
        found: list[Claim] = []
        with self._consumer([TopicPartition(self._journal.topic, 0, offset + 1)]) as consumer:
            for message in self._messages(consumer):
                if message.error() is not None:  # the end
                    return Claims(found, _last_read_offset(message))
                if message.key() == PROOF_KEY and _not_none(message.offset()) > offset:
                    found.append(_claim_of(message))
        return Claims([], offset)

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        """Yields records and end-of-partition events until it is stopped. Raises KafkaException."""
        last_read_at = time.monotonic()
        while not self._is_stopping():
            for message in consumer.consume(_MAX_POLL_MESSAGES, _POLL_TIMEOUT):
                error = message.error()
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    last_read_at = time.monotonic()
                    yield message
                elif error.code() not in _RETRIABLE | _IGNORED_GROUP_ERRORS:
                    raise KafkaException(error)
            if time.monotonic() - last_read_at > _STALLED:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "what was written cannot be read"))

    @contextmanager
    def _consumer(self, partitions: list[TopicPartition]) -> Iterator[Consumer]:
        consumer = Consumer(
            configuration(
                self._journal,
                **{
                    "group.id": self._journal.transactional_id,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,  # nothing new is expected, and loading groups waits for the end
                    "auto.offset.reset": "earliest",  # if offset 0 was deleted, or the log start offset moves meanwhile
                },
            )
        )
        try:
            consumer.assign(partitions)
            yield consumer
        finally:
            consumer.close()


def _last_read_offset(message: Message) -> int:
    """Returns the last offset that was read; the end-of-partition event carries the next one."""
    offset = _not_none(message.offset())
    return offset if message.error() is None else offset - 1


def _store_last(contents: Contents, message: Message) -> None:
    """Stores the last value of a key, moved to the end, as compaction orders it."""
    key: Any = message.key()
    value: Any = message.value()
    if key is not None:
        contents.pop(key, None)
        if value is not None:
            contents[key] = value


def _claim_of(message: Message) -> Claim:
    headers: Any = message.headers()
    values = dict(headers or ())
    term = values.get(TERM)
    return Claim(int.from_bytes(term) if term else NO_TERM, values.get(WRITER) or b"")


def _not_none(number: int | None) -> int:
    assert number is not None
    return number
