"""The cleaner's policy, a pure decision: which records of a log are retained, and the bytes of what is retained.

It takes two passes over the batches of a partition, from its first on. The first, `LastRecords`, finds the last record
of each key. The second asks its `Compaction`, batch by batch, for what is retained of each. The rules are Kafka's
(Cleaner, MemoryRecords.filterTo):

| a record                                    | is retained                                                            |
|---------------------------------------------|------------------------------------------------------------------------|
| that is the last of its key                 | yes                                                                    |
| that is not                                 | no                                                                     |
| without a key                               | no: it has no meaning in a compacted topic                             |
| of a transaction that was aborted           | no, and it is not the last of its key either                           |
| of a transaction that is still open         | yes, and it is not the last of its key: it may still be aborted        |
| behind the begin of an open transaction     | yes: a tombstone there deletes what the transaction has pending        |
| without a value (a tombstone), the last     | until the delete horizon of its batch                                  |
| that marks the end of a transaction         | yes                                                                    |

A tombstone must be seen by consumers that follow the log before it goes. So the first compaction that meets one writes
the delete horizon into its batch: the time until which it is retained, `delete.retention.ms` from then. A later
compaction drops it.

A retained record has its old offset and timestamp, and a batch its old base offset and last offset, so readers
see nothing but holes. An empty batch is dropped, except the last: the end of the log must be known. (A broker also
retains the last one of each producer, for its sequence number. Coordinators' records are not checked against
sequences.)

The result replaces its input all at once, or from the first batch on: where a tombstone is gone, what it deleted must
have gone before.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    assemble,
    has_valid_crc,
    with_delete_horizon,
    without_records,
)
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.control_records import TRANSACTION_ENDS, ControlRecordType, read_control_type
from kcoord.protocol.records.record import ensure_filled, plain_records, wrong_record_size
from kcoord.protocol.varint import BadVarint, read_uvarint, read_varlong, write_varint

_NEVER: Final = 2**63 - 1
_BUCKET_BITS: Final = 8


@dataclass(slots=True)
class _OpenTransaction:
    first_offset: int
    offsets: dict[bytes, int] = field(default_factory=dict)


class LastRecords:
    """The first pass of a compaction, over all batches of a partition: it collects the offset of the last record of
    each key, and the aborted and open transactions."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._open: dict[int, _OpenTransaction] = {}  # by producer id
        self._aborted: dict[int, list[range]] = {}

    def add(self, batch: Batch) -> None:
        """Reads the keys of the next batch, in the log's order. Raises CorruptBatch: corrupt records must not be
        rewritten as valid ones."""
        if not has_valid_crc(batch):
            raise CorruptBatch(ErrorCode.corrupt_message, f"The batch at offset {batch.header.base_offset} is corrupt")
        if batch.header.is_control:
            self._end_transaction(batch)
            return
        offsets = self._offsets
        if batch.header.is_transactional and batch.header.record_count:
            begun = _OpenTransaction(batch.header.base_offset)
            offsets = self._open.setdefault(batch.header.producer_id, begun).offsets
        base_offset = batch.header.base_offset
        largest_delta = batch.header.last_offset - base_offset
        for _, _, delta, key, _ in _iter_records(plain_records(batch), batch.header.record_count):
            if delta > largest_delta:
                raise CorruptBatch(ErrorCode.invalid_record, "A record has an offset behind the last of its batch")
            if key is not None:
                offsets[key] = base_offset + delta

    def compaction(self, *, now_ms: int, delete_retention_ms: int) -> "Compaction":
        """Returns the second pass, after the last batch was added. `delete_retention_ms` is how long tombstones are
        retained."""
        return Compaction(
            now_ms=now_ms,
            delete_retention_ms=delete_retention_ms,
            offsets=self._offsets,
            buckets={offset >> _BUCKET_BITS for offset in self._offsets.values()},
            aborted=self._aborted,
            stable_end=min((begun.first_offset for begun in self._open.values()), default=_NEVER),
        )

    def _end_transaction(self, batch: Batch) -> None:
        kind = _marker_kind(batch)
        if kind not in TRANSACTION_ENDS or batch.header.producer_id not in self._open:
            return
        ended = self._open.pop(batch.header.producer_id)
        if kind == ControlRecordType.COMMIT:
            # Kafka retains the record with the higher offset, whichever was committed later.
            for key, offset in ended.offsets.items():
                self._offsets[key] = max(offset, self._offsets.get(key, -1))
        else:
            aborted = range(ended.first_offset, batch.header.base_offset)
            self._aborted.setdefault(batch.header.producer_id, []).append(aborted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The second pass of a compaction, which decides for each batch what is retained of it. In a log that was written
    to for a while most batches hold no last record of a key, and their records are not read."""

    now_ms: int
    delete_retention_ms: int
    offsets: Mapping[bytes, int]
    """The offset of the last record of each key."""
    buckets: Set[int]
    """The buckets of 256 offsets that hold a last record."""
    aborted: Mapping[int, list[range]]
    """The offsets of aborted transactions, by producer id."""
    stable_end: int
    """The first offset of the transactions that are still open."""

    def retain(self, batch: Batch, *, is_last: bool = False) -> bytes | memoryview:
        """Returns what is retained of a batch: its own bytes, the bytes of a smaller batch, or no bytes. `is_last` says
        that it is the last batch of the log, which is emptied and not dropped."""
        header = batch.header
        if header.is_control or header.last_offset >= self.stable_end:
            return batch.data
        if not self._may_hold_last_records(header) or self._is_aborted(header):
            return _emptied(header, is_last=is_last)
        plain = plain_records(batch)
        spans, has_tombstones = self._retained_spans(header, plain)
        if not spans:
            return _emptied(header, is_last=is_last)
        if has_tombstones and header.delete_horizon is None:
            return _rebuild(with_delete_horizon(header, self.now_ms + self.delete_retention_ms), header, plain, spans)
        if len(spans) == header.record_count:
            return batch.data
        return _rebuild(header, header, plain, spans)

    def _retained_spans(self, header: BatchHeader, plain: bytes) -> tuple[list[slice], bool]:
        """Returns the spans of the retained records, and whether there are tombstones among them."""
        drops_tombstones = header.delete_horizon is not None and self.now_ms >= header.delete_horizon
        base_offset, offsets = header.base_offset, self.offsets
        spans = []
        has_tombstones = False
        for start, end, delta, key, has_value in _iter_records(plain, header.record_count):
            if key is None or base_offset + delta < offsets.get(key, -1) or (drops_tombstones and not has_value):
                continue
            spans.append(slice(start, end))
            has_tombstones |= not has_value
        return spans, has_tombstones

    def _may_hold_last_records(self, header: BatchHeader) -> bool:
        return not self.buckets.isdisjoint(range(_bucket(header.base_offset), _bucket(header.last_offset) + 1))

    def _is_aborted(self, header: BatchHeader) -> bool:
        aborted = self.aborted.get(header.producer_id, ()) if header.is_transactional else ()
        return any(header.base_offset in offsets for offsets in aborted)


def _bucket(offset: int) -> int:
    return offset >> _BUCKET_BITS


def _emptied(header: BatchHeader, *, is_last: bool) -> bytes:
    return assemble(without_records(header), b"") if is_last else b""


def _marker_kind(batch: Batch) -> int | None:
    """Returns the type of the marker in a control batch; None if a broker's cleaner has emptied the batch."""
    for _, _, _, key, _ in _iter_records(plain_records(batch), batch.header.record_count):
        if (kind := read_control_type(key)) is not None:
            return kind
    return None


def _iter_records(plain: bytes, count: int) -> Iterator[tuple[int, int, int, bytes | None, bool]]:
    """Yields start, end, offset delta, key and whether there is a value, for each record. Raises CorruptBatch.

    It reads only what compaction needs, in a third of the time that `record_spans` takes for everything.
    """
    start = 0
    try:
        for _ in range(count):
            size, position = read_uvarint(plain, start)
            end = position + (size >> 1)
            position += 1  # attributes
            while plain[position] > 0x7F:  # timestamp delta
                position += 1
            delta, position = read_uvarint(plain, position + 1)
            key_size, position = read_uvarint(plain, position)
            key = None if key_size & 1 else plain[position : position + (key_size >> 1)]
            position += 0 if key is None else key_size >> 1
            if position >= end or end > len(plain):
                raise wrong_record_size(size >> 1, position - start)
            if delta & 1:
                raise CorruptBatch(ErrorCode.invalid_record, "A record has an offset before that of its batch")
            yield start, end, delta >> 1, key, not plain[position] & 1
            start = end
    except (IndexError, BadVarint):
        raise _broken_record() from None
    ensure_filled(plain, start)


def _broken_record() -> CorruptBatch:
    return CorruptBatch(ErrorCode.invalid_record, "A record breaks off or holds a number that is too long")


def _rebuild(header: BatchHeader, old: BatchHeader, plain: bytes, spans: list[slice]) -> bytes:
    """Encodes a batch of these records of the old one."""
    moved_by = old.base_timestamp - header.base_timestamp
    deltas = [_timestamp_delta(plain, record.start) for record in spans]
    records = [plain[record] for record in spans]
    if moved_by:
        records = [_restamped(record, delta + moved_by) for record, delta in zip(records, deltas, strict=True)]
    if not header.uses_append_time:
        header = header._replace(max_timestamp=old.base_timestamp + max(deltas))
    return assemble(header._replace(record_count=len(spans)), compress(Codec(header.codec), b"".join(records)))


def _timestamp_delta(plain: bytes, start: int) -> int:
    _, attributes_at = read_uvarint(plain, start)
    try:
        return read_varlong(plain, attributes_at + 1)[0]
    except BadVarint:
        raise _broken_record() from None


def _restamped(record: bytes, timestamp_delta: int) -> bytes:
    """Returns the record with another timestamp delta."""
    _, attributes_at = read_uvarint(record, 0)
    _, rest_at = read_varlong(record, attributes_at + 1)
    body = bytearray(record[attributes_at : attributes_at + 1])
    write_varint(body, timestamp_delta)
    body += record[rest_at:]
    whole = bytearray()
    write_varint(whole, len(body))
    return bytes(whole + body)
