"""The scan of a produced batch's records: what a broker must know before it appends them.

A broker reads every record it is given (LogValidator), so this is the hottest loop of the produce path, and written as
one. Most records have numbers of up to two or three bytes and no headers; those are decoded inline, several times as
fast as others. Headers are counted and skipped: a few kilobytes that decompress to millions of them are refused by the
count that their record claims. The scan can be done in slices, also within the headers of one record.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from kcoord.protocol.records.record import (
    ensure_filled,
    ensure_record_end,
    read_record_start,
    skip_headers,
    validate_record,
)

NO_HEADER_LIMIT = 2**31 - 1
_MAX_MAXIMA: Final = 64
_FEW_HEADERS: Final = 16


class RecordScan(NamedTuple):
    """What a broker must know of a produced batch's records before it appends them: the smallest and largest timestamp
    delta, whether a key is null, whether the offset deltas are 0, 1, 2, …, and the number of record headers."""

    oldest_delta: int
    newest_delta: int
    has_null_key: bool
    is_consecutive: bool  # Whether the offset deltas are 0, 1, 2, …
    header_count: int = 0


class RunningMaximum(NamedTuple):
    """A record with a larger timestamp than all before it in its batch: its deltas, and its position in the
    decompressed bytes."""

    timestamp_delta: int
    offset_delta: int
    position: int


class RunningMaxima:
    """The records of a batch whose timestamps are larger than those of all before them, which let the broker find the
    first record of a time (ListOffsets by timestamp).

    Whenever there are more than 64, every second one is dropped; the first stays.
    """

    __slots__ = ("_offset_deltas", "_positions", "_timestamp_deltas", "is_thinned")

    def __init__(self) -> None:
        self.is_thinned = False
        self._timestamp_deltas = array("q")
        self._offset_deltas = array("q")
        self._positions = array("q")

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, timestamp_delta: int, offset_delta: int, position: int) -> None:
        """Adds the record at this position in the decompressed bytes, which is newer than all before it."""
        if len(self._positions) == _MAX_MAXIMA:
            self.is_thinned = True
            for column in (self._timestamp_deltas, self._offset_deltas, self._positions):
                del column[1::2]
        self._timestamp_deltas.append(timestamp_delta)
        self._offset_deltas.append(offset_delta)
        self._positions.append(position)

    def first_reaching(self, timestamp_delta: int) -> RunningMaximum | None:
        """Returns the first known record whose timestamp delta is at least this, or None."""
        return self._at(bisect_left(self._timestamp_deltas, timestamp_delta))

    def last_before(self, timestamp_delta: int) -> RunningMaximum | None:
        """Returns the last known record whose timestamp delta is less than this, or None: the search for the first one
        that is not less begins there."""
        return self._at(bisect_left(self._timestamp_deltas, timestamp_delta) - 1)

    def _at(self, index: int) -> RunningMaximum | None:
        if not 0 <= index < len(self._positions):
            return None
        return RunningMaximum(self._timestamp_deltas[index], self._offset_deltas[index], self._positions[index])


class RecordScanner:
    """Validates the records of a produced batch step by step, so that the event loop has time for other work in
    between. There must be exactly `count` records, at least one, which fill the bytes and have at most `max_headers`
    headers.

    `header_count` is how many headers the records claimed so far, also if the scan failed.
    """

    def __init__(self, plain: bytes, count: int, *, max_headers: int = NO_HEADER_LIMIT) -> None:
        self.header_count = 0
        self.maxima = RunningMaxima()
        self._plain = plain
        self._count = count
        self._max_headers = max_headers
        self._index = self._position = 0
        self._oldest, self._newest = 1 << 63, -(1 << 63)
        self._null_keys = self._nonconsecutive = 0
        self._headers_left = self._record_end = 0  # For a record whose headers are partly skipped.

    def advance(self, most: int) -> int:
        """Scans up to `most` records and headers, and returns how many it scanned. Raises CorruptBatch."""
        left = most - self._skip_headers(most)
        while left > 0 and self._index < self._count:
            left -= self._scan(min(left, self._count - self._index))
            left -= self._skip_headers(left)
        return most - left

    @property
    def is_done(self) -> bool:
        """Whether all records were scanned."""
        return self._index == self._count and not self._headers_left

    def result(self) -> RecordScan:
        """Returns what the broker must know of the records, after the scan has finished. Raises CorruptBatch."""
        assert self.is_done
        ensure_filled(self._plain, self._position)
        return RecordScan(
            self._oldest, self._newest, self._null_keys > 0, self._nonconsecutive == 0, header_count=self.header_count
        )

    def _scan(self, most: int) -> int:
        """Scans up to `most` records, but stops at one with many headers. Returns how many records and headers it
        scanned.
        """
        plain, position, first = self._plain, self._position, self._index
        oldest, newest, maxima = self._oldest, self._newest, self.maxima
        null_keys = nonconsecutive = few_headers = 0
        index = first
        for index in range(first, first + most):
            start, has_many = position, False
            common = _common_step(plain, position)
            if common:
                offset, timestamp, has_key, position = common
            else:
                offset, timestamp, has_key, headers, position, end = read_record_start(
                    plain, position, max_headers=self._max_headers - self.header_count
                )
                self.header_count += headers
                has_many = headers > _FEW_HEADERS
                if has_many:
                    self._headers_left, self._record_end = headers, end
                else:
                    position = skip_headers(plain, position, headers) if headers else position
                    ensure_record_end(plain, position, end)
                    few_headers += headers
            if timestamp < oldest:
                oldest = timestamp
            if timestamp > newest:
                newest = timestamp
                maxima.add(timestamp, offset, start)
            null_keys += not has_key
            nonconsecutive += offset != index
            if has_many:
                break
        self._position, self._index = position, index + 1
        self._oldest, self._newest = oldest, newest
        self._null_keys += null_keys
        self._nonconsecutive += nonconsecutive
        return self._index - first + few_headers

    def _skip_headers(self, most: int) -> int:
        """Skips up to `most` headers of the record whose headers are partly skipped. Returns how many it skipped."""
        skipped = min(most, self._headers_left)
        if skipped > 0:
            self._position = skip_headers(self._plain, self._position, skipped)
            self._headers_left -= skipped
            if not self._headers_left:
                ensure_record_end(self._plain, self._position, self._record_end)
        return max(skipped, 0)


def scan_records(plain: bytes, count: int, *, max_headers: int = NO_HEADER_LIMIT) -> RecordScan:
    """Validates exactly `count` records of a produced batch, at least one, which must fill the bytes, in one go. Raises
    CorruptBatch."""
    scanner = RecordScanner(plain, count, max_headers=max_headers)
    while not scanner.is_done:
        scanner.advance(count)
    return scanner.result()


def iter_timestamps_and_keys(plain: bytes, count: int) -> Iterator[tuple[int, bool]]:
    """Yields the timestamp delta of each record and whether it has a key. The records must have been scanned before."""
    position = 0
    for _ in range(count):
        common = _common_step(plain, position)
        if common:
            _, timestamp, has_key, position = common
        else:
            _, timestamp, has_key, _, position = validate_record(plain, position, max_headers=NO_HEADER_LIMIT)
        yield timestamp, has_key


def _common_step(plain: bytes, position: int) -> tuple[int, int, bool, int] | None:
    """Returns offset delta, timestamp delta, whether there is a key, and the end; None for a record of another form."""
    try:
        size = plain[position]
        if size > 0x7F:
            position += 1
            size = size & 0x7F | plain[position] << 7
            if size > 0x3FFF:
                position += 1
                size = size & 0x3FFF | plain[position] << 14
        end = position + 1 + (size >> 1)
        position += 2  # The attributes lie between.
        timestamp = plain[position]
        if timestamp > 0x7F:
            position += 1
            timestamp = timestamp & 0x7F | plain[position] << 7
        position += 1
        offset = plain[position]
        if offset > 0x7F:
            position += 1
            offset = offset & 0x7F | plain[position] << 7
            if offset > 0x3FFF:
                position += 1
                offset = offset & 0x3FFF | plain[position] << 14
        position += 1
        key = plain[position]
        if key > 0x7F:
            position += 1
            key = key & 0x7F | plain[position] << 7
        position += 1 if key & 1 else 1 + (key >> 1)
        value = plain[position]
        if value > 0x7F:
            position += 1
            value = value & 0x7F | plain[position] << 7
            if value > 0x3FFF:
                position += 1
                value = value & 0x3FFF | plain[position] << 14
        position += 1 if value & 1 else 1 + (value >> 1)
        is_common = position + 1 == end and not plain[position] and not (size | offset) & 1
        if not is_common or (timestamp | key) > 0x3FFF or (size | offset | value) > 0x1FFFFF:
            return None
    except IndexError:
        return None
    return offset >> 1, (timestamp >> 1) ^ -(timestamp & 1), not key & 1, end
