"""Tests of `kcoord pipeline report`."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kcoord.pipeline.schemas import GENERATIONS, LAG, OWNERSHIP, REBALANCES, REJECTED, SCANNED, TABLES
from kcoord.pipeline.tables import TablesFolder
from tests.commands.terminal import piped
from tests.support.pipeline.histories import Log, frame_of, interpreted, member
from tests.support.pipeline.pages import Element, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments" / "plain"
BUSY = "<b>busy</b>\x1b[31m"
line_of: Any = import_module("kcoord.commands.errors").line_of
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "report", *map(str, arguments)], prog_name="kcoord")


def history() -> Log:
    """Records of a group of two members, one of which restarts often, and of a reader that falls behind."""
    log = Log()
    busy, late = log.group(BUSY), log.group("late")
    busy.generation(0, 0, [])
    for number in range(1, 5):
        busy.generation(number * 10, number, [member("a", [0]), member(f"b-{number}", [1], client_id="b")])
        busy.commit(number * 10 + 5, number)
    for minute in range(6):
        log.batch("events", minute * 100, minute * 100 + 100, minute * 60)
        late.commit(minute * 60 + 1, minute * 10, topic="events")
    return log


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tables")
    scanned = {"topic": "__consumer_offsets", "partition": 7, "records": 15, "commits": 10, "generations": 5}
    others = ("start", "end", "bytes", "batches", "group_events", "rejected", "control", "aborted", "open", "plain")
    with interpreted(spark):
        for name, frame in history().frames(spark).items():
            TablesFolder(str(folder)).write(frame, name)
        TablesFolder(str(folder)).write(frame_of(spark, REJECTED, []), REJECTED)
        row = {**dict.fromkeys((*others, "left_out"), 0), **scanned}
        TablesFolder(str(folder)).write(frame_of(spark, SCANNED, [row]), SCANNED)
        yield folder


def pages_of(file: Path) -> list[Element]:
    return parse(file.read_text(encoding="utf-8")).find_all("section")


def test_a_report_has_an_overview_and_a_page_for_each_group(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = report(tables, "--out", out, "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {
        "kcoord": "pipeline-report/v1",
        "out": str(out),
        "bytes": out.stat().st_size,
        "groups": 2,
        "pages": 2,
    }
    [overview, busy, late] = pages_of(out)
    assert "records in all15" in overview.text
    assert r"<b>busy</b>\x1b[31mb /10.0.0.1343" in overview.text, "the member that comes and goes"
    assert "lateevents0100550" in overview.text, "the partition that never catches up"
    assert busy.find("h1").text == r"Group <b>busy</b>\x1b[31m"
    assert [each.text for each in busy.find_all("figure")[0].find_all("div", "label")] == ["joined 1", "replaced 3", ""]
    assert [each.text for each in busy.find_all("figure")[1].find_all("div", "label")] == ["0", "1", ""]
    assert "Highest 550 about 2026-11-16 12:04:59; 550 at the end." in late.text
    assert all((tables / name).is_dir() for name in (OWNERSHIP, REBALANCES, LAG))


def test_a_report_may_be_of_some_groups_and_times_and_replace_another(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("before")
    times = ("--since", "2026-11-16T12:00:15", "--until", "2026-11-16T12:00:35")
    done = report(tables, "--out", out, "--overwrite", "--group", BUSY, *times)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "OUT" + " " * (len(str(out)) - 1) + "GROUPS  PAGES     SIZE"
    [overview, busy] = pages_of(out)
    assert "Asked for: since 2026-11-16 12:00:15.000 until 2026-11-16 12:00:35.000." in overview.text
    assert "rebalances2" in busy.text
    assert [each.text for each in busy.find_all("figure")[0].find_all("div", "label")] == ["replaced 2", ""]
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("there.html", "there.html exists already: name another file, or say --overwrite"),
        ("folder", "folder is a folder: --out is a file, such as folder/report.html"),
        ("nowhere/report.html", "nowhere: no such folder"),
        ("there.html/report.html", "there.html: no such folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_before_anything_begins(
    out: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.html").touch()
    (tmp_path / "folder").mkdir()
    done = report("tables", "--out", out)
    assert done.exit_code == 1
    assert done.exception is not None
    assert line_of(done.exception) == line


def test_segments_become_a_report_in_one_go_and_leave_nothing_else(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    out = tmp_path / "report.html"
    with interpreted(spark):
        done = report(SEGMENTS, "--out", out, "--group", "classic-simple")
    assert done.exit_code == 0, done.stderr
    assert "reading 5.9 kB of segments in 1 range" in done.stderr
    assert [page.find("h1").text for page in pages_of(out)][1:] == ["Group classic-simple"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "temporary"]
    assert list(temporary.iterdir()) == []


def test_the_tables_on_the_way_to_a_report_stay_where_it_is_said(spark: "SparkSession", tmp_path: Path) -> None:
    out, saved = tmp_path / "report.html", tmp_path / "kept"
    with interpreted(spark):
        done = report(SEGMENTS, "--out", out, "--tables", saved, "--since", "2100-01-01")
    assert done.exit_code == 0, done.stderr
    assert {each.name for each in saved.iterdir()} == {*TABLES}
    # The time chooses what the page shows: the log is read from its beginning, as causes lie before what they cause.
    assert TablesFolder(str(saved)).read(spark, GENERATIONS).count() > 0
    assert TablesFolder(str(saved)).is_complete
    again = report(SEGMENTS, "--out", tmp_path / "again.html", "--tables", saved)
    assert again.exit_code == 1
    assert again.exception is not None
    assert line_of(again.exception) == f"{saved} has tables in it already: name another folder, or say --overwrite"
    of_tables = report(saved, "--out", tmp_path / "again.html", "--tables", tmp_path / "other")
    assert of_tables.exit_code == 2
    assert f"--tables is for segments or a live cluster: {saved} has tables already" in of_tables.stderr


def test_a_folder_that_cannot_hold_the_tables_is_said_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    # A Spark that cannot start would be what is wrong, were it started before. In a process of its own: in this one
    # there is a Spark already.
    options = ("--out", f"{tmp_path}/report.html", "--tables", f"{tmp_path}/file", "--conf", "spark.driver.memory=none")
    done = piped("pipeline", "report", str(SEGMENTS), *options)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"kcoord: {tmp_path}/file is a file: tables need a folder"


def test_a_folder_with_neither_segments_nor_tables_is_said(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    done = report(tmp_path / "logs", "--out", tmp_path / "report.html")
    assert done.exit_code == 1
    assert done.exception is not None
    assert line_of(done.exception) == (
        f"{tmp_path}/logs: neither tables of kcoord pipeline decode in it, nor segments of a log: "
        "<topic>-<partition>/<20 digits>.log"
    )


def test_a_place_without_tables_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = report("nowhere", "--out", "report.html")
    assert done.exit_code == 1
    assert done.exception is not None
    assert line_of(done.exception) == "nowhere: no such folder"
    assert not (tmp_path / "report.html").exists()
