"""What a broker must know of a produced batch's records before it takes them: that they are sound, and their times.

A broker looks at every record it is given (LogValidator), so this is the hottest loop of the produce path, and written
as one. Most records have numbers of up to two or three bytes and no headers; those are stepped over in place, several
times as fast as by `read_span`, which is asked about all others.
"""

from typing import NamedTuple

from kcoord.wire.records import ensure_filled, read_span


class RecordSurvey(NamedTuple):
    oldest_delta: int
    newest_delta: int
    has_null_key: bool
    is_consecutive: bool  # the offset deltas are 0, 1, 2, …


def survey_records(plain: bytes, count: int) -> RecordSurvey:
    """Step over exactly so many records, at least one, which must fill the bytes."""
    oldest, newest = 1 << 63, -(1 << 63)
    null_keys = strays = position = 0
    for place in range(count):
        common = _common_step(plain, position)
        offset, timestamp, has_key, position = common if common else _any_step(plain, position)
        if timestamp < oldest:
            oldest = timestamp
        if timestamp > newest:
            newest = timestamp
        null_keys += not has_key
        strays += offset != place
    ensure_filled(plain, position)
    return RecordSurvey(oldest, newest, null_keys > 0, strays == 0)


def _any_step(plain: bytes, position: int) -> tuple[int, int, bool, int]:
    span = read_span(plain, position)
    return span.offset_delta, span.timestamp_delta, span.has_key, span.end


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
