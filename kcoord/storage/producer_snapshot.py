"""Kafka's `<offset>.snapshot`: the idempotent producers of a partition, as of this end offset of its log.

| bytes | field                                                |
|-------|------------------------------------------------------|
| 2     | version, 1                                           |
| 4     | checksum (CRC-32C) of all that follows               |
| 4     | number of producers                                  |
| 46    | each: id, epoch, and its last batch (`_ENTRY` below) |

One is written when a segment begins, so that a start need not read the segments before the last. Kafka stores the last
batch of each producer only. So after a restart a duplicate of an older batch in an older segment is refused as out of
order, where the running process would recognize it.
"""

import struct
from collections.abc import Iterable, Iterator

from kcoord.broker.log.producers import AppendedBatch, Producer
from kcoord.exceptions import CorruptData
from kcoord.protocol.records.batch import step_sequence

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
# id, epoch, last sequence, last offset, offset delta, timestamp, coordinator's epoch, first offset of its transaction
_ENTRY = struct.Struct(">qhiqiqiq")
_NONE = -1


class BadSnapshot(CorruptData, ValueError):
    """Raised when bytes are not a valid producer snapshot (`.snapshot`)."""


def write_snapshot(producers: Iterable[tuple[int, Producer]]) -> bytes:
    """Returns the contents of a `.snapshot` file, Kafka's format, with the state of these idempotent producers by
    producer id."""
    entries = [_entry(producer_id, producer) for producer_id, producer in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, _checksum(body)) + body


def read_snapshot(content: bytes) -> Iterator[tuple[int, Producer]]:
    """Returns the state of idempotent producers, by producer id, from the contents of a `.snapshot` file. Raises
    BadSnapshot at once, not while they are iterated."""
    if len(content) < _HEAD.size + _COUNT.size:
        raise BadSnapshot(f"{len(content)} bytes are too few")
    version, checksum = _HEAD.unpack_from(content)
    body = content[_HEAD.size :]
    if version != _VERSION:
        raise BadSnapshot(f"version {version} is not known")
    if checksum != _checksum(body) or (len(body) - _COUNT.size) % _ENTRY.size:
        raise BadSnapshot("the checksum is wrong")
    return map(_producer, _ENTRY.iter_unpack(body[_COUNT.size :]))


def _entry(producer_id: int, producer: Producer) -> bytes:
    if not producer.batches:
        return _ENTRY.pack(producer_id, producer.epoch, _NONE, _NONE, 0, producer.last_timestamp, _NONE, _NONE)
    last = producer.batches[-1]
    delta = last.last_offset - last.base_offset
    return _ENTRY.pack(
        producer_id, producer.epoch, last.last_sequence, last.last_offset, delta, last.timestamp, _NONE, _NONE
    )


def _producer(entry: tuple[int, ...]) -> tuple[int, Producer]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ = entry
    producer = Producer(epoch=epoch, last_timestamp=timestamp)
    if last_sequence != _NONE:
        producer.batches.append(
            AppendedBatch(
                first_sequence=step_sequence(last_sequence, -delta),
                last_sequence=last_sequence,
                base_offset=last_offset - delta,
                last_offset=last_offset,
                timestamp=timestamp,
            )
        )
    return producer_id, producer


def _checksum(body: bytes) -> int:
    from crc32c import crc32c

    return crc32c(body)
