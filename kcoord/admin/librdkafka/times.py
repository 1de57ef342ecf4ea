"""Reads records, their times or their marks, by a consumer with a manual assignment, which joins no group."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as TheirPartition

from kcoord.admin.librdkafka.errors import bad_settings, protocol_error
from kcoord.admin.librdkafka.link import Link
from kcoord.admin.model import Answers, Position, Refusal, Resource, TopicPartition
from kcoord.admin.record_marks import RecordMark, checksum_of
from kcoord.errors import ErrorCode

AT_ONCE: Final = 500  # partitions that are read in parallel
NO_TIMESTAMP: Final = -1  # a producer may write it, too
ANY_PARTITION: Final = -1
TIMES: Final = "the times of its records"  # what a refusal of a topic names
RECORDS: Final = "its records"

_SETTINGS: Final = {
    "group.id": "kcoord",  # librdkafka requires one; nothing is committed and no member joins
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",  # lag counts aborted records too
    "allow.auto.create.topics": False,
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 16 * 1024,
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 10,
    "fetch.queue.backoff.ms": 10,
}


def timestamps(link: Link, positions: Collection[Position]) -> Answers[Position, int]:
    """Reads the times of the records at these positions by a consumer, in ms since 1970; records without a time are
    left out."""
    found: dict[Position, int] = {}

    def take(position: Position, message: Any) -> None:
        if (timestamp := _time_of(message)) is not None:
            found[position] = timestamp

    return Answers(found=found, refused=_read(link, positions, _RecordReader(take, TIMES)))


def record_marks(link: Link, positions: Collection[Position]) -> Answers[Position, RecordMark]:
    """Reads the marks (offset, time, checksum) of the records at these positions by a consumer."""
    found: dict[Position, RecordMark] = {}

    def take(position: Position, message: Any) -> None:
        found[position] = RecordMark(
            offset=message.offset(),
            timestamp=_time_of(message),
            is_append_time=message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME,
            checksum=checksum_of(message.key(), message.value()),
        )

    return Answers(found=found, refused=_read(link, positions, _RecordReader(take, RECORDS)))


def _time_of(message: Any) -> int | None:
    kind, timestamp = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or timestamp == NO_TIMESTAMP else int(timestamp)


class _RecordReader(NamedTuple):
    """The function that handles each record, and the name of its request in refusals."""

    take: Callable[[Position, Any], None]
    what: str


def _read(link: Link, positions: Collection[Position], reading: _RecordReader) -> tuple[Refusal, ...]:
    """Reads all positions. Several positions in one partition are read one after the other."""
    if not positions:
        return ()
    consumer = _new_consumer(link)
    try:
        refused: dict[Refusal, None] = {}
        for batch in _batches(positions):
            _read_batch(consumer, batch, reading, refused, timeout=link.timeout)
        return tuple(refused)
    except KafkaException as error:
        raise link.refused(error) from None
    finally:
        consumer.close()


def _new_consumer(link: Link) -> Consumer:
    """Creates a consumer. librdkafka checks more settings for it than for the client that has connected already."""
    try:
        return Consumer({**link.configuration, **_SETTINGS})
    except KafkaException as error:
        raise bad_settings(error, link.configuration) from None


def _batches(positions: Collection[Position]) -> Iterable[Mapping[TopicPartition, int]]:
    """Splits positions into batches of limited size, with each partition at most once in a batch."""
    waiting: dict[TopicPartition, list[int]] = defaultdict(list)
    for tp, offset in dict.fromkeys(positions):
        waiting[tp].append(offset)
    while waiting:
        now = list(waiting)[:AT_ONCE]
        yield {tp: waiting[tp].pop() for tp in now}
        waiting = defaultdict(list, {tp: offsets for tp, offsets in waiting.items() if offsets})


def _read_batch(
    consumer: Consumer,
    batch: Mapping[TopicPartition, int],
    reading: _RecordReader,
    refused: dict[Refusal, None],
    *,
    timeout: float,
) -> None:
    waiting = dict(batch)
    consumer.assign([TheirPartition(tp.topic, tp.partition, offset) for tp, offset in batch.items()])
    deadline = time.monotonic() + timeout
    while waiting and time.monotonic() < deadline:
        for message in consumer.consume(num_messages=len(waiting), timeout=0.1):
            done = [tp for tp in waiting if _concerns(message, tp)]  # empty for a record of a finished partition
            for tp in done:
                _record_message((tp, waiting.pop(tp)), message, reading, refused)
            if done:
                consumer.incremental_unassign([TheirPartition(*tp) for tp in done])
    for tp in waiting:
        refused[
            Refusal(kind=Resource.TOPIC, name=tp.topic, error=ErrorCode.request_timed_out, message=reading.what)
        ] = None
    consumer.unassign()


def _concerns(message: Any, tp: TopicPartition) -> bool:
    """Whether a message is about this partition. An error may be that of a whole topic that may not be read."""
    return bool(message.topic() == tp.topic and message.partition() in (tp.partition, ANY_PARTITION, None))


def _record_message(position: Position, message: Any, reading: _RecordReader, refused: dict[Refusal, None]) -> None:
    error = message.error()
    if error is None:
        reading.take(position, message)
    elif error.code() != KafkaError._PARTITION_EOF:  # the end of the log: there is no record yet
        code, words = protocol_error(error)
        refused[Refusal(kind=Resource.TOPIC, name=position[0].topic, error=code, message=words or reading.what)] = None
