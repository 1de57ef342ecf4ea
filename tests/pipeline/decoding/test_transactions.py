"""What was committed in a transaction is a row once the transaction is committed, wherever its marker is."""

from pathlib import Path

import pytest

from kcoord.pipeline.decoding.segments import find_segments, plan_ranges
from kcoord.protocol.records.batch import read_header
from kcoord.protocol.records.compression import Codec
from tests.support.pipeline.expected_rows import Row, decoded, decoded_ranges
from tests.support.pipeline.segment_files import ABORT, COMMIT, batch, commit, in_a_row, marker, write_segment


def offsets(rows: dict[str, list[Row]]) -> list[int]:
    return [row["offset"] for row in rows["commits"]]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_commits_of_aborted_and_of_open_transactions_are_left_out_and_counted(codec: Codec, tmp_path: Path) -> None:
    batches = in_a_row(
        batch(commit(1), codec=codec, producer=1),
        batch(commit(2), commit(3), codec=codec, producer=2),
        batch(commit(4), codec=codec),
        batch(commit(5), codec=codec, producer=3),
        marker(ABORT, 2, 0),
        marker(COMMIT, 1, 0),
    )
    write_segment(tmp_path, *batches)
    rows = decoded(tmp_path)
    assert [(row["offset"], row["transactional"]) for row in rows["commits"]] == [(1, True), (4, False)]
    (scanned,) = rows["scanned"]
    assert (scanned["aborted"], scanned["open"], scanned["control"]) == (2, 1, 2)
    assert not rows["rejected"]


def test_the_next_marker_of_the_same_producer_decides(tmp_path: Path) -> None:
    write_segment(
        tmp_path,
        *in_a_row(
            batch(commit(1), producer=1),
            marker(ABORT, 1, 0),
            batch(commit(2), producer=1),
            batch(commit(3), producer=1),
            marker(COMMIT, 1, 0),
            batch(commit(4), producer=1),
            marker(ABORT, 1, 0),
            batch(commit(5), producer=1),
        ),
    )
    assert offsets(decoded(tmp_path)) == [2, 3]


@pytest.mark.parametrize("outcome", [ABORT, COMMIT])
def test_the_end_of_a_transaction_may_stand_in_a_later_segment(outcome: int, tmp_path: Path) -> None:
    write_segment(tmp_path, batch(commit(1), producer=1))
    write_segment(tmp_path, batch(commit(2), at=1), base_offset=1)
    write_segment(tmp_path, base_offset=2)
    write_segment(tmp_path, marker(outcome, 1, 2), base_offset=3)
    assert offsets(decoded(tmp_path)) == ([1, 2] if outcome == COMMIT else [2])


def test_ranges_that_cut_transactions_give_what_the_whole_does(tmp_path: Path) -> None:
    batches = []
    for turn in range(40):
        batches += [batch(commit(turn), producer=turn % 5), batch(commit(1000 + turn))]
        if turn % 5 == 4:
            batches += [marker((turn + producer) % 2, producer, 0) for producer in range(5)]
    write_segment(tmp_path, *in_a_row(*batches))
    whole = decoded(tmp_path)
    ranges = plan_ranges(find_segments(tmp_path), max_bytes=250)
    assert len(ranges) > 20
    cut = decoded_ranges(ranges)
    assert cut["commits"] == whole["commits"]
    assert 40 < len(whole["commits"]) < 80
    for name in ("aborted", "open", "control", "records"):
        assert sum(row[name] for row in cut["scanned"]) == whole["scanned"][0][name]


def test_a_marker_with_a_wrong_checksum_says_nothing(tmp_path: Path) -> None:
    batches = in_a_row(batch(commit(1), producer=1), marker(COMMIT, 1, 0))
    broken = batches[1][:-1] + b"\x55"
    assert len(broken) == read_header(broken).size
    write_segment(tmp_path, batches[0], broken)
    rows = decoded(tmp_path)
    assert not rows["commits"]
    assert rows["scanned"][0]["open"] == 1


def test_a_log_that_grows_while_it_is_read_is_the_one_that_was_planned(tmp_path: Path) -> None:
    """Commands read the log twice: a transaction that ends in between must not be open first and committed then."""
    segment = write_segment(tmp_path, batch(commit(1), producer=4))
    planned = plan_ranges(find_segments(tmp_path))
    with segment.open("ab") as file:
        file.write(marker(COMMIT, 4, at=1))
    write_segment(tmp_path, marker(COMMIT, 4, at=2), base_offset=2)
    assert decoded_ranges(planned)["scanned"][0]["open"] == 1
    assert decoded(tmp_path)["scanned"][0]["commits"] == 1
