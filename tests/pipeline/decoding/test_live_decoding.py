"""Fetched batches become the rows that segments of the same log give, however they are fetched."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.admin.wire.fetching import Aborted, Fetched
from kcoord.pipeline.decoding.fetched import LogRange, RangeDecoder
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import TABLES
from kcoord.protocol.records.batch import read_header, split_batches
from kcoord.protocol.records.compression import Codec
from tests.support.pipeline.expected_rows import Rows, decoded
from tests.support.pipeline.segment_files import (
    ABORT,
    COMMIT,
    batch,
    commit,
    in_a_row,
    marker,
    tombstone,
    write_segment,
)

LOG = "__consumer_offsets"
BATCHES = in_a_row(
    batch(commit(1), commit(2), commit(3)),
    batch(commit(4), producer=1),
    batch(commit(5), commit(6), producer=2, codec=Codec.LZ4),
    batch(tombstone(), commit(7), codec=Codec.GZIP),
    marker(ABORT, 1, 0),
    batch(commit(8), producer=1),
    batch(commit(9), producer=2),
    marker(COMMIT, 2, 0),
    batch(commit(10), commit(11)),
    marker(COMMIT, 1, 0),
    batch(commit(12), producer=1),
    marker(ABORT, 1, 0),
    batch(commit(13)),
)
END = read_header(BATCHES[-1]).last_offset + 1
ABORTED = (Aborted(1, 3), Aborted(1, 15))
"""The two aborted transactions of producer 1, by their first offsets."""


def log_range(start: int = 0, end: int = END, topic: str = LOG) -> LogRange:
    return LogRange(topic=topic, partition=7, start=start, end=end)


def fetch(offset: int, batches: Sequence[bytes], *, most_bytes: int) -> Fetched:
    """Answers as a broker does: batches from the one with the offset on, at least one; the last may be cut."""
    ahead = [each for each in batches if read_header(each).last_offset >= offset]
    sent = b"".join(ahead)[: max(most_bytes, len(ahead[0]) if ahead else 0)]
    last = offset
    for each in split_batches(sent):
        last = each.header.last_offset
    # Kafka lists the aborted transactions that overlap the returned batches.
    ends = {3: 8, 15: 16}
    aborted = tuple(each for each in ABORTED if each.first_offset <= last and ends[each.first_offset] >= offset)
    return Fetched(records=sent, aborted=aborted, stable_end=END, is_crowded=False)


def read(wanted: LogRange, batches: Sequence[bytes] = BATCHES, *, most_bytes: int = 1 << 20) -> Rows:
    rows: Rows = {name: [] for name in TABLES}
    decoder = RangeDecoder(wanted, RowSelection())
    while not decoder.is_done:
        for table, found in decoder.decode(fetch(decoder.next_offset, batches, most_bytes=most_bytes)):
            found.validate(full=True)
            assert found.schema.equals(TABLES[table].schema)
            rows[table] += found.to_pylist()
    for table, found in decoder.scanned():
        rows[table] += found.to_pylist()
    for row in rows["scanned"]:
        assert row["records"] == sum(row[name] for name in list(row)[8:]), row
    return rows


def of_segments(tmp_path: Path, batches: Sequence[bytes] = BATCHES) -> Rows:
    """Decodes the same log from a file, and clears the columns that only a file has."""
    write_segment(tmp_path, *batches)
    rows = decoded(tmp_path)
    for row in (*rows["commits"], *rows["rejected"]):
        row["source_segment"] = None
    for row in rows["rejected"]:
        row["position"] = None
    return rows


@pytest.mark.parametrize("most_bytes", [1, 200, 1 << 20])
def test_fetched_batches_give_the_rows_that_a_segment_gives(most_bytes: int, tmp_path: Path) -> None:
    theirs, ours = of_segments(tmp_path), read(log_range(), most_bytes=most_bytes)
    assert ours["commits"] == theirs["commits"]
    assert [row["offset"] for row in ours["commits"]] == [1, 2, 3, 5, 6, None, 7, 8, 9, 10, 11, 13]
    counted = ("batches", "records", "commits", "control", "aborted", "open", "rejected")
    assert [[row[name] for name in counted] for row in ours["scanned"]] == [
        [row[name] for name in counted] for row in theirs["scanned"]
    ]
    assert ours["scanned"][0]["aborted"] == 2


@settings(deadline=None, max_examples=50)
@given(cuts=st.sets(st.integers(1, END - 1)), most_bytes=st.sampled_from([1, 150, 400, 1 << 20]))
def test_a_log_that_is_cut_anywhere_gives_each_record_once(cuts: set[int], most_bytes: int) -> None:
    borders = [0, *sorted(cuts), END]
    parts = [read(log_range(start, end), most_bytes=most_bytes) for start, end in pairwise(borders)]
    whole = read(log_range())
    assert [row for part in parts for row in part["commits"]] == whole["commits"]
    for name in ("records", "batches", "aborted", "control"):
        assert sum(part["scanned"][0][name] for part in parts) == whole["scanned"][0][name]


def test_a_record_of_a_live_log_tells_no_segment_and_no_position() -> None:
    broken = batch(commit(1), at=0)
    record = broken[:61] + broken[61:].replace(struct.pack(">h", 1), struct.pack(">h", 77), 1)
    sealed = bytearray(record)
    sealed[17:21] = struct.pack(">I", _crc(bytes(sealed[21:])))
    rows = read(log_range(end=1), [bytes(sealed)])
    assert [(row["position"], row["source_segment"], row["source_offset"]) for row in rows["rejected"]] == [
        (None, None, 0)
    ]
    assert read(log_range(end=1), [broken])["commits"][0]["source_segment"] is None


def test_a_batch_with_a_wrong_checksum_is_told_by_the_range_it_belongs_to_and_stepped_over(tmp_path: Path) -> None:
    torn = bytearray(BATCHES[0])
    torn[-1] ^= 0xFF
    batches = [bytes(torn), *BATCHES[1:]]
    theirs = of_segments(tmp_path, batches)
    assert read(log_range(), batches)["commits"] == theirs["commits"]
    # Its offsets are 0 to 2: it belongs to the range of its last offset.
    parts = [read(log_range(start, end), batches) for start, end in ((0, 1), (1, 2), (2, END))]
    assert [len(part["rejected"]) for part in parts] == [0, 0, 1]
    assert parts[2]["rejected"] == theirs["rejected"]


def test_offsets_without_records_are_passed_over_up_to_where_the_log_is_stable() -> None:
    decoder = RangeDecoder(log_range(start=5, end=90), RowSelection())
    nothing = Fetched(records=b"", aborted=(), stable_end=60, is_crowded=False)
    assert list(decoder.decode(nothing)) == []
    assert (decoder.next_offset, decoder.is_done) == (60, False)
    assert list(decoder.decode(nothing)) == []
    assert decoder.next_offset == 60


def test_nothing_is_concluded_from_an_answer_that_had_no_room() -> None:
    decoder = RangeDecoder(log_range(end=90), RowSelection())
    for records in (b"", BATCHES[0][:40]):
        assert list(decoder.decode(Fetched(records=records, aborted=(), stable_end=90, is_crowded=True))) == []
    assert decoder.next_offset == 0


@pytest.mark.parametrize(
    ("sent", "reason", "next_offset"),
    [
        (b"\0" * 80, "no batch: a length of 0", 90),
        (struct.pack(">qiib", 4, 14, 0, 1) + b"\0" * 9, "messages of format v1", 5),
        (BATCHES[0], "only what is before it is sent", 90),
    ],
)
def test_what_is_no_batch_is_told_and_never_read_for_ever(sent: bytes, reason: str, next_offset: int) -> None:
    decoder = RangeDecoder(log_range(start=4, end=90), RowSelection())
    fetched = Fetched(records=sent, aborted=(), stable_end=90, is_crowded=False)
    [(table, found)] = [rows for rows in decoder.decode(fetched) if len(rows[1])]
    [row] = found.to_pylist()
    assert table == "rejected"
    assert reason in row["reason"]
    assert row["what"] == "segment"
    assert decoder.next_offset == next_offset


def test_of_other_topics_the_ends_of_batches_are_rows() -> None:
    rows = read(log_range(topic="orders"))
    assert [(row["base_offset"], row["end_offset"]) for row in rows["log_ends"]] == [
        (read_header(each).base_offset, read_header(each).last_offset + 1) for each in BATCHES
    ]
    assert {(row["topic"], row["partition"]) for row in rows["log_ends"]} == {("orders", 7)}
    assert rows["scanned"][0]["plain"] == rows["scanned"][0]["records"]


def _crc(content: bytes) -> int:
    from crc32c import crc32c

    return crc32c(content)
