"""Any bytes at all: nothing raises, every record is accounted for, and what our dump can read is decoded."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.offsets_log.dump import DumpedBatch, DumpFilter, dump_segment
from kcoord.protocol.records.batch import HEADER_SIZE, assemble, read_header, split_batches
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record
from tests.storage.record_segments import FOLDER, SEGMENT
from tests.support.pipeline.expected_rows import Rows, comparable, decoded, expected_rows
from tests.support.pipeline.segment_files import AT_MS, batch, commit, in_a_row, tombstone, write_segment

GOLDEN = {name: FOLDER.joinpath(name, SEGMENT).read_bytes() for name in ("plain", "lz4")}
CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=6)


def changed(content: bytes, changes: list[tuple[int, int]]) -> bytes:
    out = bytearray(content)
    for position, byte in changes:
        out[position % len(out)] = byte
    return bytes(out)


def reasons(rows: Rows) -> list[tuple[str, int]]:
    return [(row["reason"], row["records"]) for row in rows["rejected"]]


def assert_rows_match_dump(folder: Path, segment: Path) -> None:
    """Checks that the rows are those of the dump, and that records without a row are rejected."""
    rows = decoded(folder)
    assert comparable(rows) == expected_rows(segment)
    sound = [each for each in dump_segment(segment, DumpFilter()) if isinstance(each, DumpedBatch) and each.is_valid]
    (scanned,) = rows["scanned"]
    assert scanned["batches"] == len(sound)
    assert scanned["records"] == sum(max(0, each.header.record_count) for each in sound)
    assert scanned["rejected"] == sum(row["records"] for row in rows["rejected"])


@pytest.mark.parametrize("name", GOLDEN)
@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, cut=st.integers(0, 100))
def test_a_segment_with_any_bytes_changed_gives_what_is_left_of_it(
    name: str, changes: list[tuple[int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = changed(GOLDEN[name], changes)
    folder = tmp_path_factory.mktemp("changed")
    assert_rows_match_dump(folder, write_segment(folder, content[: len(content) - cut]))


def _sealed_again(content: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Returns the batches with changed records, under checksums that are right."""
    parts = []
    for number, each in enumerate(split_batches(content)):
        packed = bytes(each.data[HEADER_SIZE:])
        mine = [change for index, change in enumerate(changes) if index % 3 == number % 3]
        parts.append(assemble(each.header, changed(packed, mine) if packed else packed))
    return b"".join(parts)


@pytest.mark.parametrize("name", GOLDEN)
@settings(max_examples=60, deadline=None)
@given(changes=CHANGES)
def test_records_with_any_bytes_changed_under_right_checksums_are_decoded_or_rejected(
    name: str, changes: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    assert_rows_match_dump(folder, write_segment(folder, _sealed_again(GOLDEN[name], changes)))


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    count=st.integers(-3, 70) | st.integers(-(2**31), 2**31 - 1),
    delta=st.integers(-(2**31), 2**31 - 1),
)
def test_headers_that_lie_are_not_believed(
    changes: list[tuple[int, int]], count: int, delta: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sound = batch(*(commit(index) for index in range(60)), tombstone())
    header = read_header(sound)._replace(record_count=count, last_offset_delta=delta)
    lying = assemble(header, changed(sound[HEADER_SIZE:], changes))
    folder = tmp_path_factory.mktemp("lying")
    assert_rows_match_dump(folder, write_segment(folder, sound, lying, sound))


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=300))
def test_bytes_that_are_no_segment_give_no_rows(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    write_segment(folder, b"\xff" + content)
    rows = decoded(folder)
    assert len(rows["rejected"]) == 1
    assert rows["scanned"][0]["records"] == 0


def test_a_torn_end_is_told_and_all_before_it_is_decoded(tmp_path: Path) -> None:
    batches = in_a_row(batch(commit(1), commit(2)), batch(commit(3)))
    write_segment(tmp_path, *batches[:1], batches[1][:-1])
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [1, 2]
    (torn,) = rows["rejected"]
    assert "the end is torn" in torn["reason"]
    assert (torn["what"], torn["records"], torn["position"]) == ("segment", 0, len(batches[0]))


def test_a_batch_with_a_wrong_checksum_hides_nothing_but_itself(tmp_path: Path) -> None:
    batches = in_a_row(batch(commit(1)), batch(commit(2)), batch(commit(3)))
    write_segment(tmp_path, batches[0], changed(batches[1], [(len(batches[1]) - 1, 77)]), batches[2])
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [1, 3]
    (row,) = rows["rejected"]
    assert (row["what"], row["position"], row["source_offset"]) == ("batch", len(batches[0]), 1)


def test_messages_of_older_formats_are_told_and_stepped_over(tmp_path: Path) -> None:
    old = bytearray(batch(commit(1)))
    old[16] = 1
    write_segment(tmp_path, bytes(old), batch(commit(2), at=1))
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [2]
    assert reasons(rows) == [("messages of format v1, which is no longer read", 0)]


def test_the_records_behind_one_that_is_none_are_rejected_with_it(tmp_path: Path) -> None:
    sound = batch(*(commit(index) for index in range(10)))
    header = read_header(sound)
    size = (len(sound) - HEADER_SIZE) // 10
    records = bytearray(sound[HEADER_SIZE:])
    records[4 * size] = 1  # the size of the fifth
    write_segment(tmp_path, assemble(header, bytes(records)), batch(commit(99), at=10))
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [0, 1, 2, 3, 99]
    ((reason, count),) = reasons(rows)
    assert count == 6
    assert "A record" in reason


def test_a_batch_that_cannot_be_decompressed_is_rejected_with_all_its_records(tmp_path: Path) -> None:
    sound = batch(commit(1), commit(2), codec=Codec.ZSTD)
    broken = assemble(read_header(sound), b"no zstd at all")
    write_segment(tmp_path, *in_a_row(broken, batch(commit(3))))
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [3]
    ((reason, count),) = reasons(rows)
    assert ("cannot be decompressed" in reason, count) == (True, 2)


def test_a_batch_that_claims_a_codec_that_there_is_not_is_rejected(tmp_path: Path) -> None:
    sound = batch(commit(1))
    odd = assemble(read_header(sound)._replace(attributes=7), sound[HEADER_SIZE:])
    write_segment(tmp_path, odd)
    assert reasons(decoded(tmp_path)) == [("No codec has the number 7", 1)]


def test_a_batch_of_which_compaction_has_left_nothing_is_no_problem(tmp_path: Path) -> None:
    header = read_header(batch(commit(1)))._replace(record_count=0, last_offset_delta=5)
    write_segment(tmp_path, assemble(header, b""), batch(commit(1), at=6))
    rows = decoded(tmp_path)
    assert len(rows["commits"]) == 1
    assert not rows["rejected"]


def test_records_of_any_size_are_found(tmp_path: Path) -> None:
    """Uses sizes of one to four bytes, and batches of many and of few records next to each other."""
    texts = ["", "x" * 30, "x" * 7_900, "x" * 32_000]
    many = [batch(*(commit(index, metadata=texts[index % 2]) for index in range(100))) for _ in range(40)]
    large = [batch(*(commit(index, metadata=text) for index, text in enumerate(texts)))] * 3
    huge = batch(commit(1), Record(timestamp=AT_MS, key=b"\0\x63", value=bytes(3_000_000)), commit(2))
    segment = write_segment(tmp_path, *in_a_row(*many, *large, huge))
    assert_rows_match_dump(tmp_path, segment)
