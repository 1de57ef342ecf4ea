"""Facts of groups as records of `__consumer_offsets`, in the versions that Kafka 4.3 writes.

`layouts` has these layouts as data, for whoever reads any record; here are the few that a coordinator writes, by hand:
each commit of each member passes here, a hundred offsets at once are common, and a commit's records differ in nothing
but numbers. So what is the same for all offsets of a group in a topic is made once, and a record is one call of struct:

    size 0 timestamp delta | offset delta | key: 1 group topic | partition | value: 4 | offset epoch "" time | topic id
    front                    delta          names                            middle                            end

A test holds every record that is written here against `layouts`.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, assert_never
from uuid import UUID

from kcoord.groups.records import (
    GroupDeleted,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    OtherDeleted,
    OtherStored,
    Record,
    StoredAgain,
    StoredMember,
)
from kcoord.wire.batches import MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, Batch, BatchHeader, assemble, read_header
from kcoord.wire.varint import uvarint

OFFSET_KEY: Final = 1
GROUP_KEY: Final = 2
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1  # the last that has a place for it
GROUP_VALUE_VERSION: Final = 3

MOST_RECORDS: Final = 1000
"""Of one batch, so that a batch is read back in little memory."""
_ENOUGH_BYTES: Final = 1 << 19
"""Of one batch, with texts and groups in it, for the same reason."""
_MOST_MS: Final = 63
"""Between the first and the last record of a batch: the differences then take one byte each."""

_DELTAS: Final = [uvarint(2 * delta) for delta in range(MOST_RECORDS)]
_MOST_FORMS: Final = 10_000
_EMPTY_TEXT: Final = 1  # the length of a compact string, plus one
_NO_TIME: Final = -1

_short = Struct(">h").pack
_int = Struct(">i").pack
_long = Struct(">q").pack
_offset_start = Struct(">hqi").pack


class PendingBatch:
    """Records of one partition that wait for their batch to be written."""

    __slots__ = ("_first_ms", "_last_ms", "_size", "count", "plain")

    def __init__(self, now_ms: int) -> None:
        self.count = 0
        self._size = 0
        self._first_ms = self._last_ms = now_ms
        self.plain: list[bytes] = []

    def has_room_at(self, now_ms: int) -> bool:
        return self.count < MOST_RECORDS and self._size < _ENOUGH_BYTES and 0 <= now_ms - self._first_ms <= _MOST_MS

    def add(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        delta = now_ms - self._first_ms
        body = b"".join(
            (
                b"\0",
                _DELTAS[delta],
                _DELTAS[self.count],
                _varint(len(key)),
                key,
                b"\x01" if value is None else _varint(len(value)) + value,
                b"\0",
            )
        )
        self.plain += (_varint(len(body)), body)
        self._size += len(body)
        self.count += 1
        self._last_ms = max(self._last_ms, now_ms)

    def add_offset(self, line: "OffsetLine", offset: int, at_ms: int, now_ms: int) -> None:
        """Add an offset without text. As add_offsets would, in half the time: most commits are of one."""
        count = self.count
        delta = _DELTAS[count]
        partition, epoch, forms = line
        _, pack, front, names, middle, tags = forms[len(delta) - 1]
        front += _DELTAS[now_ms - self._first_ms]
        self.plain.append(pack(front, delta, names, partition, middle, offset, epoch, _EMPTY_TEXT, at_ms, tags))
        self.count = count + 1
        if now_ms > self._last_ms:
            self._last_ms = now_ms

    def add_offsets(self, fact: OffsetsStored, start: int, now_ms: int) -> int:
        """Add the lines from this one on of a commit without texts, as far as there is room; where it ends."""
        count, at_ms = self.count, fact.committed_at_ms
        self._last_ms = max(self._last_ms, now_ms)
        more = min(MOST_RECORDS - count, len(fact.partitions) - start)
        if count < 64 < count + more:  # up to here, the place in the batch takes one byte
            more = 64 - count
        deltas, end = _DELTAS[count : count + more], start + more
        _, pack, front, names, middle, tags = _form(fact.group_id, fact.topic, fact.topic_id, len(deltas[0]))
        front += _DELTAS[now_ms - self._first_ms]
        columns = (fact.partitions[start:end], fact.offsets[start:end], fact.leader_epochs[start:end])
        self.plain += [
            pack(front, delta, names, partition, middle, offset, epoch, _EMPTY_TEXT, at_ms, tags)
            for delta, partition, offset, epoch in zip(deltas, *columns, strict=True)
        ]
        self.count = count + more
        return end

    def sealed(self) -> Batch:
        return _sealed(b"".join(self.plain), self.count, self._first_ms, self._last_ms)


class OffsetLine(NamedTuple):
    """What stays the same where one offset is written again and again."""

    partition: int
    epoch: int
    forms: "tuple[_Form, _Form]"  # where its place in the batch takes one byte, and where it takes two


class SealedBatch:
    """Records that are all of their batch already, of one time."""

    __slots__ = ("_at_ms", "_plain", "count")

    def __init__(self, plain: bytes, count: int, at_ms: int) -> None:
        self.count = count
        self._plain = plain
        self._at_ms = at_ms

    def sealed(self) -> Batch:
        return _sealed(self._plain, self.count, self._at_ms, self._at_ms)


Pending = list[PendingBatch | SealedBatch]
"""What waits to be written to one partition, in its order."""


def _sealed(plain: bytes, count: int, first_ms: int, last_ms: int) -> Batch:
    """The batch; its offsets are for the log to set."""
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=first_ms,
        max_timestamp=last_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    data = assemble(header, plain)
    return Batch(header=read_header(data), data=memoryview(data))


def add_fact(batches: Pending, fact: Record, now_ms: int) -> None:
    """Put a fact behind those that wait, in as many batches as it needs."""
    if isinstance(fact, StoredAgain):
        for stored in fact.spread():
            add_fact(batches, stored, now_ms)
    elif isinstance(fact, OffsetsStored) and fact.expires_at_ms is None and not any(fact.metadata):
        start, end = 0, len(fact.partitions)
        if end == 1:
            last(batches, now_ms).add_offset(offset_line(fact), fact.offsets[0], fact.committed_at_ms, now_ms)
            return
        while start < end:
            start = last(batches, now_ms).add_offsets(fact, start, now_ms)
    else:
        for key, value in key_values(fact):
            last(batches, now_ms).add(key, value, now_ms)


def key_values(fact: Record) -> Iterable[tuple[bytes, bytes | None]]:
    """The records that tell of a fact."""
    match fact:
        case GroupStored():
            return [(group_key(fact.group_id), _group_value(fact))]
        case GroupDeleted():
            return [(group_key(fact.group_id), None)]
        case OffsetsStored():
            lines = zip(fact.partitions, fact.offsets, fact.leader_epochs, fact.metadata, strict=True)
            return [
                (
                    offset_key(fact.group_id, fact.topic, partition),
                    _offset_value(fact, offset, epoch, text.encode()),
                )
                for partition, offset, epoch, text in lines
            ]
        case StoredAgain():
            return [each for stored in fact.spread() for each in key_values(stored)]
        case OffsetDeleted():
            return [(offset_key(fact.group_id, fact.topic, fact.partition), None)]
        case OtherDeleted():
            return [(fact.key, None)]
        case OtherStored():
            raise AssertionError("groups of other kinds are only read")
        case _:
            assert_never(fact)


def group_key(group_id: str) -> bytes:
    return _short(GROUP_KEY) + _string(group_id)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _offset_names(group_id, topic) + _int(partition)


def offset_parts(record: bytes, topic_id: UUID | None) -> tuple[bytes, bytes, bytes]:
    """Of an offset without text, what is before its offset, between that and its time, and behind."""
    time_at = len(record) - len(_topic_tag(topic_id)) - 1 - 8
    between_at = time_at - 5  # the leader epoch, and the text
    return record[: between_at - 8], record[between_at:time_at], record[time_at + 8 :]


def last(batches: Pending, now_ms: int) -> PendingBatch:
    """The last batch, or a new one if that has no room."""
    if batches:
        newest = batches[-1]
        if isinstance(newest, PendingBatch) and newest.has_room_at(now_ms):
            return newest
    new = PendingBatch(now_ms)
    batches.append(new)
    return new


def offset_line(fact: OffsetsStored) -> OffsetLine:
    """Of the only offset of a commit."""
    group_id, topic, (partition,), _, (epoch,), _, _, _, topic_id = fact
    return OffsetLine(partition, epoch, (_form(group_id, topic, topic_id, 1), _form(group_id, topic, topic_id, 2)))


class _Form(NamedTuple):
    """What the offsets of a group in a topic have in common; see the head of this file."""

    topic_id: UUID | None
    pack: Callable[..., bytes]
    front: bytes
    names: bytes
    middle: bytes
    end: bytes


_forms: dict[tuple[str, str, int], _Form] = {}


def _form(group_id: str, topic: str, topic_id: UUID | None, delta_size: int) -> _Form:
    """Made once, and again where the topic was made anew: an id is not hashed, which takes longer than all the rest."""
    place = (group_id, topic, delta_size)
    known = _forms.get(place)
    if known is not None and (known.topic_id is topic_id or known.topic_id == topic_id):
        return known
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    form = _forms[place] = _made_form(group_id, topic, topic_id, delta_size)
    return form


def _made_form(group_id: str, topic: str, topic_id: UUID | None, delta_size: int) -> _Form:
    key = _offset_names(group_id, topic)
    names = _varint(len(key) + 4) + key
    tags = _topic_tag(topic_id)
    middle = _varint(2 + 8 + 4 + 1 + 8 + len(tags)) + _short(OFFSET_VALUE_VERSION)
    end = tags + b"\0"
    size = 2 + delta_size + len(names) + 4 + len(middle) + 8 + 4 + 1 + 8 + len(end)
    front = _varint(size) + b"\0"
    line = Struct(f">{len(front) + 1}s{delta_size}s{len(names)}si{len(middle)}sqiBq{len(end)}s")
    return _Form(topic_id, line.pack, front, names, middle, end)


def _offset_names(group_id: str, topic: str) -> bytes:
    return _short(OFFSET_KEY) + _string(group_id) + _string(topic)


def _offset_value(fact: OffsetsStored, offset: int, epoch: int, text: bytes) -> bytes:
    if fact.expires_at_ms is not None:
        times = _long(fact.committed_at_ms) + _long(fact.expires_at_ms)
        return _short(OFFSET_VALUE_VERSION_WITH_EXPIRY) + _long(offset) + _short(len(text)) + text + times
    start = _offset_start(OFFSET_VALUE_VERSION, offset, epoch) + uvarint(len(text) + 1) + text
    return start + _long(fact.committed_at_ms) + _topic_tag(fact.topic_id)


def _topic_tag(topic_id: UUID | None) -> bytes:
    """The tagged fields of an offset: the id of its topic, if that is known."""
    return b"\0" if topic_id is None else b"\x01\x00\x10" + topic_id.bytes


def _group_value(fact: GroupStored) -> bytes:
    parts = [
        _short(GROUP_VALUE_VERSION),
        _string(fact.protocol_type or ""),
        _int(fact.generation),
        _nullable(fact.protocol),
        _nullable(fact.leader_id),
        _long(_NO_TIME if fact.since_ms is None else fact.since_ms),
        _int(len(fact.members)),
    ]
    for member in fact.members:
        parts += _member(member)
    return b"".join(parts)


def _member(member: StoredMember) -> tuple[bytes, ...]:
    *who, subscription, assignment = member
    return _who(*who), _int(len(subscription)), subscription, _int(len(assignment)), assignment


@lru_cache(_MOST_FORMS)
def _who(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    client_host: str,
    session_timeout: float,
    rebalance_timeout: float,
) -> bytes:
    """What a record says of a member that is the same in each generation."""
    return b"".join(
        (
            _string(member_id),
            _nullable(instance_id),
            _string(client_id),
            _string(client_host),
            _int(round(rebalance_timeout * 1000)),
            _int(round(session_timeout * 1000)),
        )
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _short(len(encoded)) + encoded


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def _varint(size: int) -> bytes:
    return uvarint(2 * size)
