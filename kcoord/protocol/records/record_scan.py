"""What a broker must know of a produced batch's records before it takes them: that they are sound, and their times.

A broker looks at every record it is given (LogValidator), so this is the hottest loop of the produce path, and written
as one. Most records have numbers of up to two or three bytes and no headers; those are stepped over in place, several
times as fast as others. Headers are counted and skipped: a few kilobytes that decompress to millions of them are
refused by the count that their record claims. All of it can be done in slices, within the headers of one record too.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from kcoord.protocol.records.record import begin_record, end_record, ensure_filled, skip_headers, step_over

NO_HEADER_LIMIT = 2**31 - 1
_MOST_RISES: Final = 64
_FEW_HEADERS: Final = 16


class RecordSurvey(NamedTuple):
    oldest_delta: int
    newest_delta: int
    has_null_key: bool
    is_consecutive: bool  # the offset deltas are 0, 1, 2, …
    header_count: int = 0


class Rise(NamedTuple):
    """A record that is newer than all before it in its batch: its deltas, and where in the plain bytes it begins."""

    timestamp_delta: int
    offset_delta: int
    position: int


class Rises:
    """The records of a batch that are newer than all before them, by which its first record of a time is found.

    Of more than so many, every second one is left out, again and again; the first stays.
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
        if len(self._positions) == _MOST_RISES:
            self.is_thinned = True
            for column in (self._timestamp_deltas, self._offset_deltas, self._positions):
                del column[1::2]
        self._timestamp_deltas.append(timestamp_delta)
        self._offset_deltas.append(offset_delta)
        self._positions.append(position)

    def first_reaching(self, timestamp_delta: int) -> Rise | None:
        """The first of those known that is not older than this."""
        return self._at(bisect_left(self._timestamp_deltas, timestamp_delta))

    def last_before(self, timestamp_delta: int) -> Rise | None:
        """The last of those known that is older than this: whoever looks for one that is not begins there."""
        return self._at(bisect_left(self._timestamp_deltas, timestamp_delta) - 1)

    def _at(self, index: int) -> Rise | None:
        if not 0 <= index < len(self._positions):
            return None
        return Rise(self._timestamp_deltas[index], self._offset_deltas[index], self._positions[index])


class Surveyor:
    """Steps over exactly so many records, at least one, which must fill the bytes and have no more headers than that.

    `header_count` is what was claimed of headers so far, also where something is wrong with them.
    """

    def __init__(self, plain: bytes, count: int, *, max_headers: int = NO_HEADER_LIMIT) -> None:
        self.header_count = 0
        self.rises = Rises()
        self._plain = plain
        self._count = count
        self._max_headers = max_headers
        self._place = self._position = 0
        self._oldest, self._newest = 1 << 63, -(1 << 63)
        self._null_keys = self._strays = 0
        self._headers_left = self._record_end = 0  # of a record in whose midst it is

    def advance(self, most: int) -> int:
        """Step over so many more records and headers, and say how many they were; fewer at the end. Raises BadBatch."""
        left = most - self._skip_headers(most)
        while left > 0 and self._place < self._count:
            left -= self._step(min(left, self._count - self._place))
            left -= self._skip_headers(left)
        return most - left

    @property
    def is_done(self) -> bool:
        return self._place == self._count and not self._headers_left

    def survey(self) -> RecordSurvey:
        """What they are like, when all is done. Raises BadBatch."""
        assert self.is_done
        ensure_filled(self._plain, self._position)
        return RecordSurvey(
            self._oldest, self._newest, self._null_keys > 0, self._strays == 0, header_count=self.header_count
        )

    def _step(self, most: int) -> int:
        """Step over so many records, up to the first that has many headers; how many they and their headers were."""
        plain, position, first = self._plain, self._position, self._place
        oldest, newest, rises = self._oldest, self._newest, self.rises
        null_keys = strays = few_headers = 0
        place = first
        for place in range(first, first + most):
            start, has_many = position, False
            common = _common_step(plain, position)
            if common:
                offset, timestamp, has_key, position = common
            else:
                offset, timestamp, has_key, headers, position, end = begin_record(
                    plain, position, max_headers=self._max_headers - self.header_count
                )
                self.header_count += headers
                has_many = headers > _FEW_HEADERS
                if has_many:
                    self._headers_left, self._record_end = headers, end
                else:
                    position = skip_headers(plain, position, headers) if headers else position
                    end_record(plain, position, end)
                    few_headers += headers
            if timestamp < oldest:
                oldest = timestamp
            if timestamp > newest:
                newest = timestamp
                rises.add(timestamp, offset, start)
            null_keys += not has_key
            strays += offset != place
            if has_many:
                break
        self._position, self._place = position, place + 1
        self._oldest, self._newest = oldest, newest
        self._null_keys += null_keys
        self._strays += strays
        return self._place - first + few_headers

    def _skip_headers(self, most: int) -> int:
        """Skip so many headers of the record in whose midst it is; how many there were of them."""
        skipped = min(most, self._headers_left)
        if skipped > 0:
            self._position = skip_headers(self._plain, self._position, skipped)
            self._headers_left -= skipped
            if not self._headers_left:
                end_record(self._plain, self._position, self._record_end)
        return max(skipped, 0)


def survey_records(plain: bytes, count: int, *, max_headers: int = NO_HEADER_LIMIT) -> RecordSurvey:
    """What exactly so many records are like, at least one, which must fill the bytes. Raises BadBatch."""
    surveyor = Surveyor(plain, count, max_headers=max_headers)
    while not surveyor.is_done:
        surveyor.advance(count)
    return surveyor.survey()


def key_and_time_steps(plain: bytes, count: int) -> Iterator[tuple[int, bool]]:
    """Yields the timestamp delta of each record and whether it has a key; the records were surveyed before."""
    position = 0
    for _ in range(count):
        common = _common_step(plain, position)
        if common:
            _, timestamp, has_key, position = common
        else:
            _, timestamp, has_key, _, position = step_over(plain, position, max_headers=NO_HEADER_LIMIT)
        yield timestamp, has_key


def _common_step(plain: bytes, position: int) -> tuple[int, int, bool, int] | None:
    """Offset delta, timestamp delta, whether there is a key, and the end; None for a record of another form."""
    try:
        size = plain[position]
        if size > 0x7F:
            position += 1
            size = size & 0x7F | plain[position] << 7
            if size > 0x3FFF:
                position += 1
                size = size & 0x3FFF | plain[position] << 14
        end = position + 1 + (size >> 1)
        position += 2  # the attributes lie between
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
