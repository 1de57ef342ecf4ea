"""Which segments a folder has, and how they are split."""

import pickle
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from kcoord.pipeline.decoding.scan import Piece, read_pieces
from kcoord.pipeline.decoding.segments import DuplicatePartitions, NoSegments, find_segments, pack_ranges, plan_ranges
from tests.support.pipeline.expected_rows import decoded, decoded_ranges
from tests.support.pipeline.segment_files import batch, commit, in_a_row, write_segment

BATCHES = in_a_row(*(batch(*(commit(index) for index in range(1 + turn % 7))) for turn in range(60)))
POSITIONS = [sum(len(each) for each in BATCHES[:index]) for index in range(len(BATCHES))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_segment(tmp_path, *BATCHES)
    return tmp_path


def write_index(folder: Path, positions: list[int], zeros: int = 0) -> None:
    entries = [struct.pack(">ii", index, position) for index, position in enumerate(positions)]
    (segment,) = find_segments(folder)
    segment.path.with_suffix(".index").write_bytes(b"".join(entries) + bytes(8 * zeros))


def borders(folder: Path, most_bytes: int) -> list[int]:
    ranges = plan_ranges(find_segments(folder), max_bytes=most_bytes)
    assert [each.end for each in ranges[:-1]] == [each.start for each in ranges[1:]]
    assert (ranges[0].start, ranges[-1].end) == (0, ranges[0].segment.size)
    return [each.start for each in ranges]


def test_segments_are_found_by_topic_partition_and_offset(tmp_path: Path) -> None:
    for log, base_offset in (("orders-10", 0), ("orders-9", 0), ("a-b-0", 0), ("orders-9", 120), ("orders-9", 30)):
        write_segment(tmp_path, b"x", base_offset=base_offset, log=log)
    found = [(each.topic, each.partition, each.base_offset) for each in find_segments(tmp_path)]
    assert found == [("a-b", 0, 0), ("orders", 9, 0), ("orders", 9, 30), ("orders", 9, 120), ("orders", 10, 0)]
    assert [each.base_offset for each in find_segments(tmp_path / "orders-9")] == [0, 30, 120]
    (one,) = find_segments(tmp_path / "orders-9" / f"{30:020}.log")
    assert (one.topic, one.partition, one.base_offset, one.size) == ("orders", 9, 30, 1)


def test_what_a_broker_has_given_up_or_not_finished_is_not_read(folder: Path) -> None:
    (segment,) = find_segments(folder)
    for suffix in (".deleted", ".cleaned", ".swap"):
        segment.path.with_name(f"{99:020}.log{suffix}").touch()
    for mark in ("delete", "stray", "future"):
        write_segment(folder, b"x", log=f"__consumer_offsets-7.0f5b8c9ad7e14b0f8f6d-{mark}")
    folder.joinpath("meta.properties").touch()
    write_segment(folder, b"x", log="no-partition")
    assert find_segments(folder) == [segment]


def test_what_kafka_writes_for_itself_is_read_only_if_it_is_named(folder: Path) -> None:
    (segment,) = find_segments(folder)
    for log in ("__cluster_metadata-0", "__transaction_state-3", "__share_group_state-1"):
        write_segment(folder, b"x", log=log)
        assert [each.size for each in find_segments(folder / log)] == [1]
    assert find_segments(folder) == [segment]


def test_two_brokers_copies_of_a_partition_are_refused_by_their_folders(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        write_segment(tmp_path / broker, *BATCHES)
    with pytest.raises(DuplicatePartitions) as refused:
        find_segments(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} holds several copies of __consumer_offsets-7: {tmp_path}/broker-1/__consumer_offsets-7 and "
        f"{tmp_path}/broker-2/__consumer_offsets-7. Each record would count more than once: name one broker's "
        "folder, or one that has each partition once"
    )
    write_segment(tmp_path / "broker-2", *BATCHES, log="orders-0")
    write_segment(tmp_path / "broker-3", *BATCHES, log="orders-0")
    with pytest.raises(DuplicatePartitions, match=r"__consumer_offsets-7 and 1 other partition: .*/broker-1/"):
        find_segments(tmp_path)
    assert {each.topic for each in find_segments(tmp_path / "broker-2")} == {"__consumer_offsets", "orders"}


def test_a_copy_beside_the_folders_of_partitions_is_refused_too(folder: Path) -> None:
    write_segment(folder / "broker-2", *BATCHES)
    with pytest.raises(DuplicatePartitions, match=r"/__consumer_offsets-7 and .*/broker-2/__consumer_offsets-7"):
        find_segments(folder)


def test_copies_by_links_are_refused_and_two_links_to_one_folder_are_read_once(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        write_segment(tmp_path / broker, *BATCHES)
    links = tmp_path / "links"
    links.mkdir()
    (links / "a").symlink_to(tmp_path / "broker-1" / "__consumer_offsets-7")
    (links / "b").symlink_to(tmp_path / "broker-1" / "__consumer_offsets-7")
    assert [each.partition for each in find_segments(links)] == [7]
    (links / "c").symlink_to(tmp_path / "broker-2" / "__consumer_offsets-7")
    with pytest.raises(DuplicatePartitions, match=r"links/a and .*links/c"):
        find_segments(links)


def test_partitions_that_lie_in_several_folders_once_each_are_read_together(tmp_path: Path) -> None:
    write_segment(tmp_path / "disk-1", *BATCHES, log="__consumer_offsets-1")
    write_segment(tmp_path / "disk-2", *BATCHES, log="__consumer_offsets-2")
    write_segment(tmp_path / "disk-2", *BATCHES, log="__transaction_state-3")
    assert [(each.topic, each.partition) for each in find_segments(tmp_path)] == [
        ("__consumer_offsets", 1),
        ("__consumer_offsets", 2),
    ]


@pytest.mark.parametrize("name", ["nowhere", "empty", "file.txt", "other"])
def test_a_place_without_segments_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / f"{0:020}.log").touch()
    with pytest.raises(NoSegments, match=name):
        find_segments(tmp_path / name)


def test_a_small_segment_is_one_range_and_an_empty_one_none(folder: Path) -> None:
    write_segment(folder, base_offset=500)
    (only,) = plan_ranges(find_segments(folder))
    assert (only.start, only.end) == (0, only.segment.size)


def test_a_range_can_be_sent_to_another_process(folder: Path) -> None:
    ranges = plan_ranges(find_segments(folder), max_bytes=2_000)
    assert pickle.loads(pickle.dumps(ranges)) == ranges


def test_a_segment_is_cut_by_its_batches_where_there_is_no_index(folder: Path) -> None:
    found = borders(folder, 2_000)
    assert len(found) > 5
    assert set(found) <= set(POSITIONS)
    sizes = [end - start for start, end in pairwise(found)]
    assert all(size <= 2_000 for size in sizes)


def test_a_segment_is_cut_by_its_index_where_there_is_one(folder: Path) -> None:
    write_index(folder, POSITIONS[::4], zeros=50)  # a broker preallocates the index with zeros
    found = borders(folder, 2_000)
    assert len(found) > 5
    assert set(found) <= set(POSITIONS[::4])


@pytest.mark.parametrize("error", [1, -3, 10**6])
def test_an_index_that_points_elsewhere_is_not_used(error: int, folder: Path) -> None:
    without = borders(folder, 2_000)
    write_index(folder, [position + error for position in POSITIONS[4::4]])
    assert borders(folder, 2_000) == without


@pytest.mark.parametrize("most_bytes", [1, 500, 3_000, 10**9])
def test_all_ranges_together_give_what_the_segment_does(most_bytes: int, folder: Path) -> None:
    ranges = plan_ranges(find_segments(folder), max_bytes=most_bytes)
    assert len(ranges) == {1: len(BATCHES), 10**9: 1}.get(most_bytes, len(ranges))
    assert decoded_ranges(ranges)["commits"] == decoded(folder)["commits"]


def test_what_is_behind_a_torn_batch_is_one_range(folder: Path) -> None:
    (segment,) = find_segments(folder)
    content = bytearray(segment.path.read_bytes())
    content[POSITIONS[10] + 8] = 0x7F  # its length
    segment.path.write_bytes(content)
    rows = decoded(folder, max_bytes=1)
    assert len(rows["scanned"]) == 10
    assert [row["position"] for row in rows["rejected"]] == [POSITIONS[10]]
    assert len(rows["commits"]) == sum(1 + turn % 7 for turn in range(10))


@pytest.mark.parametrize("most_bytes", [1, 100, 1_000, 10_000])
def test_pieces_of_any_size_hold_all_batches(most_bytes: int, folder: Path) -> None:
    (whole,) = plan_ranges(find_segments(folder))
    found = []
    for piece in read_pieces(whole, max_bytes=most_bytes):
        assert isinstance(piece, Piece)
        found += (piece.at + piece.position).tolist()
    assert found == POSITIONS


def test_small_ranges_are_read_by_one_task_together_and_large_ones_by_one_each(tmp_path: Path) -> None:
    for partition, size in enumerate((3, 50, 4, 60, 2, 5)):
        write_segment(tmp_path, bytes(size), log=f"__consumer_offsets-{partition}")
    packs = pack_ranges(plan_ranges(find_segments(tmp_path)), task_bytes=10)
    assert [[each.end - each.start for each in pack] for pack in packs] == [[60], [50], [5, 4], [3, 2]]
    assert pack_ranges([]) == []
