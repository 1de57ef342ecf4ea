"""A segment: the batches of `<base offset>.log` in Kafka's format, and an index of them.

The bytes are in a store, which may be a file. The index is in memory and, like Kafka's, sparse: it has an entry for the
first batch and for each that begins 4 KiB or more after the last one with an entry. From there the headers of the
batches are read one after the other, for which one read is enough: all of them begin within 4 KiB. So 4 KiB of records
take 32 bytes of memory, however small the batches are.

| a field of an entry |                                                                                      |
|---------------------|--------------------------------------------------------------------------------------|
| base offset         | of the batch                                                                         |
| position            | of the batch                                                                         |
| timestamp           | the largest of the batches from here to the next entry                               |
| timestamp, so far   | the largest of all batches up to the next entry: it only grows, so it can be bisected |

A segment that existed before the process gets its index at the first lookup: then all its headers are read. Offsets may
have gaps, as in a compacted log.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Self

from kcoord.broker.log.storage import Store
from kcoord.exceptions import CorruptData
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    Batch,
    BatchHeader,
    read_header,
    stamp_offsets,
    stamp_timestamp,
)
from kcoord.protocol.records.record_scan import RunningMaxima

INDEX_INTERVAL = 4096  # index.interval.bytes
MANY_RECORDS = 4096  # Batches with more records cache their running maxima, which take less memory than the batch does.
_READ_AHEAD = 1 << 18
_STEP = struct.Struct(">qi11xi8xq")  # Fields of a header: base offset, length, last offset delta, max timestamp.


class CorruptSegment(CorruptData, OSError):
    """Raised when the bytes of a segment are not what was appended: corrupt or truncated batches."""


class Segment:
    """A segment of a partition log: the batches of one `.log` file in a store, with a sparse index of offsets and
    timestamps in memory.
    """

    def __init__(self, base_offset: int, *, log_position: int, created_ms: int, store: Store) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.log_position = log_position  # The bytes of all segments before this one, deleted ones too.
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = self.modified_ms = created_ms
        self.store = store
        self.is_closed = False
        self._is_indexed = True
        self._base_offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")
        self._timestamps_so_far = array("q")
        # The running maxima of large batches that this process has appended, by position.
        self._maxima: dict[int, RunningMaxima] = {}

    @classmethod
    def closed(cls, base_offset: int, *, next_offset: int, log_position: int, modified_ms: int, store: Store) -> Self:
        """Makes a segment from the bytes of an earlier run that takes no more batches; `next_offset` is where the next
        segment begins.
        """
        segment = cls(base_offset, log_position=log_position, created_ms=modified_ms, store=store)
        segment.next_offset = next_offset
        segment._is_indexed = False
        return segment

    @classmethod
    def active(cls, base_offset: int, *, log_position: int, created_ms: int, modified_ms: int, store: Store) -> Self:
        """Makes a segment from the bytes of an earlier run to which batches will be appended. Reads all its headers.
        Raises CorruptSegment, OSError.
        """
        segment = cls(base_offset, log_position=log_position, created_ms=created_ms, store=store)
        segment.modified_ms = modified_ms
        segment.next_offset = segment._make_index()
        return segment

    @property
    def size(self) -> int:
        """The size of the segment's batches in bytes."""
        return self.store.size

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment's records in milliseconds; -1 without records."""
        if not self._is_indexed:
            self._build_index_once()
        return self._timestamps_so_far[-1] if self._timestamps_so_far else NO_TIMESTAMP

    def append(
        self,
        batch: Batch,
        *,
        leader_epoch: int,
        max_timestamp: int,
        uses_append_time: bool,
        now_ms: int,
        maxima: RunningMaxima | None = None,
    ) -> None:
        """Appends a batch at the next offset, and sets its offset, leader epoch and timestamp. If the store raises
        OSError, nothing has changed.
        """
        header, position = batch.header, self.store.size
        stamped = bytearray(batch.data)
        stamp_offsets(stamped, 0, base_offset=self.next_offset, leader_epoch=leader_epoch)
        if header.max_timestamp != max_timestamp or header.uses_append_time != uses_append_time:
            stamp_timestamp(stamped, 0, header.size, max_timestamp=max_timestamp, uses_append_time=uses_append_time)
        self.store.append(stamped)
        self._index(position, self.next_offset, max_timestamp)
        if maxima is not None and header.record_count >= MANY_RECORDS and not uses_append_time:
            self._maxima[position] = maxima
        self.next_offset += header.last_offset_delta + 1
        self.modified_ms = now_ms

    def append_all(self, batches: Sequence[Batch], *, leader_epoch: int, now_ms: int) -> None:
        """Appends batches of this process, which get their offsets and leader epoch, in one write. If the store raises
        OSError, nothing has changed.
        """
        content = bytearray().join([batch.data for batch in batches])
        position, next_offset = 0, self.next_offset
        for batch in batches:
            stamp_offsets(content, position, base_offset=next_offset, leader_epoch=leader_epoch)
            position += batch.header.size
            next_offset += batch.header.last_offset_delta + 1
        position = self.store.size
        self.store.append(content)
        for batch in batches:
            self._index(position, self.next_offset, batch.header.max_timestamp)
            position += batch.header.size
            self.next_offset += batch.header.last_offset_delta + 1
        self.modified_ms = now_ms

    def close(self) -> None:
        """Closes the segment's store; the segment is not used again."""
        self.is_closed = True
        self.store.close()

    def delete(self) -> None:
        """Deletes the segment's store; the segment is not used again."""
        self.is_closed = True
        self.store.delete()

    def position_of(self, offset: int) -> int:
        """Returns the byte position of the first batch that ends at this offset or later; the segment's end if there is
        none.
        """
        found = self._find(offset)
        return found[0] if found else self.size

    def batch_size(self, position: int) -> int:
        """Returns the size in bytes of the batch at this byte position."""
        return read_header(self.store.read(position, HEADER_SIZE)).size

    def whole_batches(self, position: int, max_bytes: int) -> bytes:
        """Reads as many whole batches as fit into `max_bytes`, from this byte position on."""
        end = position + max_bytes
        if end < self.size:
            end = self._last_end(end)
        return self.store.read(position, end - position)

    def batch_holding(self, offset: int) -> Batch | None:
        """Returns the batch with this offset, or the next one if the offset was compacted away; None at the segment's
        end.
        """
        found = self._find(offset)
        return self._read_batch(*found) if found else None

    def batches_reaching(self, timestamp: int, *, from_offset: int) -> Iterator[tuple[Batch, RunningMaxima | None]]:
        """Yields the batches, from the one with `from_offset` on, that have a record not older than this timestamp.
        Large batches come with their running maxima, where these are known.
        """
        first = max(self._entry_of(from_offset), bisect_left(self._timestamps_so_far, timestamp))
        for entry in range(first, len(self._positions)):
            if self._timestamps[entry] < timestamp:
                continue
            for position, header in self._walk(entry):
                if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                    yield self._read_batch(position, header), self._maxima.get(position)

    def max_timestamp_from(self, offset: int) -> int:
        """Returns the largest timestamp of the batches that begin at this offset or later; -1 if there are none."""
        entry = self._entry_of(offset)
        if not self._positions:
            return NO_TIMESTAMP
        within = [header.max_timestamp for _, header in self._walk(entry) if header.base_offset >= offset]
        return max([*within, *self._timestamps[entry + 1 :]], default=NO_TIMESTAMP)

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yields the byte position and the header of each batch, read from the store. Raises CorruptSegment,
        OSError.
        """
        for position, ahead, at in self._steps():
            yield position, read_header(ahead, at)

    def _steps(self) -> Iterator[tuple[int, bytes, int]]:
        """Yields where each batch begins: in the store, in the bytes that were read, and at which index of those."""
        position, size, next_offset = 0, self.size, self.base_offset
        start, ahead = 0, b""
        while position < size:
            at = position - start
            if at + HEADER_SIZE > len(ahead):
                start, at, ahead = position, 0, self.store.read(position, _READ_AHEAD)
                if len(ahead) < HEADER_SIZE:
                    raise self._corrupt("there is no whole batch", position)
            base_offset, length, last_delta, _ = _STEP.unpack_from(ahead, at)
            following = position + length + LOG_OVERHEAD
            if following - position < HEADER_SIZE or following > size:
                raise self._corrupt("there is no whole batch", position)
            if base_offset < next_offset or last_delta < 0:
                raise self._corrupt("there is a batch of other offsets", position)
            yield position, ahead, at
            position, next_offset = following, base_offset + last_delta + 1

    def _make_index(self) -> int:
        """Reads all headers and indexes them. Returns the offset behind the last batch."""
        self._clear_index()
        next_offset = self.base_offset
        entry_position, entry_newest, newest = -INDEX_INTERVAL, NO_TIMESTAMP, NO_TIMESTAMP
        try:
            for position, ahead, at in self._steps():
                base_offset, _, last_delta, timestamp = _STEP.unpack_from(ahead, at)
                next_offset = base_offset + last_delta + 1
                if position - entry_position >= INDEX_INTERVAL:
                    self._base_offsets.append(base_offset)
                    self._positions.append(position)
                    self._timestamps.append(timestamp)
                    newest = max(newest, timestamp)
                    self._timestamps_so_far.append(newest)
                    entry_position, entry_newest = position, timestamp
                elif timestamp > entry_newest:
                    entry_newest = self._timestamps[-1] = timestamp
                    if timestamp > newest:
                        newest = self._timestamps_so_far[-1] = timestamp
        except OSError:
            self._clear_index()
            raise
        if self.size:
            self.first_timestamp = _STEP.unpack_from(self.store.read(0, HEADER_SIZE))[3]
        self._is_indexed = True
        return next_offset

    def _build_index_once(self) -> None:
        """Indexes a closed segment at its first lookup."""
        if self._make_index() > self.next_offset:
            self._clear_index()
            raise CorruptSegment(
                f"the segment {self.base_offset} goes beyond {self.next_offset}, where the next one begins"
            )

    def _clear_index(self) -> None:
        self._is_indexed = False
        for part in (self._base_offsets, self._positions, self._timestamps, self._timestamps_so_far):
            del part[:]

    def _corrupt(self, what: str, position: int) -> CorruptSegment:
        return CorruptSegment(f"{what} at {position} of the segment {self.base_offset}")

    def _index(self, position: int, base_offset: int, timestamp: int) -> None:
        if not position:
            self.first_timestamp = timestamp
        so_far = max(timestamp, self.max_timestamp)
        if self._positions and position - self._positions[-1] < INDEX_INTERVAL:
            self._timestamps[-1] = max(timestamp, self._timestamps[-1])
            self._timestamps_so_far[-1] = so_far
            return
        self._base_offsets.append(base_offset)
        self._positions.append(position)
        self._timestamps.append(timestamp)
        self._timestamps_so_far.append(so_far)

    def _entry_of(self, offset: int) -> int:
        if not self._is_indexed:
            self._build_index_once()
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def _walk(self, entry: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yields the position and the header of each batch from this entry to the next."""
        start, following = self._positions[entry], entry + 1
        end = self._positions[following] if following < len(self._positions) else self.size
        headers = self.store.read(start, min(end - start, INDEX_INTERVAL + HEADER_SIZE))
        position = start
        while position < end:
            header = read_header(headers, position - start)
            if header.size < HEADER_SIZE:
                raise self._corrupt("there is no more batch", position)
            yield position, header
            position += header.size

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Returns the first batch that ends at this offset or later: within its index entry, or else within
        the next.
        """
        for entry in range(self._entry_of(offset), len(self._positions)):
            for found in self._walk(entry):
                if found[1].last_offset >= offset:
                    return found
        return None

    def _last_end(self, limit: int) -> int:
        """Returns the end of the last batch that fits before this position, which is before the segment's end."""
        if not self._is_indexed:
            self._build_index_once()
        walk = self._walk(bisect_right(self._positions, limit) - 1)
        return next(position for position, header in walk if position + header.size > limit)

    def _read_batch(self, position: int, header: BatchHeader) -> Batch:
        return Batch(header=header, data=memoryview(self.store.read(position, header.size)))
