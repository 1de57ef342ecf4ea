"""A dump of any segment, a broker's or kcoord's, batch by batch and record by record.

A segment is read from its start to its end with no more in memory than one batch. A problem is reported at its
position, and what can be read behind it is read: the checksum does not cover a batch's length, so that a batch whose
checksum is wrong hides nothing but itself. Where no next batch can be found, the rest is one problem.

The JSON of a batch and of a record has what kafka-dump-log prints of them, under its names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO, Final

from kcoord.offsets_log.record_codec import CorruptRecord, UnknownType, UnknownVersion, read_key, read_value
from kcoord.offsets_log.record_json import Json, base64_of, key_json, value_json
from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    NO_SEQUENCE,
    Batch,
    BatchHeader,
    CorruptBatch,
    has_valid_crc,
    probe_frame,
    read_header,
    step_sequence,
)
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.control_records import (
    TRANSACTION_ENDS,
    ControlRecordType,
    read_control_type,
    read_coordinator_epoch,
)
from kcoord.protocol.records.record import Record, read_records

_CONTROL_TYPES: Final = {each.value: each.name for each in ControlRecordType}
_OFFSETS_FOLDER: Final = re.compile(r"__consumer_offsets-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFilter:
    """What `kcoord log dump` shows of a segment: offsets from `first` to `last`, both included (None: no limit), with
    their records or only the batches."""

    first: int | None = None
    last: int | None = None
    records: bool = True
    as_offsets: bool | None = None
    """Whether records are decoded as those of __consumer_offsets; if it is None, the name of the folder decides."""

    def has(self, first: int, last: int) -> bool:
        """Returns whether any of these offsets, both included, is to be shown."""
        return (self.first is None or last >= self.first) and not self.is_behind(first)

    def is_behind(self, offset: int) -> bool:
        """Returns whether the offset is behind the last one that is to be shown."""
        return self.last is not None and offset > self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    """One record of a dumped segment, with its key and value as JSON: decoded in `__consumer_offsets`, else text or
    base64."""

    record: Record
    sequence: int
    key: Json
    value: Json
    marker: Json = None
    """The content of a control record, which then has neither key nor value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One record batch of a dumped segment: its position in bytes, its header, whether its checksum is right, and its
    records."""

    position: int
    header: BatchHeader
    is_valid: bool
    records: list[DumpedRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in a dumped segment, and the position of the batch in the file, in bytes."""

    position: int
    message: str


Dumped = DumpedBatch | Problem


def segments_in(path: Path) -> list[Path]:
    """Returns the `.log` files that a path stands for: the file itself, the segments of a partition's folder, or those
    of all partitions in a data folder."""
    if not path.is_dir():
        return [path]
    segments = sorted(path.glob("*.log"))
    return segments or sorted(file for file in path.glob("*/*.log") if not file.parent.name.endswith("-delete"))


def holds_offsets(segment: Path) -> bool:
    """Returns whether the segment belongs to `__consumer_offsets`, by the name of its folder."""
    return _OFFSETS_FOLDER.match(segment.resolve().parent.name) is not None


def dump_segment(segment: Path, wanted: DumpFilter) -> Iterator[Dumped]:
    """Yields the batches of a `.log` file and the problems found in it, in their order."""
    if wanted.as_offsets is None:
        wanted = replace(wanted, as_offsets=holds_offsets(segment))
    with segment.open("rb") as file:
        yield from _dump(file, wanted)


def batch_json(dumped: DumpedBatch) -> dict[str, Json]:
    """Formats a dumped batch and its records as JSON, under kafka-dump-log's names."""
    header = dumped.header
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon,
        "position": dumped.position,
        "timestampType": "LogAppendTime" if header.uses_append_time else "CreateTime",
        "maxTimestamp": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": codec_name(header),
        "crc": header.crc,
        "isvalid": dumped.is_valid,
        "records": [_record_json(record) for record in dumped.records],
    }


def codec_name(header: BatchHeader) -> str:
    """Returns the name of the codec that the batch is compressed with, such as "zstd" or "none"."""
    try:
        return Codec(header.codec).name.lower()
    except ValueError:
        return f"unknown ({header.codec})"


def _record_json(dumped: DumpedRecord) -> dict[str, Json]:
    record = dumped.record
    facts = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": dumped.sequence,
        "headers": [{"key": key, "value": plain_json(value)} for key, value in record.headers],
    }
    if dumped.marker is not None:
        return facts | {"marker": dumped.marker}
    return facts | {"key": dumped.key, "value": dumped.value}


