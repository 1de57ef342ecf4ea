"""The records inside a batch: reading, validating without building them, and writing.

One record, all numbers zigzag varints:

    size  attributes(1 byte)  timestamp delta  offset delta  key size (-1: null)  key  value size (-1: null)  value
    header count  [key size  key  value size (-1: null)  value]…
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    BatchHeader,
    CorruptBatch,
    assemble,
    attributes_of,
)
from kcoord.protocol.records.compression import BadCompression, Codec, DecompressedTooLarge, compress, decompress
from kcoord.protocol.varint import BadVarint, read_uvarint, read_varint, read_varlong, write_varint

DECOMPRESSED_LIMIT = 64 * 1024 * 1024

SMALLEST_RECORD = 7
"""The bytes of a record without key, value and headers."""

RecordHeader = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record with key, value and headers; None is null. The timestamp is milliseconds since the Unix epoch. In a
    list to be written, `offset` may stay 0: records get their offsets by their position in the list."""

    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStamp:
    """The idempotent or transactional producer of a batch: its id, its epoch, and the sequence number of the first
    record; -1 for other producers."""

    id: int = NO_PRODUCER_ID
    epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER = ProducerStamp()


class RecordSpan(NamedTuple):
    """The positions of a record's key, value, headers and end in the decompressed bytes of its batch, and its deltas. A
    null key or value ends before it starts."""

    offset_delta: int
    timestamp_delta: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    headers: tuple[RecordHeader, ...]
    end: int

    @property
    def has_key(self) -> bool:
        """Whether the key is not null."""
        return self.key_end >= self.key_start

    @property
    def has_value(self) -> bool:
        """Whether the value is not null."""
        return self.value_end >= self.value_start


def read_records(batch: Batch, *, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """Decodes a batch and yields its records in order. At most `limit` bytes are decompressed. Raises CorruptBatch
    where the records do not match the header."""
    header = batch.header
    plain = plain_records(batch, limit=limit)
    for span in record_spans(plain, header.record_count):
        yield Record(
            offset=header.base_offset + span.offset_delta,
            timestamp=header.max_timestamp if header.uses_append_time else header.base_timestamp + span.timestamp_delta,
            key=plain[span.key_start : span.key_end] if span.has_key else None,
            value=plain[span.value_start : span.value_end] if span.has_value else None,
            headers=span.headers,
        )


def write_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: ProducerStamp = NO_PRODUCER,
    is_control: bool = False,
) -> bytes:
    """Encodes a record batch of these records, at least one, at consecutive offsets."""
    base_timestamp = records[0].timestamp
    plain = bytearray()
    for delta, record in enumerate(records):
        _write_record(plain, record, offset_delta=delta, timestamp_delta=record.timestamp - base_timestamp)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(codec, is_transactional=producer.is_transactional, is_control=is_control),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.base_sequence,
        record_count=len(records),
    )
    return assemble(header, compress(codec, bytes(plain)))


