"""Records of groups that are pending, in batches.

Each commit of each member passes here, a hundred offsets at once are common, and a commit's records differ only in
numbers. So what all offsets of a group in a topic have in common is made once, and a record is one call of struct:

    size 0 | time delta | offset delta | key: 1 group topic | partition | value: 4 | offset epoch "" time | topic id
    front    at           delta          names                            middle                            end
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from kcoord.groups.records import OffsetsStored, Record, RepeatedCommit
from kcoord.offsets_log.encoding import OFFSET_VALUE_VERSION, key_values, offset_names, topic_tag
from kcoord.protocol.records.batch import MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, Batch, BatchHeader, assemble, read_header
from kcoord.protocol.varint import uvarint
from kcoord.storage.superseded import CommitSeries

MOST_RECORDS: Final = 1000
"""The most records of one batch, so that reading it back takes little memory."""
_ENOUGH_BYTES: Final = 1 << 19
"""The most bytes of a batch with metadata and groups in it, for the same reason."""
_MOST_MS: Final = 63
"""The longest time between the first and the last record of a batch: time deltas then take one byte each."""

_DELTAS: Final = [uvarint(2 * delta) for delta in range(MOST_RECORDS)]
_NEVER_MS: Final = -1
_IN_ONE_BYTE: Final = 64  # The number of offset deltas that take one byte.
_MAX_TEMPLATES: Final = 10_000
_EMPTY_TEXT: Final = 1  # The length of a compact string, plus one.

_short = Struct(">h").pack
_epoch_without_text = Struct(">iB").pack


class SingleOffsetSeries(CommitSeries):
    """The repeated commits of one offset, without metadata, to one partition, with the constant parts of their encoded
    records."""

    __slots__ = ("templates",)

    def __init__(self, first: OffsetsStored) -> None:
        super().__init__(1)
        self.templates = (
            _offset_template(first, 1),
            _offset_template(first, 2),
        )  # One for each size of the offset delta.


class _OffsetTemplate(NamedTuple):
    """The constant parts of a record in a SingleOffsetSeries."""

    pack: Callable[..., bytes]
    front: bytes
    before: bytes  # What is before the offset: names, partition and middle.
    between: bytes  # What is between the offset and its time.
    end: bytes


class PendingBatch:
    """A batch of `__consumer_offsets` that is being filled: encoded records of one partition that the next flush
    writes.

    Commits of one offset each are encoded when the batch is sealed, which takes less time than one by one.
    """

    __slots__ = ("_first_ms", "_last_ms", "_records", "_room_until_ms", "_series", "_size")

    def __init__(self, now_ms: int) -> None:
        self._size = 0
        self._first_ms = self._last_ms = now_ms
        self._room_until_ms = now_ms + _MOST_MS
        self._records: list[bytes | tuple[SingleOffsetSeries, RepeatedCommit, int]] = []
        self._series: list[CommitSeries] = []

    @property
    def count(self) -> int:
        """The number of records in the batch."""
        return len(self._records)

    @property
    def series(self) -> list[CommitSeries]:
        """For each member in the batch that commits the same partitions again and again, the series of its commits."""
        return [*self._series, *[record[0] for record in self._records if isinstance(record, tuple)]]

    def note_series(self, series: CommitSeries) -> None:
        """Notes that the records added last are a repeated commit of this series."""
        self._series.append(series)

    def has_room_at(self, now_ms: int) -> bool:
        """Returns whether the batch can take another record at this time."""
        return len(self._records) < MOST_RECORDS and self._first_ms <= now_ms <= self._room_until_ms

    def add(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        """Encodes a record of this key and value, a tombstone if the value is None, and adds it."""
        body = b"".join(
            (
                b"\0",
                _DELTAS[now_ms - self._first_ms],
                _DELTAS[len(self._records)],
                uvarint(2 * len(key)),
                key,
                b"\x01" if value is None else uvarint(2 * len(value)) + value,
                b"\0",
            )
        )
        self._records.append(uvarint(2 * len(body)) + body)
        self._last_ms = max(self._last_ms, now_ms)
        self._size += len(body)
        if self._size >= _ENOUGH_BYTES:
            self._room_until_ms = _NEVER_MS

    def add_repeated(self, series: SingleOffsetSeries, fact: RepeatedCommit, now_ms: int) -> bool:
        """Adds a repeated commit of one offset. Returns False if the batch has no room."""
        records = self._records
        if len(records) >= MOST_RECORDS or not self._first_ms <= now_ms <= self._room_until_ms:
            return False
        records.append((series, fact, now_ms))
        return True

    def add_offsets(self, fact: OffsetsStored, start: int, now_ms: int) -> int:
        """Encodes and adds the offsets of a commit without metadata, from index `start` on, as far as there is room.
        Returns the index of the first one that is left."""
        count, at_ms = len(self._records), fact.committed_at_ms
        self._last_ms = max(self._last_ms, now_ms)
        more = min(MOST_RECORDS - count, len(fact.partitions) - start)
        if count < _IN_ONE_BYTE < count + more:
            more = _IN_ONE_BYTE - count
        deltas, end = _DELTAS[count : count + more], start + more
        _, pack, front, names, middle, tags = _record_template(fact.group_id, fact.topic, fact.topic_id, len(deltas[0]))
        at = _DELTAS[now_ms - self._first_ms]
        columns = (fact.partitions[start:end], fact.offsets[start:end], fact.leader_epochs[start:end])
        self._records += [
            pack(front, at, delta, names, partition, middle, offset, epoch, _EMPTY_TEXT, at_ms, tags)
            for delta, partition, offset, epoch in zip(deltas, *columns, strict=True)
        ]
        return end

    def encoded_records(self) -> list[bytes]:
        """Returns the bytes of each record in the batch."""
        first_ms = self._first_ms
        plain: list[bytes] = []
        for index, record in enumerate(self._records):
            if isinstance(record, bytes):
                plain.append(record)
                continue
            series, (_, _, (offset,), at_ms), now_ms = record
            pack, front, before, between, end = series.templates[index >= _IN_ONE_BYTE]
            at, delta = _DELTAS[now_ms - first_ms], _DELTAS[index]
            plain.append(pack(front, at, delta, before, offset, between, at_ms, end))
            if now_ms > self._last_ms:
                self._last_ms = now_ms
        return plain

    def sealed(self) -> Batch:
        """Returns the finished record batch, with its header."""
        plain = b"".join(self.encoded_records())
        return _sealed(plain, len(self._records), self._first_ms, self._last_ms)


class SealedBatch:
    """A batch of `__consumer_offsets` that a commit of many offsets fills, so that no other commit can be added."""

    __slots__ = ("_at_ms", "_plain", "count", "series")

    def __init__(self, plain: bytes, series: CommitSeries, at_ms: int) -> None:
        self.count = series.count
        self.series = (series,)
        self._plain = plain
        self._at_ms = at_ms

    def add_repeated(self, series: SingleOffsetSeries, fact: RepeatedCommit, now_ms: int) -> bool:
        """Returns False, since nothing can be added."""
        return False

    def sealed(self) -> Batch:
        """Returns the finished record batch, with its header."""
        return _sealed(self._plain, self.count, self._at_ms, self._at_ms)


Pending = list[PendingBatch | SealedBatch]
"""The batches that will be written to one partition, in their order."""


def add_fact(batches: Pending, fact: Record, now_ms: int) -> None:
    """Encodes a record of a group and appends it to the batches that are pending for its partition, in as many batches
    as it needs."""
    if isinstance(fact, RepeatedCommit):
        for stored in fact.expand():
            add_fact(batches, stored, now_ms)
    elif isinstance(fact, OffsetsStored) and fact.expires_at_ms is None and not any(fact.metadata):
        start, end = 0, len(fact.partitions)
        while start < end:
            start = last(batches, now_ms).add_offsets(fact, start, now_ms)
    else:
        for key, value in key_values(fact):
            last(batches, now_ms).add(key, value, now_ms)


def last(batches: Pending, now_ms: int) -> PendingBatch:
    """Returns the last pending batch, or appends and returns a new one if that has no room."""
    if batches:
        newest = batches[-1]
        if isinstance(newest, PendingBatch) and newest.has_room_at(now_ms):
            return newest
    new = PendingBatch(now_ms)
    batches.append(new)
    return new


def _offset_template(fact: OffsetsStored, delta_size: int) -> _OffsetTemplate:
    group_id, topic, (partition,), _, (epoch,), _, _, _, topic_id = fact
    _, _, front, names, middle, end = _record_template(group_id, topic, topic_id, delta_size)
    before = names + partition.to_bytes(4, "big", signed=True) + middle
    between = _epoch_without_text(epoch, _EMPTY_TEXT)
    pack = _pack_function(f">{len(front)}s1s{delta_size}s{len(before)}sq{len(between)}sq{len(end)}s")
    return _OffsetTemplate(pack, front, before, between, end)


@lru_cache(_MAX_TEMPLATES)
def _pack_function(form: str) -> Callable[..., bytes]:
    """Returns the packing function for a format. Most members share it, as their names have the same length, so it
    stays in the processor's cache.
    """
    return Struct(form).pack


def offset_parts(record: bytes, topic_id: UUID | None) -> tuple[bytes, bytes, bytes]:
    """Splits the bytes of a committed offset's record without metadata into what is before its offset, between that and
    its time, and behind."""
    time_at = len(record) - len(topic_tag(topic_id)) - 1 - 8
    between_at = time_at - 5  # the leader epoch, and the text
    return record[: between_at - 8], record[between_at:time_at], record[time_at + 8 :]


class _RecordTemplate(NamedTuple):
    """The constant parts of the offset records of a group in a topic, named as in the module's docstring."""

    topic_id: UUID | None
    pack: Callable[..., bytes]
    front: bytes
    names: bytes
    middle: bytes
    end: bytes