def plain_json(content: bytes | None) -> Json:
    """Returns the bytes of a key or value as JSON: text if they are UTF-8, else base64."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64_of(content)}


def _dump(file: BinaryIO, wanted: DumpFilter) -> Iterator[Dumped]:
    end = file.seek(0, SEEK_END)
    position = next_offset = 0
    while position < end:
        head = _read(file, position, HEADER_SIZE)
        size, problem = probe_frame(head, end - position)
        if problem:
            yield Problem(position=position, message=problem)
        else:
            header = read_header(head)
            if wanted.is_behind(header.base_offset):
                return
            if header.base_offset < next_offset or header.last_offset < header.base_offset:
                found = f"offsets {header.base_offset} to {header.last_offset}"
                yield Problem(position=position, message=f"{found} where {next_offset} or more is expected")
            if wanted.has(header.base_offset, header.last_offset):
                yield from _dump_batch(_read(file, position, size), position, wanted)
            next_offset = max(next_offset, header.last_offset + 1)
        if not size:
            return
        position += size


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)


def _dump_batch(content: bytes, position: int, wanted: DumpFilter) -> Iterator[Dumped]:
    batch = Batch(header=read_header(content), data=memoryview(content))
    is_valid = has_valid_crc(batch)
    dumped = DumpedBatch(position=position, header=batch.header, is_valid=is_valid)
    problems = [] if is_valid else ["the checksum is wrong: its records are not read"]
    if is_valid and wanted.records:
        problems = _add_records(dumped, batch, wanted)
    yield dumped
    yield from (Problem(position=position, message=problem) for problem in problems)


def _add_records(dumped: DumpedBatch, batch: Batch, wanted: DumpFilter) -> list[str]:
    """Adds the records that can be read to the batch, and returns the problems with others."""
    problems: list[str] = []
    try:
        for record in read_records(batch):
            if wanted.has(record.offset, record.offset):
                dumped.records.append(_dumped_record(batch.header, record, wanted, problems))
    except CorruptBatch as error:
        problems.append(error.message)
    return problems


def _dumped_record(header: BatchHeader, record: Record, wanted: DumpFilter, problems: list[str]) -> DumpedRecord:
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = step_sequence(sequence, record.offset - header.base_offset)
    if header.is_control:
        return DumpedRecord(record=record, sequence=sequence, key=None, value=None, marker=_marker(record))
    if not wanted.as_offsets:
        key, value = plain_json(record.key), plain_json(record.value)
        return DumpedRecord(record=record, sequence=sequence, key=key, value=value)
    try:
        key, value = _decode(record)
    except CorruptRecord as error:
        problems.append(f"offset {record.offset}: {error}")
        key, value = _raw(record.key), _raw(record.value)
    return DumpedRecord(record=record, sequence=sequence, key=key, value=value)


def _decode(record: Record) -> tuple[Json, Json]:
    """Decodes key and value as records of __consumer_offsets; what a newer Kafka wrote stays bytes. Raises
    CorruptRecord.
    """
    if record.key is None:
        raise CorruptRecord("a record without a key")
    try:
        number, key = read_key(record.key)
    except UnknownType as error:
        return {"type": error.number, **_raw(record.key)}, _raw(record.value)
    shown = {"type": number, "name": RECORD_TYPES[number].name, "data": key_json(number, key)}
    if record.value is None:
        return shown, None
    try:
        version, value = read_value(number, record.value)
    except UnknownVersion as error:
        return shown, {"version": error.version, **_raw(record.value)}
    return shown, {"version": version, "data": value_json(number, version, value)}


def _marker(record: Record) -> Json:
    """Decodes a control record: how a transaction ended, and under which coordinator epoch."""
    number, epoch = read_control_type(record.key), read_coordinator_epoch(record.value)
    if number is None:
        return {"type": "none", **_raw(record.key or b"")}
    name = _CONTROL_TYPES.get(number, f"UNKNOWN ({number})")
    if number in TRANSACTION_ENDS and epoch is not None:
        return {"type": name, "coordinatorEpoch": epoch}
    return {"type": name, **_raw(record.value or b"")}


def _raw(content: bytes | None) -> Json:
    return None if content is None else {"base64": base64_of(content)}
