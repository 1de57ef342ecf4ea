"""Builds segments for tests, batch by batch."""

import struct
from pathlib import Path
from typing import Any

from kcoord.protocol.records.batch import read_header
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.control_records import ControlRecordType
from kcoord.protocol.records.record import NO_PRODUCER, ProducerStamp, Record, write_batch
from tests.support.logs.record_writers import write_key, write_value

AT_MS = 1_790_000_000_000
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def write_segment(folder: Path, *batches: bytes, base_offset: int = 0, log: str = "__consumer_offsets-7") -> Path:
    path = folder / log / f"{base_offset:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


def commit(
    offset: int, *, group: str = "g", topic: str = "t", partition: int = 3, version: int = 4, **value: Any
) -> Record:
    key = write_key(1, {"group": group, "topic": topic, "partition": partition})
    content = write_value(1, {"offset": offset, "commitTimestamp": AT_MS, **value}, version=version)
    return Record(timestamp=AT_MS, key=key, value=content)


def tombstone(*, group: str = "g", topic: str = "t", partition: int = 3) -> Record:
    key = write_key(1, {"group": group, "topic": topic, "partition": partition})
    return Record(timestamp=AT_MS, key=key, value=None)


def batch(*records: Record, at: int = 0, codec: Codec = Codec.NONE, producer: int | None = None) -> bytes:
    stamp = NO_PRODUCER if producer is None else _stamp(producer)
    return write_batch(records, base_offset=at, codec=codec, producer=stamp)


def marker(outcome: int, producer: int, at: int) -> bytes:
    record = Record(timestamp=AT_MS, key=struct.pack(">hh", 0, outcome), value=struct.pack(">hi", 0, 1))
    return write_batch([record], base_offset=at, producer=_stamp(producer), is_control=True)


def in_a_row(*batches: bytes) -> list[bytes]:
    """Returns copies of the batches at consecutive offsets."""
    offset, moved = 0, []
    for each in batches:
        moved.append(offset.to_bytes(8, "big") + each[8:])
        offset += read_header(each).last_offset_delta + 1
    return moved


def _stamp(producer: int) -> ProducerStamp:
    return ProducerStamp(id=producer, epoch=0, base_sequence=0, is_transactional=True)