_record_templates: dict[tuple[str, str, int], _RecordTemplate] = {}


def _record_template(group_id: str, topic: str, topic_id: UUID | None, delta_size: int) -> _RecordTemplate:
    """Returns the cached template, made anew if the topic was recreated. The id is compared and not hashed, which would
    take longer than all the rest.
    """
    key = (group_id, topic, delta_size)
    known = _record_templates.get(key)
    if known is not None and (known.topic_id is topic_id or known.topic_id == topic_id):
        return known
    if len(_record_templates) >= _MAX_TEMPLATES:
        _record_templates.clear()
    form = _record_templates[key] = _make_record_template(group_id, topic, topic_id, delta_size)
    return form


def _make_record_template(group_id: str, topic: str, topic_id: UUID | None, delta_size: int) -> _RecordTemplate:
    key = offset_names(group_id, topic)
    names = uvarint(2 * (len(key) + 4)) + key
    tags = topic_tag(topic_id)
    middle = uvarint(2 * (2 + 8 + 4 + 1 + 8 + len(tags))) + _short(OFFSET_VALUE_VERSION)
    end = tags + b"\0"
    size = 2 + delta_size + len(names) + 4 + len(middle) + 8 + 4 + 1 + 8 + len(end)
    front = uvarint(2 * size) + b"\0"
    record_struct = Struct(f">{len(front)}s1s{delta_size}s{len(names)}si{len(middle)}sqiBq{len(end)}s")
    return _RecordTemplate(topic_id, record_struct.pack, front, names, middle, end)


def _sealed(plain: bytes, count: int, first_ms: int, last_ms: int) -> Batch:
    """Makes the batch. The log sets its offsets."""
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