def plain_records(batch: Batch, *, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Returns the bytes of a batch's records behind its header, decompressed to at most `limit` bytes. Raises
    CorruptBatch."""
    # Kafka has no dedicated error for these: a batch that cannot be decompressed is an UNKNOWN_SERVER_ERROR there too.
    packed = batch.data[HEADER_SIZE:]
    codec = batch.header.codec
    if codec == Codec.NONE:
        return bytes(packed)
    try:
        return decompress(Codec(codec), packed, limit=limit)
    except DecompressedTooLarge as error:
        raise CorruptBatch(ErrorCode.message_too_large, f"The batch {error}", effort=limit) from error
    except BadCompression as error:
        message = f"The batch cannot be decompressed: {error}"
        raise CorruptBatch(ErrorCode.unknown_server_error, message, effort=limit) from error
    except ValueError as error:
        raise CorruptBatch(ErrorCode.unknown_server_error, f"No codec has the number {codec}") from error


def record_spans(plain: bytes, count: int) -> Iterator[RecordSpan]:
    """Yields the positions of exactly `count` records, which must fill the bytes
    (DefaultRecordBatch.RecordIterator.next). Raises CorruptBatch."""
    position = 0
    for _ in range(count):
        span = read_span(plain, position)
        position = span.end
        yield span
    ensure_filled(plain, position)


def read_key_value(plain: bytes, position: int) -> tuple[bytes | None, bytes | None, int]:
    """Returns the key and the value of the record at this position, and the position of the next one. It takes half the
    time of read_span. Raises CorruptBatch."""
    try:
        size, position = read_uvarint(plain, position)
        end = position + (size >> 1)
        position += 1  # attributes
        while plain[position] > 0x7F:  # timestamp delta
            position += 1
        position += 1
        while plain[position] > 0x7F:  # offset delta
            position += 1
        key_size, position = read_uvarint(plain, position + 1)
        key = None if key_size & 1 else plain[position : position + (key_size >> 1)]
        position += 0 if key_size & 1 else key_size >> 1
        value_size, position = read_uvarint(plain, position)
        value = None if value_size & 1 else plain[position : position + (value_size >> 1)]
        position += 0 if value_size & 1 else value_size >> 1
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    if position >= end or end > len(plain):
        raise wrong_record_size(size >> 1, position - end + (size >> 1))
    return key, value, end


def read_deltas(plain: bytes, position: int) -> tuple[int, int, int]:
    """Returns the offset delta and the timestamp delta of the record at this position, and the position of the next
    one. Raises CorruptBatch."""
    try:
        size, start = read_varint(plain, position)
        timestamp_delta, position = read_varlong(plain, start + 1)
        offset_delta, position = read_varint(plain, position)
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    end = start + size
    if not position < end <= len(plain):
        raise wrong_record_size(size, position - start)
    return offset_delta, timestamp_delta, end


def skip_records(plain: bytes, position: int, count: int) -> int:
    """Skips `count` records by their sizes alone, and returns the position of the next one. Raises CorruptBatch."""
    try:
        for _ in range(count):
            size = plain[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            else:
                size, position = read_uvarint(plain, position)
                position += size >> 1
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    return position


def read_span(plain: bytes, position: int) -> RecordSpan:
    """Returns the positions of the parts of the record at this position (DefaultRecord.readFrom). Raises
    CorruptBatch."""
    try:
        size, start = read_varint(plain, position)
        timestamp_delta, position = read_varlong(plain, start + 1)
        offset_delta, position = read_varint(plain, position)
        key_size, key_start = read_varint(plain, position)
        key_end = key_start + key_size
        value_size, value_start = read_varint(plain, max(key_start, key_end))
        value_end = value_start + value_size
        header_count, position = read_varint(plain, max(value_start, value_end))
        headers, position = _read_headers(plain, position, header_count) if header_count else ((), position)
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    if position != start + size or position > len(plain):
        raise wrong_record_size(size, position - start)
    return RecordSpan(offset_delta, timestamp_delta, key_start, key_end, value_start, value_end, headers, position)


def validate_record(plain: bytes, position: int, *, max_headers: int) -> tuple[int, int, bool, int, int]:
    """Validates the record at this position as `read_span` does, but builds nothing from its headers. Raises
    CorruptBatch.

    Returns its offset delta, timestamp delta, whether it has a key, how many headers it has, and the position of its
    end. More headers than `max_headers` are refused by their count, before any is read.
    """
    offset_delta, timestamp_delta, has_key, header_count, position, end = read_record_start(
        plain, position, max_headers=max_headers
    )
    ensure_record_end(plain, skip_headers(plain, position, header_count), end)
    return offset_delta, timestamp_delta, has_key, header_count, end


def read_record_start(plain: bytes, position: int, *, max_headers: int) -> tuple[int, int, bool, int, int, int]:
    """Steps over the record at this position up to its headers. Raises CorruptBatch.

    Returns its offset delta, timestamp delta, whether it has a key, how many headers it has, the position of the first
    of them, and the position at which the record should end.
    """
    try:
        size, start = read_varint(plain, position)
        timestamp_delta, position = read_varlong(plain, start + 1)
        offset_delta, position = read_varint(plain, position)
        key_size, position = read_varint(plain, position)
        value_size, position = read_varint(plain, position + max(key_size, 0))
        header_count, position = read_varint(plain, position + max(value_size, 0))
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    _ensure_header_count(plain, position, header_count)
    if header_count > max_headers:
        raise CorruptBatch(ErrorCode.message_too_large, "More record headers than one request may bring")
    return offset_delta, timestamp_delta, key_size >= 0, header_count, position, start + size


def skip_headers(plain: bytes, position: int, count: int) -> int:
    """Skips `count` record headers from this position on, and returns the position of their end. Raises
    CorruptBatch."""
    try:
        for _ in range(count):
            size, position = read_varint(plain, position)
            if size < 0:
                raise CorruptBatch(ErrorCode.invalid_record, f"A record header claims a key of {size} bytes")
            size, position = read_varint(plain, position + size)
            if size > 0:
                position += size
    except (IndexError, BadVarint) as error:
        raise CorruptBatch(
            ErrorCode.invalid_record, "A record breaks off or holds a number that is too long"
        ) from error
    return position


def ensure_record_end(plain: bytes, position: int, end: int) -> None:
    """Raises CorruptBatch if a record does not end where its size claims."""
    if position != end or position > len(plain):
        raise CorruptBatch(ErrorCode.invalid_record, f"A record ends at {position} and claims to end at {end}")


def wrong_record_size(claimed: int, found: int) -> CorruptBatch:
    """Returns the CorruptBatch for a record that does not have the size, in bytes, that it claims."""
    return CorruptBatch(
        ErrorCode.invalid_record,
        f"A record claims {claimed} bytes and takes {found}",
    )


def ensure_filled(plain: bytes, position: int) -> None:
    """Raises CorruptBatch if bytes are left behind the last record of a batch."""
    if position != len(plain):
        raise CorruptBatch(ErrorCode.invalid_record, "The batch holds more bytes than the records it claims")


def _read_headers(plain: bytes, position: int, count: int) -> tuple[tuple[RecordHeader, ...], int]:
    _ensure_header_count(plain, position, count)
    headers: list[RecordHeader] = []
    for _ in range(count):
        size, position = read_varint(plain, position)
        if size < 0:
            raise CorruptBatch(ErrorCode.invalid_record, f"A record header claims a key of {size} bytes")
        key = plain[position : position + size].decode(errors="replace")
        size, position = read_varint(plain, position + size)
        value = plain[position : position + size] if size >= 0 else None
        position += max(size, 0)
        headers.append((key, value))
    return tuple(headers), position


def _ensure_header_count(plain: bytes, position: int, count: int) -> None:
    if not 0 <= count <= len(plain) - position:
        raise CorruptBatch(ErrorCode.invalid_record, f"A record claims {count} headers")


def _write_record(out: bytearray, record: Record, *, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(b"\0")
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_nullable(body, key.encode())
        _write_nullable(body, value)
    write_varint(out, len(body))
    out += body


def _write_nullable(out: bytearray, part: bytes | None) -> None:
    if part is None:
        write_varint(out, -1)
        return
    write_varint(out, len(part))
    out += part
