"""Record batches, format v2: the header, the checks that read no records, and the fields that a broker sets.

| at | field             |                        | at | field          |
|----|-------------------|------------------------|----|----------------|
|  0 | base offset       |                        | 27 | base timestamp |
|  8 | length            | of all that follows    | 35 | max timestamp  |
| 12 | leader epoch      |                        | 43 | producer id    |
| 16 | magic             | 2                      | 51 | producer epoch |
| 17 | crc               | of all that follows    | 53 | base sequence  |
| 21 | attributes        | codec and flags        | 57 | record count   |
| 23 | last offset delta |                        | 61 | the records    |

Base offset and leader epoch lie before the checksum, so that a broker sets them without another pass over the bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kcoord.errors import ErrorCode
from kcoord.exceptions import CorruptData

HEADER_SIZE = 61
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAGIC = 2

FRAME = struct.Struct(">qiib")  # The start of every format: base offset, length, leader epoch or crc, magic.

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
ATTRIBUTES_OFFSET = 21
_MAX_TIMESTAMP_AT = 35

LOG_OVERHEAD = 12
_SMALLEST_LENGTH = 14  # The smallest record of format v0 (LegacyRecord.RECORD_OVERHEAD_V0).
_LARGEST_SEQUENCE = 2**31 - 1

_CODEC = 0x07
_CODEC_AT = (
    ATTRIBUTES_OFFSET + 1
)  # The second byte of the attributes, which are the first field that the checksum covers.
_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

Buffer = bytes | bytearray | memoryview


class CorruptBatch(CorruptData, ValueError):
    """Raised for bytes that are no record batch, or for a batch that a client may not send. `error` is Kafka's error
    code for it; `effort` is how many bytes may have been decompressed before it was found."""

    def __init__(self, error: ErrorCode, message: str, *, effort: int = 0) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.effort = effort


class BatchHeader(NamedTuple):
    """The header of a record batch (format v2). It is a named tuple because one is made for every batch: 4 times as
    fast as a dataclass."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> int:
        """The number of the codec that the records are compressed with; 0 if they are not."""
        return self.attributes & _CODEC

    @property
    def uses_append_time(self) -> bool:
        """Whether the records have the time of their append (LogAppendTime) and not the producer's."""
        return self.attributes & _APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records, such as transaction markers, instead of data."""
        return self.attributes & _CONTROL != 0

    @property
    def delete_horizon(self) -> int | None:
        """The time, in milliseconds since the Unix epoch, after which the cleaner may drop the batch's tombstones; None
        if it has not set one. It replaces the base timestamp."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record of an idempotent producer's batch, else -1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return step_sequence(self.base_sequence, self.last_offset_delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch: its header, and all its bytes, header included."""

    header: BatchHeader
    data: memoryview


def step_sequence(sequence: int, increment: int) -> int:
    """Returns the producer's sequence number that is `increment` records later: after 2^31-1 comes 0."""
    return (sequence + increment) & _LARGEST_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Decodes the header of the record batch at this position, where the caller knows that 61 bytes are."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def split_batches(buffer: Buffer) -> Iterator[Batch]:
    """Yields the whole record batches of the buffer. A batch that is cut short at its end is left out, as Kafka does.
    Raises CorruptBatch."""
    view = memoryview(buffer)
    position = 0
    while size := _next_size(view, position):
        yield Batch(header=read_header(view, position), data=view[position : position + size])
        position += size


def probe_frame(head: Buffer, left: int) -> tuple[int, str]:
    """Returns the size in bytes of the record batch that begins with these bytes, and what is wrong with it, or "".
    `left` is how many bytes are left in the file. The size is 0 if the next batch cannot be found."""
    if left < FRAME.size:
        return 0, f"{left} bytes are left, too few for a batch: the end is torn"
    _, length, _, magic = FRAME.unpack_from(head)
    size: int = length + LOG_OVERHEAD
    if length < _SMALLEST_LENGTH:
        return 0, f"no batch: a length of {length}; {left} bytes are left"
    if not 0 <= magic <= MAGIC:
        return 0, f"no batch: a magic of {magic}; {left} bytes are left"
    if size > left:
        return 0, f"a batch of {size} bytes, of which {left} are left: the end is torn"
    if magic < MAGIC:
        return size, f"messages of format v{magic}, which is no longer read"
    if size < HEADER_SIZE:
        return 0, f"no batch: {size} bytes, fewer than a header has; {left} bytes are left"
    return size, ""


