"""Sample batches, and the parts of requests that contain or request them."""

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from crc32c import crc32c

from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch
from tests.support.differential.pair import topic_id
from tests.support.differential.plain import Naming

an_hour_ago: Final = time.time_ns() // 1_000_000 - 3_600_000
"""The first timestamp of the samples, which is not mistaken for the time of append."""

Records = bytes | None | Callable[[Naming], bytes]


def records(count: int, *, first: int = 0, value_size: int = 20, timestamp: int = an_hour_ago) -> list[Record]:
    """Returns records that differ from each other, one second apart."""
    return [
        Record(
            timestamp=timestamp + 1000 * number,
            key=f"key {number}".encode(),
            value=(f"value {number} ".encode() * value_size)[:value_size],
            headers=(("header", b"x"),) if number % 2 else (),
        )
        for number in range(first, first + count)
    ]


def batch(count: int = 3, *, codec: Codec = Codec.NONE, **options: Any) -> bytes:
    return write_batch(records(count, **options), codec=codec)


def batch_at(*timestamps: int, codec: Codec = Codec.NONE) -> bytes:
    """Encodes a batch with one record for each timestamp."""
    return write_batch([Record(timestamp=at, key=b"k", value=b"v") for at in timestamps], codec=codec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """A batch of a producer: by the name of its id on each side, or else by a fixed id."""

    sequence: int
    count: int
    epoch: int
    producer: str
    otherwise: int

    def __call__(self, naming: Naming) -> bytes:
        known = naming.value(self.producer) if naming.knows(self.producer) else self.otherwise
        stamp = ProducerStamp(id=known, epoch=self.epoch, base_sequence=self.sequence)
        return write_batch(records(self.count), producer=stamp)


def idempotent(
    sequence: int, *, count: int = 1, epoch: int = 0, producer: str = "producer", otherwise: int = 123456789
) -> Idempotent:
    """Builds such a batch; by default for the producer that was given an id last."""
    return Idempotent(sequence=sequence, count=count, epoch=epoch, producer=producer, otherwise=otherwise)


def changed(content: bytes, at: int, form: str, value: int) -> bytes:
    """Overwrites one field in the header of a batch."""
    copy = bytearray(content)
    struct.pack_into(form, copy, at, value)
    return bytes(copy)


def with_checksum(content: bytes) -> bytes:
    """Sets the checksum of a batch to that of its bytes."""
    return changed(content, 17, ">I", crc32c(content[21:]))


def produced(topic: str, partitions: dict[int, Records]) -> dict[str, Any]:
    """Returns a topic of a Produce request, by name and by id: each version uses the one that it has."""
    lines = [{"index": index, "records": content} for index, content in partitions.items()]
    return {"name": topic, "topic_id": topic_id(topic), "partition_data": lines}


def fetched(topic: str, offsets: dict[int, int], **options: Any) -> dict[str, Any]:
    """Returns a topic of a Fetch request, with the offset of each partition."""
    lines = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": -1,
            **options,
        }
        for index, offset in offsets.items()
    ]
    return {"topic": topic, "topic_id": topic_id(topic), "partitions": lines}


def fetch(*topics: dict[str, Any], wait: float = 0.0, **options: Any) -> dict[str, Any]:
    """Returns the values of a Fetch request."""
    return {
        "replica_id": -1,
        "max_wait": timedelta(seconds=wait),
        "min_bytes": 0,
        "max_bytes": 1 << 24,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": list(topics),
        **options,
    }


def forgotten(topic: str, partitions: Sequence[int]) -> dict[str, Any]:
    return {"topic": topic, "topic_id": topic_id(topic), "partitions": list(partitions)}


def offsets_asked(topic: str, timestamps: Sequence[int], *, epoch: int = -1) -> dict[str, Any]:
    """Returns a topic of a ListOffsets request: a timestamp for each partition from 0 on."""
    lines = [
        {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
        for index, timestamp in enumerate(timestamps)
    ]
    return {"name": topic, "partitions": lines}
