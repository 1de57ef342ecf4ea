"""Validation of a client's batch before a log appends it: Kafka's checks in Kafka's order.

| check                                              | Kafka's class                        | answer                 |
|----------------------------------------------------|--------------------------------------|------------------------|
| its base offset is 0                               | UnifiedLog.analyzeAndValidateRecords | INVALID_RECORD         |
| it is no longer than max.message.bytes             | UnifiedLog.analyzeAndValidateRecords | MESSAGE_TOO_LARGE      |
| its checksum is right                              | UnifiedLog.analyzeAndValidateRecords | CORRUPT_MESSAGE        |
| its codec is known                                 | CompressionType.forId                | UNKNOWN_SERVER_ERROR   |
| its counts agree, it is no control batch           | LogValidator.validateBatch           | INVALID_RECORD         |
| a producer id comes with a sequence                | LogValidator.validateBatch           | INVALID_RECORD         |
| it decompresses                                    | DefaultRecordBatch.iterator          | UNKNOWN_SERVER_ERROR   |
| the request's allowance suffices for it            | none: Kafka has no such limit        | MESSAGE_TOO_LARGE      |
| its records are well-formed                        | DefaultRecord.readFrom               | INVALID_RECORD         |
| each has a key, if the topic is compacted          | LogValidator.validateKey             | INVALID_RECORD         |
| each is of a time near now                         | LogValidator.validateTimestamp       | INVALID_TIMESTAMP      |
| it fits a segment                                  | UnifiedLog.append                    | RECORD_LIST_TOO_LARGE  |
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcoord.broker.log.slices import Effort, Slices, decompress
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import NO_TIMESTAMP, Batch, BatchHeader, CorruptBatch, has_valid_crc
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import DECOMPRESSED_LIMIT, SMALLEST_RECORD
from kcoord.protocol.records.record_scan import RecordScan, RecordScanner, RunningMaxima, iter_timestamps_and_keys

_SMALLEST_LONG, _LARGEST_LONG = -(2**63), 2**63 - 1
_LAST_CODEC = max(Codec)
_KIBIBYTE: Final = 1024
_BATCH: Final = 20  # Units of work, in addition to those of its records.
MOST_RECORD_ERRORS: Final = 1000
"""The most records of a batch whose errors are reported; a batch may have half a million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The topic settings that a partition's log uses, with Kafka's names and defaults."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 86_400_000
    retention_bytes: int = -1
    retention_ms: int = 7 * 86_400_000
    max_message_bytes: int = 1_048_588
    uses_append_time: bool = False  # message.timestamp.type=LogAppendTime
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False  # "compact" in cleanup.policy
    is_deletable: bool = True  # "delete" in cleanup.policy


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """The error of one record in a refused batch; `index` is the record's position in the batch."""

    index: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The error of a request that a partition log rejects, such as a batch that fails validation or an offset out of
    range.
    """

    error: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()
    start_offset: int = -1  # The log's start offset, where Kafka sends it with a refused batch.


class Admitted(NamedTuple):
    """A batch that passed validation and may be appended: the largest timestamp that it gets, and its running maxima,
    which are the records that are newer than all before them.
    """

    max_timestamp: int
    maxima: RunningMaxima


@dataclass(slots=True, kw_only=True)
class Allowance:
    """The budget of one Produce request: how many records, headers and decompressed bytes its batches may still use. A
    refused batch uses it up, too.
    """

    records: int = 500_000
    headers: int = 500_000
    decompressed_bytes: int = DECOMPRESSED_LIMIT
    effort: Effort = field(default_factory=Effort)

    def set_to(self, left: "Allowance") -> None:
        """Copies what is left of another budget."""
        self.records, self.headers = left.records, left.headers
        self.decompressed_bytes = left.decompressed_bytes

    def decompress(self, batch: Batch) -> Slices[bytes]:
        """Decompresses the batch's records if the budget suffices, and charges them to it. Raises CorruptBatch."""
        try:
            plain = yield from decompress(batch, limit=self.decompressed_bytes)
        except CorruptBatch as bad:
            self.decompressed_bytes -= min(bad.effort, self.decompressed_bytes)
            raise
        if batch.header.codec:
            self.decompressed_bytes -= len(plain)
        self.records -= min(batch.header.record_count, len(plain) // SMALLEST_RECORD)
        if self.records < 0:
            raise CorruptBatch(ErrorCode.message_too_large, "More records than one request may bring")
        return plain

    def scan(self, batch: Batch) -> Slices[tuple[bytes, RecordScan, RunningMaxima]]:
        """Decompresses and scans the batch's records if the budget suffices, and charges them to it. Returns the plain
        bytes, the scan and the running maxima. Raises CorruptBatch.
        """
        plain, effort = (yield from self.decompress(batch)), self.effort
        yield from effort.spend(_BATCH + len(plain) // _KIBIBYTE)
        scanner = RecordScanner(plain, batch.header.record_count, max_headers=self.headers)
        try:
            while not scanner.is_done:
                yield from effort.spend(scanner.advance(effort.left))
        finally:
            self.headers -= scanner.header_count
        return plain, scanner.result(), scanner.maxima


def admit(batch: Batch, settings: LogSettings, now_ms: int, allowance: Allowance) -> Slices[Admitted | Refused]:
    """Validates a producer's batch as Kafka does, without appending it; returns Refused with the error if the log must
    not append it.
    """
    if refused := _check_batch(batch, settings):
        return refused
    try:
        plain, scan, maxima = yield from allowance.scan(batch)
    except CorruptBatch as bad:
        return Refused(error=bad.error, message=bad.message)
    if batch.header.codec and not scan.is_consecutive:
        # LogValidator would rewrite such a batch, and fails; it does not check this in an uncompressed batch.
        return Refused(error=ErrorCode.unknown_server_error, message="The records' offsets are not consecutive")
    if _may_be_faulty(batch.header, scan, settings, now_ms):
        refused = yield from _check_records(batch.header, plain, settings, now_ms, allowance.effort)
        if refused:
            return refused
    if batch.header.size > settings.segment_bytes:
        return Refused(
            error=ErrorCode.record_list_too_large,
            message=f"A batch of {batch.header.size} bytes does not fit a segment of {settings.segment_bytes}",
        )
    newest = max(NO_TIMESTAMP, _timestamp(batch.header, scan.newest_delta))
    return Admitted(now_ms if settings.uses_append_time else newest, maxima)


def _check_batch(batch: Batch, settings: LogSettings) -> Refused | None:
    header = batch.header
    if header.base_offset != 0:
        return _refuse_batch(f"A client's batch has base offset 0, not {header.base_offset}")
    if header.size > settings.max_message_bytes:
        return Refused(
            error=ErrorCode.message_too_large,
            message=f"A batch of {header.size} bytes is larger than max.message.bytes={settings.max_message_bytes}",
        )
    if not has_valid_crc(batch):
        return Refused(error=ErrorCode.corrupt_message, message=f"The checksum is not {header.crc:#010x}")
    if header.codec > _LAST_CODEC:
        return Refused(error=ErrorCode.unknown_server_error, message=f"No codec has the number {header.codec}")
    if header.record_count <= 0:
        return _refuse_batch(f"A batch claims {header.record_count} records")
    if header.record_count != header.last_offset_delta + 1:
        return _refuse_batch(
            f"A batch of {header.record_count} records ends at offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        return _refuse_batch("Clients write no control batches")
    if header.has_producer_id and header.base_sequence < 0:
        return _refuse_batch(f"Producer {header.producer_id} sends sequence {header.base_sequence}")
    return None


def _refuse_batch(message: str) -> Refused:
    return Refused(error=ErrorCode.invalid_record, message=message)


def _may_be_faulty(header: BatchHeader, scan: RecordScan, settings: LogSettings, now_ms: int) -> bool:
    """Returns whether some record may have to be refused; only then is every record checked."""
    if header.uses_append_time or (settings.is_compacted and scan.has_null_key):
        return True
    if settings.uses_append_time:
        return False
    oldest, newest = header.base_timestamp + scan.oldest_delta, header.base_timestamp + scan.newest_delta
    return not (_is_in_range(oldest, settings, now_ms) and _is_in_range(newest, settings, now_ms))


def _check_records(
    header: BatchHeader, plain: bytes, settings: LogSettings, now_ms: int, effort: Effort
) -> Slices[Refused | None]:
    faults, first, is_untimely = 0, "", False
    errors: list[RecordError] = []
    for index, (delta, has_key) in enumerate(iter_timestamps_and_keys(plain, header.record_count)):
        if fault := _find_fault(header, delta, has_key, settings, now_ms):
            error, message = fault
            faults += 1
            first = first or message
            is_untimely = is_untimely or error is ErrorCode.invalid_timestamp
            if faults <= MOST_RECORD_ERRORS:
                errors.append(RecordError(index=index, message=message))
        yield from effort.spend(1)
    if not faults:
        return None
    return Refused(
        error=ErrorCode.invalid_timestamp if is_untimely else ErrorCode.invalid_record,
        message=f"{faults} of {header.record_count} records are refused; the first: {first}",
        record_errors=tuple(errors),
    )


def _find_fault(
    header: BatchHeader, timestamp_delta: int, has_key: bool, settings: LogSettings, now_ms: int
) -> tuple[ErrorCode, str] | None:
    if settings.is_compacted and not has_key:
        return ErrorCode.invalid_record, "A compacted topic takes no record without a key"
    timestamp = _timestamp(header, timestamp_delta)
    if not settings.uses_append_time and timestamp != NO_TIMESTAMP:
        if not _is_in_range(timestamp, settings, now_ms):
            return ErrorCode.invalid_timestamp, f"The timestamp {timestamp} is too far from now, {now_ms}"
    elif header.uses_append_time:
        return ErrorCode.invalid_timestamp, "Only a broker sets the time of append"
    return None


def _is_in_range(timestamp: int, settings: LogSettings, now_ms: int) -> bool:
    is_recent = now_ms - timestamp <= settings.timestamp_before_max_ms
    is_past = timestamp - now_ms <= settings.timestamp_after_max_ms
    return is_recent and is_past and _SMALLEST_LONG <= timestamp <= _LARGEST_LONG


def _timestamp(header: BatchHeader, delta: int) -> int:
    return header.max_timestamp if header.uses_append_time else header.base_timestamp + delta
