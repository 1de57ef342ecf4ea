"""A folder that a cluster is followed into: what may be in it, and that only one job writes there; checked without
Spark."""

import json
from pathlib import Path

import pytest

from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.follow_folder import check_path, check_request_unchanged, check_unlocked, clear, locked
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.sources.request_fingerprint import RequestChanged, fingerprint
from kcoord.pipeline.tables import BadFolder, TablesFolder


@pytest.fixture
def out(tmp_path: Path) -> TablesFolder:
    return TablesFolder(str(tmp_path / "tables"))


def make(out: TablesFolder, *files: str) -> None:
    assert out.path is not None
    for name in files:
        (out.path / name).parent.mkdir(parents=True, exist_ok=True)
        (out.path / name).write_text("")


def test_a_new_folder_is_made_and_one_with_a_checkpoint_goes_on(out: TablesFolder) -> None:
    check_path(out)
    assert out.path is not None
    assert list(out.path.iterdir()) == []
    make(out, "commits/batch=0/date=2026-11-16/a.parquet", "scanned/batch=0/a.parquet", "_checkpoint/metadata")
    make(out, "lag/date=2026-11-16/a.parquet", "report.html")
    check_path(out)


def test_a_job_that_was_killed_before_its_first_micro_batch_begins_again(out: TablesFolder) -> None:
    make(out, "_checkpoint/lock")
    assert out.path is not None
    (out.path / "commits").mkdir()
    check_path(out)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_decode_that_did_not_end_is_not_gone_on_with(out: TablesFolder, has_checkpoint: bool) -> None:
    make(out, "commits/date=2026-11-16/a.parquet", *["_checkpoint/metadata"] * has_checkpoint)
    with pytest.raises(
        BadFolder, match=r"not made by --follow \(commits/date=2026-11-16\): name another folder, or say"
    ):
        check_path(out)


def test_rows_without_the_checkpoint_that_they_came_with_are_told_so(out: TablesFolder) -> None:
    make(out, "commits/batch=3/date=2026-11-16/a.parquet", "_checkpoint/lock")
    with pytest.raises(BadFolder, match=r"their checkpoint \(_checkpoint\) is missing"):
        check_path(out)


def test_a_file_and_a_folder_of_other_things_are_refused(out: TablesFolder, tmp_path: Path) -> None:
    make(out, "letters.txt")
    with pytest.raises(BadFolder, match=r"other things in it \(letters.txt\)"):
        check_path(out)
    with pytest.raises(BadFolder, match="is a file: tables need a folder"):
        check_path(TablesFolder(str(tmp_path / "tables" / "letters.txt")))


def test_one_job_at_a_time_follows_into_a_folder(out: TablesFolder) -> None:
    check_unlocked(out)
    with locked(out):
        with pytest.raises(BadFolder, match=r"another --follow writes there: stop it, or name another folder$"):
            check_unlocked(out)
        with pytest.raises(BadFolder, match="another --follow writes there"), locked(out):
            pass
    check_unlocked(out)
    with locked(out):
        pass


def test_a_folder_is_cleared_but_for_the_lock_of_who_clears_it(out: TablesFolder) -> None:
    make(out, "commits/batch=0/a.parquet", "_checkpoint/metadata", "_checkpoint/offsets/0")
    with locked(out):
        clear(out)
        assert out.path is not None
        assert [str(each.relative_to(out.path)) for each in sorted(out.path.rglob("*"))] == [
            "_checkpoint",
            "_checkpoint/lock",
        ]
        with pytest.raises(BadFolder, match="another --follow writes there"), locked(out):
            pass


def test_a_job_that_did_not_begin_leaves_nothing(out: TablesFolder) -> None:
    with locked(out):
        check_path(out)
    assert out.path is not None
    assert list(out.path.iterdir()) == []
    with locked(out):
        make(out, "_checkpoint/metadata")
    assert (out.path / "_checkpoint" / "lock").exists()


def test_another_question_than_that_of_the_checkpoint_is_refused_without_spark(out: TablesFolder) -> None:
    everything, of_group, choice = RowSelection(), RowSelection(groups=("g",)), TopicSelection()
    check_request_unchanged(out, of_group, choice)
    make(out, *(f"_checkpoint/offsets/{name}" for name in ("9", "10", ".10.crc")))
    check_request_unchanged(out, of_group, choice)  # no offsets can be read here: the stream will check them
    assert out.path is not None
    checkpoint = {"cluster": "x", "asked": fingerprint(everything, choice), "logs": {}}
    (out.path / "_checkpoint" / "offsets" / "10").write_text(f"v1\n{{}}\n{json.dumps(checkpoint)}")
    check_request_unchanged(out, everything, choice)
    with pytest.raises(RequestChanged, match="begun without --group, and this is with --group g: say the same again"):
        check_request_unchanged(out, of_group, choice)


def test_tables_go_on_with_the_connector_that_they_were_begun_with(out: TablesFolder) -> None:
    make(out, "_checkpoint/offsets/0")
    assert out.path is not None
    before = dict(fingerprint(RowSelection(), TopicSelection()))
    for fingerprint_found in (before, {option: value for option, value in before.items() if option != "--connector"}):
        reached = {"cluster": "x", "asked": fingerprint_found, "logs": {}}
        (out.path / "_checkpoint" / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(reached)}")
        check_request_unchanged(out, RowSelection(), TopicSelection())
        with pytest.raises(RequestChanged, match="begun without --connector, and this is with --connector spark-sql-"):
            check_request_unchanged(out, RowSelection(), TopicSelection().without_groups())


def test_the_lock_goes_away_with_the_tables_that_are_replaced(out: TablesFolder) -> None:
    with locked(out):
        pass
    make(out, "commits/batch=3/date=2026-11-16/a.parquet")
    out.prepare(replaces=True)
    assert out.path is not None
    assert list(out.path.iterdir()) == []
