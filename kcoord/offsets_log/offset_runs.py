"""Runs of offsets in a batch, decoded by one struct: a start may have to read a million of them.

The offsets that a group has committed together in a topic are records that differ in four numbers; Kafka writes them
so, and `encoding` does. The first of them is decoded field by field. If the next one begins with the same bytes, many
may do so: they are unpacked at once and compared. It does not matter who wrote them, and `decoding` decodes the records
that do not match.
"""

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from kcoord.groups.records import OffsetsStored
from kcoord.offsets_log.record_codec import UnreadableRecord, read_key
from kcoord.protocol.varint import BadVarint, read_uvarint

_MOST_AT_ONCE: Final = 64
"""The records that are unpacked in vain if only the first few of them match."""

_KEY_START: Final = b"\x00\x01"
_VALUE_START: Final = b"\x00\x04"
_EMPTY_TEXT: Final = 1  # Its length plus one.
_PARTITION_BYTES: Final = 4
_NUMBERS_BYTES: Final = 8 + 4 + 1 + 8  # Offset, leader epoch, an empty text, time.
_DELTA, _PARTITION, _OFFSET, _EPOCH = 1, 3, 5, 6


class Run(NamedTuple):
    """Adjacent records of `__consumer_offsets` that were decoded at once into one fact: offsets of one commit to a
    topic. `records` is how many they are, `end` the position behind them."""

    fact: OffsetsStored
    records: int
    end: int  # The position behind it.


class OffsetRuns:
    """Decodes adjacent offsets of one commit at once, which is much faster than record by record. It caches the group
    and topic names in their keys."""

    def __init__(self) -> None:
        self._names: dict[bytes, tuple[str, str]] = {}  # Group and topic, by key.

    def read(self, plain: bytes, start: int, left: int) -> Run | None:
        """Decodes up to `left` records that begin at `start`, as far as they are offsets of one commit; None if the
        first record has another form and must be decoded by itself."""
        try:
            shape = _shape_at(plain, start)
        except (IndexError, BadVarint):
            return None
        if shape is None:
            return None
        front, delta, names, middle, end, key = shape
        size = front + delta + names + _PARTITION_BYTES + middle + _NUMBERS_BYTES + end
        if start + size > len(plain):
            return None
        known = self._names.get(key) or self._learn(key)
        if known is None:
            return None
        record_struct = _struct(front, delta, names, middle, end)
        first = record_struct.unpack_from(plain, start)
        *_, text, time_ms, tags = first
        if text != _EMPTY_TEXT:
            return None
        rows = [first]
        if left > 1 and _starts_identically(plain, start, start + size, front, delta, names):
            most = min(left, _MOST_AT_ONCE, (len(plain) - start) // size)
            rows = list(record_struct.iter_unpack(plain[start : start + most * size]))
        columns = list(zip(*rows, strict=True))
        count = _count_matching(first, columns, len(rows))
        topic_id = UUID(bytes=tags[3:19]) if len(tags) > 2 else None
        fact = OffsetsStored(
            *known,
            columns[_PARTITION][:count],
            columns[_OFFSET][:count],
            columns[_EPOCH][:count],
            ("",) * count,
            time_ms,
            None,
            topic_id,
        )
        return Run(fact, count, start + count * size)

    def _learn(self, key: bytes) -> tuple[str, str] | None:
        try:
            _, names = read_key(key + bytes(_PARTITION_BYTES))
        except UnreadableRecord:
            return None
        known = self._names[key] = (names["group"], names["topic"])
        return known


class _Shape(NamedTuple):
    """The size of each part of a record, and its key without the partition."""

    front: int
    delta: int
    names: int
    middle: int
    end: int
    key: bytes


def _shape_at(plain: bytes, start: int) -> _Shape | None:
    """Returns the shape of an offset record in the common form: without metadata, headers or unknown fields. None if it
    has another form.
    """
    size, body = read_uvarint(plain, start)
    delta_at = body + 2  # Behind the attributes and a timestamp delta of one byte.
    if plain[body] or plain[body + 1] > 0x7F:
        return None
    _, names_at = read_uvarint(plain, delta_at)
    key_size, key_at = read_uvarint(plain, names_at)
    key_end = key_at + (key_size >> 1)
    value_size, value_at = read_uvarint(plain, key_end)
    value_end = value_at + (value_size >> 1)
    end_at = value_at + 2 + _NUMBERS_BYTES
    is_common = (
        plain[key_at : key_at + 2] == _KEY_START
        and plain[value_at : value_at + 2] == _VALUE_START
        and not (key_size | value_size | size) & 1
        and value_end + 1 == body + (size >> 1) <= len(plain)
        and plain[value_end] == 0
        and _has_common_tags(plain[end_at:value_end])
    )
    if not is_common:
        return None
    key = plain[key_at : key_end - _PARTITION_BYTES]
    names = key_end - _PARTITION_BYTES - names_at
    return _Shape(delta_at - start, names_at - delta_at, names, value_at + 2 - key_end, value_end + 1 - end_at, key)


def _has_common_tags(tags: bytes) -> bool:
    """Returns whether there is no tagged field, or the topic id alone."""
    return tags == b"\0" or (len(tags) == 19 and tags[:3] == b"\x01\x00\x10")


@lru_cache(maxsize=1000)
def _struct(front: int, delta: int, names: int, middle: int, end: int) -> Struct:
    return Struct(f">{front}s{delta}s{names}si{middle}sqiBq{end}s")


def _starts_identically(plain: bytes, start: int, following: int, front: int, delta: int, names: int) -> bool:
    """Returns whether the next record begins as this one does, but for its offset delta."""
    names_at = front + delta
    return (
        plain[start : start + front] == plain[following : following + front]
        and plain[start + names_at : start + names_at + names]
        == plain[following + names_at : following + names_at + names]
    )


def _count_matching(first: tuple[object, ...], columns: list[tuple[object, ...]], count: int) -> int:
    """Returns how many rows, from the first on, differ from it in numbers only."""
    for index, column in enumerate(columns):
        if index in (_DELTA, _PARTITION, _OFFSET, _EPOCH) or column.count(first[index]) == len(column):
            continue
        matching = next(row for row, part in enumerate(column) if part != first[index])
        count = min(count, matching)
    return count
