"""A segment: batches as Kafka has them in `<base offset>.log`, and an index of them.

The bytes live in a store, which may be a file. The index is in memory and, as Kafka's, sparse: it has an entry for the
first batch and for each that begins 4 KiB or more after the last that has one. From there the headers of the batches
are walked, for which one read is enough: all of them begin within 4 KiB. So 4 KiB of records take 32 bytes of memory,
however small the batches are.

| of each entry       |                                                                                      |
|---------------------|--------------------------------------------------------------------------------------|
| base offset         | of the batch                                                                         |
| position            | of the batch                                                                         |
| timestamp           | the largest of the batches from here to the next entry                               |
| timestamp, so far   | the largest of all batches up to the next entry: it only grows, so it can be halved  |
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kcoord.broker.store import Store
from kcoord.wire.batches import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Batch,
    BatchHeader,
    read_header,
    stamp_offsets,
    stamp_timestamp,
)

INDEX_INTERVAL = 4096  # index.interval.bytes


class Segment:
    def __init__(self, base_offset: int, *, log_position: int, created_ms: int, store: Store) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.log_position = log_position  # the bytes that the log ever held before this segment
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = self.modified_ms = created_ms
        self._store = store
        self._base_offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")
        self._timestamps_so_far = array("q")

    @property
    def size(self) -> int:
        return self._store.size

    @property
    def max_timestamp(self) -> int:
        return self._timestamps_so_far[-1] if self._timestamps_so_far else NO_TIMESTAMP

    def append(
        self, batch: Batch, *, leader_epoch: int, max_timestamp: int, uses_append_time: bool, now_ms: int
    ) -> None:
        """Take the batch in at the next offset, stamped; if the store raises OSError, nothing has changed."""
        header, position = batch.header, self._store.size
        stamped = bytearray(batch.data)
        stamp_offsets(stamped, 0, base_offset=self.next_offset, leader_epoch=leader_epoch)
        if header.max_timestamp != max_timestamp or header.uses_append_time != uses_append_time:
            stamp_timestamp(stamped, 0, header.size, max_timestamp=max_timestamp, uses_append_time=uses_append_time)
        self._store.append(stamped)
        if not position:
            self.first_timestamp = max_timestamp
        self._index(position, max_timestamp)
        self.next_offset += header.last_offset_delta + 1
        self.modified_ms = now_ms

    def close(self) -> None:
        """Let go of the bytes; the segment is not used again."""
        self._store.close()

    def position_of(self, offset: int) -> int:
        """Where the batch that holds this offset begins."""
        return self._find(offset)[0]

    def batch_size(self, position: int) -> int:
        """The size of the batch that begins here."""
        return read_header(self._store.read(position, HEADER_SIZE)).size

    def whole_batches(self, position: int, max_bytes: int) -> bytes:
        """The batches from this position on that fit."""
        end = position + max_bytes
        if end < self.size:
            end = self._last_end(end)
        return self._store.read(position, end - position)

    def batch_holding(self, offset: int) -> Batch:
        return self._read_batch(*self._find(offset))

    def batches_reaching(self, timestamp: int, *, from_offset: int) -> Iterator[Batch]:
        """The batches, from the one that holds this offset on, with a record not older than this."""
        first = max(self._entry_of(from_offset), bisect_left(self._timestamps_so_far, timestamp))
        for entry in range(first, len(self._positions)):
            if self._timestamps[entry] < timestamp:
                continue
            for position, header in self._walk(entry):
                if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                    yield self._read_batch(position, header)

    def max_timestamp_from(self, offset: int) -> int:
        """The largest timestamp of the batches that begin at this offset or later."""
        entry = self._entry_of(offset)
        within = [header.max_timestamp for _, header in self._walk(entry) if header.base_offset >= offset]
        return max([*within, *self._timestamps[entry + 1 :]], default=NO_TIMESTAMP)

    def _index(self, position: int, timestamp: int) -> None:
        so_far = max(timestamp, self.max_timestamp)
        if self._positions and position - self._positions[-1] < INDEX_INTERVAL:
            self._timestamps[-1] = max(timestamp, self._timestamps[-1])
            self._timestamps_so_far[-1] = so_far
            return
        self._base_offsets.append(self.next_offset)
        self._positions.append(position)
        self._timestamps.append(timestamp)
        self._timestamps_so_far.append(so_far)

    def _entry_of(self, offset: int) -> int:
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def _walk(self, entry: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from this entry to the next: where each begins, and its header."""
        start, following = self._positions[entry], entry + 1
        end = self._positions[following] if following < len(self._positions) else self.size
        headers = self._store.read(start, min(end - start, INDEX_INTERVAL + HEADER_SIZE))
        position = start
        while position < end:
            header = read_header(headers, position - start)
            yield position, header
            position += header.size

    def _find(self, offset: int) -> tuple[int, BatchHeader]:
        """The batch that holds this offset."""
        return next(found for found in self._walk(self._entry_of(offset)) if found[1].last_offset >= offset)

    def _last_end(self, limit: int) -> int:
        """Where the last batch ends that ends by this position, which is before the segment's end."""
        walk = self._walk(bisect_right(self._positions, limit) - 1)
        return next(position for position, header in walk if position + header.size > limit)

    def _read_batch(self, position: int, header: BatchHeader) -> Batch:
        return Batch(header=header, data=memoryview(self._store.read(position, header.size)))
