"""What a broker must know of a produced batch's records before it takes them: that they are sound, and their times.

A broker looks at every record it is given (LogValidator), so this is the hottest loop of the produce path, and written
as one. Most records have numbers of up to two or three bytes and no headers; those are stepped over in place, several
times as fast as by `step_over`, which is asked about all others. Headers are counted and skipped: a few kilobytes that
decompress to millions of them are refused by the count that their record claims.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kcoord.wire.records import ensure_filled, step_over

NO_HEADER_LIMIT = 2**31 - 1


class RecordSurvey(NamedTuple):
    oldest_delta: int
    newest_delta: int
    has_null_key: bool
    is_consecutive: bool  # the offset deltas are 0, 1, 2, …
    header_count: int = 0


def survey_records(plain: bytes, count: int, *, max_headers: int = NO_HEADER_LIMIT) -> RecordSurvey:
    """Step over exactly so many records, at least one, which must fill the bytes and have no more headers than that."""
    oldest, newest = 1 << 63, -(1 << 63)
    null_keys = strays = position = header_count = 0
    for place in range(count):
        common = _common_step(plain, position)
        if common:
            offset, timestamp, has_key, position = common
        else:
            offset, timestamp, has_key, headers, position = step_over(
                plain, position, max_headers=max_headers - header_count
            )
            header_count += headers
        if timestamp < oldest:
            oldest = timestamp
        if timestamp > newest:
            newest = timestamp
        null_keys += not has_key
        strays += offset != place
    ensure_filled(plain, position)
    return RecordSurvey(oldest, newest, null_keys > 0, strays == 0, header_count)


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
        if not is_common or (timestamp | offset | key) > 0x3FFF or (size | value) > 0x1FFFFF:
            return None
    except IndexError:
        return None
    return offset >> 1, (timestamp >> 1) ^ -(timestamp & 1), not key & 1, end
