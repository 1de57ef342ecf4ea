"""Folders of tables: what may be written where, and which folder is complete."""

from pathlib import Path

import pytest
from pyarrow.dataset import dataset
from pyspark.sql import SparkSession

from kcoord.pipeline.decode_job import SegmentInput, decode
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import find_segments, plan_ranges
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, REJECTED, SCANNED, TABLES, spark_schema
from kcoord.pipeline.tables import BadFolder, TablesFolder, check_writable
from kcoord.protocol.records.record import Record
from tests.support.pipeline.expected_rows import decoded
from tests.support.pipeline.segment_files import AT_MS, batch, commit, in_a_row, tombstone, write_segment

DECODED = [name for name, table in TABLES.items() if table.is_decoded]


def test_a_new_folder_is_made(tmp_path: Path) -> None:
    TablesFolder(str(tmp_path / "a" / "tables")).prepare()
    assert (tmp_path / "a" / "tables").is_dir()


def test_tables_that_are_there_are_not_written_over_unless_that_is_said(tmp_path: Path) -> None:
    (tmp_path / COMMITS / "date=2026-11-16").mkdir(parents=True)
    folder = TablesFolder(str(tmp_path))
    with pytest.raises(BadFolder, match="has tables in it already: name another folder, or say --overwrite"):
        folder.prepare()
    folder.prepare(replaces=True)
    assert list(tmp_path.iterdir()) == []


def test_looking_whether_tables_may_be_replaced_deletes_none(tmp_path: Path) -> None:
    (tmp_path / COMMITS).mkdir()
    TablesFolder(str(tmp_path)).check(replaces=True)
    assert (tmp_path / COMMITS).is_dir()


def test_a_folder_that_nobody_can_write_to_is_told_by_its_own_name() -> None:
    with pytest.raises(OSError, match=r"'/proc/self'$"):
        check_writable(Path("/proc/self"), named=Path("/proc/self"))


def test_other_things_are_never_deleted(tmp_path: Path) -> None:
    (tmp_path / COMMITS).mkdir()
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadFolder, match="has other things in it"):
        TablesFolder(str(tmp_path)).prepare(replaces=True)
    assert (tmp_path / "letter.txt").read_text() == "dear"
    assert (tmp_path / COMMITS).is_dir()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadFolder, match="is a file: tables need a folder"):
        TablesFolder(str(tmp_path / "file")).prepare()


def test_what_is_no_whole_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="no such folder"):
        TablesFolder(str(tmp_path / "none")).check_complete()
    with pytest.raises(BadFolder, match="neither tables of kcoord pipeline decode in it, nor segments of a log"):
        TablesFolder(str(tmp_path)).check_complete()
    (tmp_path / COMMITS).mkdir()
    with pytest.raises(BadFolder, match="did not end"):
        TablesFolder(str(tmp_path)).check_complete()
    (tmp_path / SCANNED).mkdir()
    TablesFolder(str(tmp_path)).check_complete()


def test_places_that_only_spark_reaches_are_left_to_it() -> None:
    folder = TablesFolder("hdfs://name/tables")
    folder.prepare()
    folder.check_complete()
    assert folder.path is None


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Writes two partitions with commits of two groups, a malformed record, and an ordinary topic."""
    bad = Record(timestamp=AT_MS, key=b"\x00\x63", value=b"?")
    write_segment(tmp_path, *in_a_row(batch(commit(5), commit(6, group="h")), batch(tombstone(), bad)))
    write_segment(tmp_path, batch(commit(7, partition=1)), log="__consumer_offsets-8")
    write_segment(tmp_path, batch(Record(timestamp=AT_MS, key=b"k", value=b"v")), log="orders-0")
    return tmp_path


def test_what_is_written_is_what_was_decoded_and_adds_up(spark: SparkSession, segments: Path, tmp_path: Path) -> None:
    folder = TablesFolder(str(tmp_path / "tables"))
    folder.prepare()
    steps: list[str] = []
    done = decode(
        spark, SegmentInput(ranges=plan_ranges(find_segments(segments))), folder, RowSelection(), steps.append
    )
    expected = decoded(segments)
    assert steps == [COMMITS, GENERATIONS, GROUP_EVENTS, "log_ends", REJECTED, SCANNED, "summary"]
    assert done.rows == {name: len(expected[name]) for name in DECODED}
    assert (done.records, done.rejected, done.skipped["plain"]) == (6, 1, 1)
    assert done.is_balanced
    folder.check_complete()
    for name in DECODED:
        frame = folder.read(spark, name)
        assert frame.schema.fieldNames() == spark_schema(name).fieldNames()
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        assert len(rows) == len(expected[name])
    offsets = {(row["group"], row["offset"]) for row in folder.read(spark, COMMITS).collect()}
    assert offsets == {("g", 5), ("h", 6), ("g", 7), ("g", None)}
    assert [each.name for each in (tmp_path / "tables" / COMMITS).glob("date=*")] == ["date=2026-09-21"]
    for name in DECODED:  # other readers find the columns, also of tables without rows
        columns = dataset(tmp_path / "tables" / name, format="parquet", partitioning="hive").schema.names
        assert sorted(columns) == sorted(TABLES[name].schema.names)


def test_what_was_not_asked_for_is_counted(spark: SparkSession, segments: Path, tmp_path: Path) -> None:
    log = SegmentInput(ranges=plan_ranges(find_segments(segments)))
    of_group, later = TablesFolder(str(tmp_path / "of-group")), TablesFolder(str(tmp_path / "later"))
    done = decode(spark, log, of_group, RowSelection(groups=("h",)), print)
    assert (done.rows[COMMITS], done.skipped["left_out"], done.is_balanced) == (1, 3, True)
    done = decode(spark, log, later, RowSelection(since_ms=AT_MS + 1), print)
    assert (done.rows[COMMITS], done.skipped["left_out"], done.is_balanced) == (0, 4, True)
    assert later.read(spark, COMMITS).count() == 0


@pytest.mark.parametrize("name", ["t[1]{a}*", "ein Ort-10:00"])
def test_folders_may_have_names_that_mean_something_to_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    folder = TablesFolder(str(tmp_path / name))
    folder.write(spark.createDataFrame([], spark_schema(SCANNED)), SCANNED)
    assert folder.is_complete
    assert folder.read(spark, SCANNED).count() == 0


def test_what_is_no_path_is_not_replaced() -> None:
    with pytest.raises(BadFolder, match="--overwrite is for folders of this machine"):
        TablesFolder("s3://bucket/tables").prepare(replaces=True)
