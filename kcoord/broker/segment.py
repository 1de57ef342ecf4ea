"""A segment in memory: the bytes of its batches as Kafka has them in `<base offset>.log`, and where each batch begins.

Three numbers per batch stand in flat arrays, 24 bytes in all. The timestamps are the largest *so far*: they only grow,
so that the first batch that reaches a time is found by halving.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kcoord.wire.batches import NO_TIMESTAMP, Batch, read_header, stamp_offsets, stamp_timestamp


class Segment:
    def __init__(self, base_offset: int, *, log_position: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.log_position = log_position  # the bytes that the log ever held before this segment
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = self.modified_ms = created_ms
        self._bytes = bytearray()
        self._base_offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    @property
    def size(self) -> int:
        return len(self._bytes)

    @property
    def max_timestamp(self) -> int:
        return self._timestamps[-1] if self._timestamps else NO_TIMESTAMP

    def append(
        self, batch: Batch, *, leader_epoch: int, max_timestamp: int, uses_append_time: bool, now_ms: int
    ) -> None:
        """Take the batch in at the next offset and stamp it."""
        header = batch.header
        position = len(self._bytes)
        self._bytes += batch.data
        stamp_offsets(self._bytes, position, base_offset=self.next_offset, leader_epoch=leader_epoch)
        if header.max_timestamp != max_timestamp or header.uses_append_time != uses_append_time:
            stamp_timestamp(
                self._bytes, position, header.size, max_timestamp=max_timestamp, uses_append_time=uses_append_time
            )
        if not position:
            self.first_timestamp = max_timestamp
        self._timestamps.append(max(max_timestamp, self.max_timestamp))
        self._base_offsets.append(self.next_offset)
        self._positions.append(position)
        self.next_offset += header.last_offset_delta + 1
        self.modified_ms = now_ms

    def position_of(self, offset: int) -> int:
        """Where the batch that holds this offset begins."""
        return self._positions[self._index_of(offset)]

    def batch_size(self, position: int) -> int:
        """The size of the batch that begins here."""
        return read_header(self._bytes, position).size

    def whole_batches(self, position: int, max_bytes: int) -> memoryview:
        """The batches from this position on that fit; to be let go of before the next append."""
        end = position + max_bytes
        if end < len(self._bytes):
            end = self._positions[bisect_right(self._positions, end) - 1]
        return memoryview(self._bytes)[position:end]

    def batch_holding(self, offset: int) -> Batch:
        """A copy of the batch that holds this offset."""
        return self._copy(self._index_of(offset))

    def batches_reaching(self, timestamp: int, *, from_offset: int) -> Iterator[Batch]:
        """Copies of the batches, from the one that holds this offset on, with a record not older than this."""
        first = max(self._index_of(from_offset), bisect_left(self._timestamps, timestamp))
        for index in range(first, len(self._positions)):
            if read_header(self._bytes, self._positions[index]).max_timestamp >= timestamp:
                yield self._copy(index)

    def max_timestamp_from(self, offset: int) -> int:
        """The largest timestamp of the batches that begin at this offset or later."""
        first = bisect_left(self._base_offsets, offset)
        if first == 0:
            return self.max_timestamp
        headers = (read_header(self._bytes, position) for position in self._positions[first:])
        return max((header.max_timestamp for header in headers), default=NO_TIMESTAMP)

    def _copy(self, index: int) -> Batch:
        position = self._positions[index]
        header = read_header(self._bytes, position)
        return Batch(header=header, data=memoryview(bytes(self._bytes[position : position + header.size])))

    def _index_of(self, offset: int) -> int:
        return max(bisect_right(self._base_offsets, offset) - 1, 0)