def produced_batch(buffer: Buffer | None) -> Batch:
    """Returns the one record batch that a Produce request of version 3 or later has for a partition. Raises
    CorruptBatch.

    It checks what ProduceRequest.validateRecords does. An incomplete batch behind the first is dropped, as Kafka does.
    """
    view = memoryview(buffer or b"")
    size = _next_size(view, 0)
    if not size:
        raise CorruptBatch(ErrorCode.invalid_record, "A Produce request brings one batch per partition, not none")
    if _next_size(view, size):
        raise CorruptBatch(ErrorCode.invalid_record, "A Produce request brings one batch per partition, not several")
    return Batch(header=read_header(view), data=view[:size])


def assemble(header: BatchHeader, packed: bytes) -> bytes:
    """Encodes a record batch of this header and these records, which are compressed already; its length and its
    checksum are computed."""
    out = bytearray(_HEADER.pack(*header)) + packed
    _LENGTH.pack_into(out, _LENGTH_AT, len(out) - LOG_OVERHEAD)
    _stamp_crc(out, 0, len(out))
    return bytes(out)


def claims_compression(batch: bytes) -> bool:
    """Returns whether the attributes of a batch, which may be malformed, say that its records are compressed."""
    return len(batch) > _CODEC_AT and batch[_CODEC_AT] & _CODEC != 0


def attributes_of(codec: int, *, is_transactional: bool = False, is_control: bool = False) -> int:
    """Returns the attributes field of a batch header for these properties."""
    return codec | (_TRANSACTIONAL if is_transactional else 0) | (_CONTROL if is_control else 0)


def with_delete_horizon(header: BatchHeader, horizon: int) -> BatchHeader:
    """Returns the batch header with this delete horizon (milliseconds since the Unix epoch), which the records'
    timestamps then count from."""
    return header._replace(attributes=header.attributes | _DELETE_HORIZON, base_timestamp=horizon)


def without_records(header: BatchHeader) -> BatchHeader:
    """Returns the header of a batch whose records the cleaner has all removed: only its offsets are left
    (DefaultRecordBatch.writeEmptyHeader)."""
    attributes = header.attributes & (_APPEND_TIME | _TRANSACTIONAL | _CONTROL)
    return header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)


def has_valid_crc(batch: Batch) -> bool:
    """Returns whether the checksum in the batch's header is right."""
    return batch.header.crc == _checksum(batch.data[ATTRIBUTES_OFFSET:])


def stamp_offsets(buffer: bytearray, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into the batch at this position, which a broker does when it appends it. The
    checksum does not cover them."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def stamp_timestamp(buffer: bytearray, position: int, size: int, *, max_timestamp: int, uses_append_time: bool) -> None:
    """Writes the largest timestamp (milliseconds since the Unix epoch) and its type into the batch at this position,
    and the new checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_OFFSET)
    # DefaultRecordBatch.setMaxTimestamp drops the bits that have no meaning, too.
    flags = attributes & (_CODEC | _TRANSACTIONAL | _CONTROL | _DELETE_HORIZON)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_OFFSET, flags | (_APPEND_TIME if uses_append_time else 0))
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    _stamp_crc(buffer, position, size)


def _stamp_crc(buffer: bytearray, position: int, size: int) -> None:
    with memoryview(buffer) as view, view[position + ATTRIBUTES_OFFSET : position + size] as checked:
        crc = _checksum(checked)
    _CRC.pack_into(buffer, position + _CRC_AT, crc)


def _checksum(checked: memoryview) -> int:
    # Imported here: the package reads its own version, which would delay a server's start by 40 ms.
    from crc32c import crc32c

    return crc32c(checked)


def _next_size(view: memoryview, position: int) -> int:
    """Returns the size of the batch at this position, or 0 if it is incomplete
    (ByteBufferLogInputStream.nextBatchSize).
    """
    left = len(view) - position
    if left < FRAME.size:
        return 0
    _, length, _, magic = FRAME.unpack_from(view, position)
    if length < _SMALLEST_LENGTH:
        raise CorruptBatch(
            ErrorCode.corrupt_message, f"A batch claims a length of {length}, the least is {_SMALLEST_LENGTH}"
        )
    if not 0 <= magic <= MAGIC:
        raise CorruptBatch(ErrorCode.corrupt_message, f"No format has the magic {magic}")
    size: int = length + LOG_OVERHEAD
    if left < size:
        return 0
    if magic != MAGIC:
        raise CorruptBatch(ErrorCode.invalid_record, f"Batches of format v{magic} are no longer taken")
    if size < HEADER_SIZE:
        raise CorruptBatch(
            ErrorCode.corrupt_message, f"A batch of {size} bytes is shorter than its header of {HEADER_SIZE}"
        )
    return size
