"""The cleaner's policy: which records are retained, and that readers of the compacted log get the same state."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.protocol.records.batch import Batch, CorruptBatch, assemble, has_valid_crc, split_batches, without_records
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, read_records, write_batch
from tests.support.logs.compacted import compacted as compacted_log

NOW = 1_000_000
RETENTION = 5_000
COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"


class LogWriter:
    """Writes batches one after another, at the offsets that a broker would give them."""

    def __init__(self) -> None:
        self.content = b""
        self._next_offset = 0

    def put(
        self, *pairs: tuple[str | None, str | None], producer: int | None = None, codec: Codec = Codec.NONE
    ) -> None:
        records = [
            Record(
                timestamp=NOW - 100 + self._next_offset + index,
                key=None if key is None else key.encode(),
                value=None if value is None else value.encode(),
                headers=(("h", b"1"),),
            )
            for index, (key, value) in enumerate(pairs)
        ]
        self._append(records, codec=codec, producer=_stamp(producer))

    def end(self, producer: int, *, commits: bool) -> None:
        marker = Record(timestamp=NOW, key=COMMIT if commits else ABORT, value=b"\x00\x00\x00\x00\x00\x00")
        self._append([marker], producer=_stamp(producer), is_control=True)

    def _append(self, records: Sequence[Record], **how: Any) -> None:
        self.content += write_batch(records, base_offset=self._next_offset, leader_epoch=3, **how)
        self._next_offset += len(records)


def _stamp(producer: int | None) -> ProducerStamp:
    if producer is None:
        return ProducerStamp()
    return ProducerStamp(id=producer, epoch=0, base_sequence=0, is_transactional=True)


def compacted(content: bytes, *, now: int = NOW) -> bytes:
    return compacted_log(content, now_ms=now, delete_retention_ms=RETENTION)


def records_in(content: bytes) -> list[tuple[int, str | None, str | None]]:
    """Returns offset, key and value of each record that is no marker."""
    return [
        (record.offset, record.key.decode() if record.key else None, record.value.decode() if record.value else None)
        for batch in split_batches(content)
        if not batch.header.is_control
        for record in read_records(batch)
    ]


def batches_in(content: bytes) -> list[tuple[int, int, int]]:
    """Returns base offset, last offset and count of each batch."""
    found = [batch.header for batch in split_batches(content)]
    return [(header.base_offset, header.last_offset, header.record_count) for header in found]


@pytest.fixture
def log() -> LogWriter:
    return LogWriter()


def test_of_each_key_the_last_record_stays_at_its_offset(log: LogWriter) -> None:
    log.put(("a", "1"), ("b", "1"), ("a", "2"))
    log.put(("b", "2"), ("c", "1"))
    assert records_in(compacted(log.content)) == [(2, "a", "2"), (3, "b", "2"), (4, "c", "1")]


def test_records_keep_their_timestamps_and_headers_and_batches_their_ends(log: LogWriter) -> None:
    log.put(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"))
    log.put(("c", "2"))
    before = {record.offset: record for batch in split_batches(log.content) for record in read_records(batch)}
    after = compacted(log.content)
    assert batches_in(after) == [(0, 3, 2), (4, 4, 1)]
    first, _ = split_batches(after)
    assert [before[record.offset] for record in read_records(first)] == list(read_records(first))
    assert first.header.max_timestamp == before[2].timestamp
    assert first.header.leader_epoch == 3
    assert has_valid_crc(first)


def test_a_batch_of_which_all_stays_is_not_written_anew(log: LogWriter) -> None:
    log.put(("a", "1"), ("b", "1"), codec=Codec.ZSTD)
    assert compacted(log.content) == log.content


def test_a_batch_of_which_nothing_stays_goes_unless_it_is_the_last(log: LogWriter) -> None:
    log.put(("a", "1"), ("b", "1"))
    log.put(("a", "2"), ("b", "2"))
    log.put((None, "no key"), (None, "none"), codec=Codec.GZIP)
    after = compacted(log.content)
    assert batches_in(after) == [(2, 3, 2), (4, 5, 0)]
    assert list(split_batches(after))[-1].header.codec == Codec.NONE
    assert compacted(after) == after
    log.content = after
    log.put(("c", "1"))
    assert batches_in(compacted(log.content)) == [(2, 3, 2), (6, 6, 1)]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_codec(log: LogWriter, codec: Codec) -> None:
    log.put(("a", "1"), ("b", "1" * 100), ("a", "2"), codec=codec)
    after = compacted(log.content)
    assert records_in(after) == [(1, "b", "1" * 100), (2, "a", "2")]
    assert next(split_batches(after)).header.codec == codec


def test_a_tombstone_stays_for_its_time_then_goes(log: LogWriter) -> None:
    log.put(("a", "1"), ("a", None), ("b", "1"))
    log.put(("c", "1"))
    first = compacted(log.content)
    assert records_in(first) == [(1, "a", None), (2, "b", "1"), (3, "c", "1")]
    stamped, other = split_batches(first)
    assert stamped.header.delete_horizon == NOW + RETENTION
    assert other.header.delete_horizon is None
    assert [record.timestamp for record in read_records(stamped)] == [NOW - 99, NOW - 98]
    assert compacted(first, now=NOW + RETENTION - 1) == first, "the first horizon stays"
    assert records_in(compacted(first, now=NOW + RETENTION)) == [(2, "b", "1"), (3, "c", "1")]


def test_a_tombstone_that_was_overwritten_goes_at_once(log: LogWriter) -> None:
    log.put(("a", None))
    log.put(("a", "1"))
    assert records_in(compacted(log.content)) == [(1, "a", "1")]


def test_an_aborted_record_goes_and_deletes_nothing_before_it(log: LogWriter) -> None:
    log.put(("a", "1"))
    log.put(("a", "2"), producer=7)
    log.end(7, commits=False)
    log.put(("b", "1"), producer=7)
    log.end(7, commits=True)
    after = compacted(log.content)
    assert records_in(after) == [(0, "a", "1"), (3, "b", "1")]
    assert batches_in(after) == [(0, 0, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)], "markers stay"


def test_a_committed_record_takes_the_place_of_what_has_a_lower_offset(log: LogWriter) -> None:
    log.put(("a", "1"), ("b", "1"))
    log.put(("a", "2"), ("b", "2"), producer=7)
    log.put(("b", "3"))
    log.end(7, commits=True)
    assert records_in(compacted(log.content)) == [(2, "a", "2"), (4, "b", "3")]


def test_a_record_of_an_open_transaction_stays_and_so_does_what_it_may_replace(log: LogWriter) -> None:
    log.put(("a", "1"))
    log.put(("a", "2"), ("a", "3"), producer=7)
    log.put(("b", "1"))
    assert compacted(log.content) == log.content


def test_what_is_behind_the_begin_of_an_open_transaction_stays_until_it_has_ended(log: LogWriter) -> None:
    """A tombstone there deletes what the transaction has pending: if it were gone, a commit would restore that."""
    log.put(("b", "1"))
    log.put(("a", "1"), producer=7)
    log.put(("a", None), ("b", "2"), ("b", "3"))
    after = compacted(compacted(log.content), now=NOW + RETENTION)
    assert records_in(after) == [(1, "a", "1"), (2, "a", None), (3, "b", "2"), (4, "b", "3")]
    log.content = after
    log.end(7, commits=True)
    ended = compacted(log.content, now=NOW + RETENTION)
    assert records_in(ended) == [(2, "a", None), (4, "b", "3")]
    assert records_in(compacted(ended, now=NOW + 2 * RETENTION)) == [(4, "b", "3")]


def test_what_a_broker_has_emptied_neither_begins_nor_ends_a_transaction(log: LogWriter) -> None:
    """A broker retains the last batch of a known producer without its records, and may drop the marker."""
    log.put(("a", "1"), producer=7)
    log.end(8, commits=True)
    emptied = b"".join(assemble(without_records(batch.header), b"") for batch in split_batches(log.content))
    log.content = emptied
    log.put(("b", "1"))
    log.put(("b", "2"), producer=8)
    log.content += emptied[61:]
    log.put(("b", "3"), ("b", "4"))
    assert records_in(compacted(log.content)) == [(3, "b", "2"), (4, "b", "3"), (5, "b", "4")], "open, since 3"
    log.end(8, commits=True)
    assert records_in(compacted(log.content)) == [(5, "b", "4")]


def test_a_corrupt_batch_is_not_written_anew(log: LogWriter) -> None:
    log.put(("a", "1"), ("a", "2"))
    broken = bytearray(log.content)
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch, match="batch at offset 0 is corrupt"):
        compacted(bytes(broken))


@given(data=st.data())
def test_records_that_are_not_what_they_say_are_refused_or_leave_a_sound_batch(data: st.DataObject) -> None:
    """The checksum is right: a writer has made it so."""
    log = LogWriter()
    log.put(("a", None), ("b", "1" * 70), ("a", "2"))
    (batch,) = split_batches(log.content)
    plain = bytearray(batch.data[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    broken = assemble(batch.header, bytes(plain[: data.draw(st.integers(0, len(plain)))]))
    with suppress(CorruptBatch):
        assert all(has_valid_crc(left) for left in split_batches(compacted(broken)))


def test_a_batch_with_fewer_bytes_than_records_is_refused() -> None:
    """The checksum is right, and the bytes end within the records that the header counts."""
    log = LogWriter()
    log.put(("a", None), ("b", "1" * 70), ("a", "2"))
    (batch,) = split_batches(log.content)
    plain = batch.data[61:].tobytes()
    for end in range(len(plain)):
        with pytest.raises(CorruptBatch):
            compacted(assemble(batch.header, plain[:end]))


def test_a_record_whose_time_is_no_number_is_refused(log: LogWriter) -> None:
    log.put(("a", "1"), ("a", "2"))
    (batch,) = split_batches(log.content)
    plain = batch.data[61:].tobytes()
    record = plain[plain[0] // 2 + 1 :]
    endless = bytes([record[0] + 22]) + record[1:2] + b"\xff" * 11 + record[2:]
    with pytest.raises(CorruptBatch, match="a number that is too long"):
        compacted(assemble(batch.header, plain[: -len(record)] + endless))


# Random logs

KEYS = st.sampled_from("abcd")
PRODUCERS = st.integers(1, 2)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(KEYS, st.none() | st.text("xy", max_size=2)), min_size=1, max_size=4)),
    st.tuples(st.just("pend"), PRODUCERS, st.lists(st.tuples(KEYS, st.text("xy", max_size=2)), min_size=1, max_size=3)),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
)


@dataclass
class Reader:
    """Replays the log from its start, as the coordinator does."""

    values: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    pending: dict[int, dict[bytes, tuple[int, bytes]]] = field(default_factory=dict)

    def read(self, content: bytes) -> "Reader":
        for batch in split_batches(content):
            for record in read_records(batch):
                self._replay(batch, record)
        self.pending = {producer: offsets for producer, offsets in self.pending.items() if offsets}
        return self

    def _replay(self, batch: Batch, record: Record) -> None:
        assert record.key is not None
        if batch.header.is_control:
            ended = self.pending.pop(batch.header.producer_id, {})
            if record.key == COMMIT:
                for key, (offset, value) in ended.items():
                    if offset > self.values.get(key, (-1, b""))[0]:
                        self.values[key] = (offset, value)
        elif record.value is None:
            self.values.pop(record.key, None)
            for offsets in self.pending.values():
                offsets.pop(record.key, None)
        elif batch.header.is_transactional:
            self.pending.setdefault(batch.header.producer_id, {})[record.key] = (record.offset, record.value)
        else:
            self.values[record.key] = (record.offset, record.value)


def written(steps: Iterable[Any], codec: Codec = Codec.NONE) -> bytes:
    log = LogWriter()
    for step in steps:
        match step:
            case ("put", pairs):
                log.put(*pairs, codec=codec)
            case ("pend", producer, pairs):
                log.put(*pairs, producer=producer, codec=codec)
            case ("end", producer, commits):
                log.end(producer, commits=commits)
    return log.content


@given(steps=st.lists(STEPS, min_size=1, max_size=20), codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
def test_who_reads_the_compacted_log_knows_the_same(steps: list[Any], codec: Codec) -> None:
    content = written(steps, codec)
    once = compacted(content)
    later = compacted(once, now=NOW + RETENTION)
    for after in (once, later):
        assert Reader().read(after) == Reader().read(content)
        assert all(has_valid_crc(batch) for batch in split_batches(after))
        assert batches_in(after)[-1][1] == batches_in(content)[-1][1], "the log ends where it ended"
        ends = {(first, last) for first, last, _ in batches_in(content)}
        assert {(first, last) for first, last, _ in batches_in(after)} <= ends
    assert compacted(once) == once
    assert compacted(later, now=NOW + RETENTION) == later


@given(steps=st.lists(STEPS, min_size=1, max_size=20), more=st.lists(STEPS, max_size=10))
def test_a_log_that_goes_on_after_a_compaction_gives_what_it_would_have_given(
    steps: list[Any], more: list[Any]
) -> None:
    """Holds also for transactions that were open at the compaction and end later."""
    whole = written([*steps, *more])
    so_far = written(steps)
    assert whole.startswith(so_far)
    went_on = compacted(so_far, now=NOW) + whole[len(so_far) :]
    again = compacted(went_on, now=NOW + RETENTION)
    assert Reader().read(went_on) == Reader().read(whole)
    assert Reader().read(again) == Reader().read(whole)


@given(steps=st.lists(STEPS, min_size=1, max_size=20))
def test_once_all_transactions_have_ended_nothing_is_left_but_one_record_of_each_living_key(steps: list[Any]) -> None:
    content = written([*steps, ("end", 1, True), ("end", 2, False), ("put", [("z", "end")])])
    after = compacted(compacted(content), now=NOW + RETENTION)
    records = records_in(after)
    living = Reader().read(content).values
    assert {key.encode(): (offset, (value or "").encode()) for offset, key, value in records if key} == living
    assert len(records) == len(living)
