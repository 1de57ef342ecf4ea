"""Tests of `kcoord pipeline rebalances` and `lag`."""

import csv
import io
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kcoord.pipeline.schemas import LAG, OWNERSHIP, REBALANCES, REJECTED, SCANNED, TABLES
from kcoord.pipeline.tables import TablesFolder
from tests.support.pipeline.histories import Log, frame_of, interpreted, member

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUSY = "busy\x1b[31m"
SEGMENTS = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments" / "plain"
line_of: Any = import_module("kcoord.commands.errors").line_of
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def pipeline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], prog_name="kcoord")


def shown(*arguments: str | Path) -> str:
    done = pipeline(*arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def history() -> Log:
    """Records of a group of two members, one of which restarts often, of a reader that falls behind, and of one that
    is gone."""
    log = Log()
    busy = log.group(BUSY)
    busy.generation(0, 0, [])
    busy.generation(3, 1, [member("a", [0]), member("b-1", [1], client_id="b")], join_ended=2)
    busy.commit(5, 1)
    for number in range(2, 5):
        busy.generation(number * 10, number, [member("a", [0]), member(f"b-{number}", [1], client_id="b")])
        busy.commit(number * 10 + 5, number)
    late, gone = log.group("late"), log.group("gone")
    for minute in range(6):
        log.batch("events", minute * 100, minute * 100 + 100, minute * 60)
        late.commit(minute * 60 + 1, minute * 10, topic="events")
    gone.commit(1, 100, topic="events")
    late.generation(7200, 1, [member("l", [0])])
    return log


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with interpreted(spark):
        yield written(spark, history(), tmp_path_factory.mktemp("tables"))


def written(spark: "SparkSession", log: Log, folder: Path) -> Path:
    for name, frame in log.frames(spark).items():
        TablesFolder(str(folder)).write(frame, name)
    for name in (REJECTED, SCANNED):
        TablesFolder(str(folder)).write(frame_of(spark, name, []), name)
    return folder


def names_of(spark: "SparkSession", folder: Path, table: str) -> list[str]:
    return TablesFolder(str(folder)).read(spark, table).columns


def test_restless_groups_and_members_that_flap_are_shown_and_tables_written(
    spark: "SparkSession", tables: Path
) -> None:
    lines = shown("rebalances", tables).splitlines()
    assert lines == [
        "Restless groups",
        "GROUP         REBALANCES  PER HOUR  CAUSES                TOOK  LONGEST  PAUSED  MOVED",
        r"busy\x1b[31m           4       2.0  replaced 3, joined 1    3s       3s     40s      3",
        "late                   1       0.5  joined 1                0s       0s       -      0",
        "",
        "Members that come and go",
        "GROUP         MEMBER       RETURNED  JOINED  LEFT  STAYED  LAST",
        r"busy\x1b[31m  b /10.0.0.1         3       4     3     10s  2026-11-16T12:00:40.000Z",
    ]
    for name in (OWNERSHIP, REBALANCES):
        assert list((tables / name).glob("date=2026-11-16/*.parquet"))
        assert names_of(spark, tables, name) == TABLES[name].schema.names


@pytest.fixture
def decoded_only(tables: Path, tmp_path: Path) -> Path:
    """A copy of the decoded tables without the derived ones."""
    folder = tmp_path / "decoded"
    folder.mkdir()
    for name, table in TABLES.items():
        if table.is_decoded:
            (folder / name).symlink_to(tables / name)
    return folder


def test_of_some_groups_and_times_causes_are_told_by_what_was_before_and_nothing_is_written(decoded_only: Path) -> None:
    times = ("--since", "2026-11-16T12:00:15", "--until", "2026-11-16T12:00:35")
    document = json.loads(shown("rebalances", decoded_only, "--group", BUSY, *times, "-o", "json"))
    assert document["kcoord"] == "pipeline-rebalances/v1"
    found = [(row["group"], row["rebalances"], row["causes"]) for row in document["groups"]]
    assert found == [(BUSY, 2, {"replaced": 2})]
    assert [(row["member"], row["returned"]) for row in document["members"]] == [("b /10.0.0.1", 2)]
    assert not {OWNERSHIP, REBALANCES} & {each.name for each in decoded_only.iterdir()}


def test_how_often_a_group_rebalances_in_an_hour_does_not_depend_on_which_groups_are_asked_for(
    decoded_only: Path,
) -> None:
    [row] = json.loads(shown("rebalances", decoded_only, "--group", BUSY, "-o", "json"))["groups"]
    assert (row["rebalances"], row["per_hour"]) == (4, 2.0)


def test_lag_is_shown_over_time_with_who_never_catches_up_and_what_stands_still(tables: Path) -> None:
    lines = shown("lag", tables, "--pieces", "3").splitlines()
    assert lines == [
        "Lag over time, until",
        "GROUP         12:01:41  12:03:21  12:05:01  BEHIND",
        "late               190       370       550   5m 1s",
        "gone               100       300       500   4m 1s",
        r"busy\x1b[31m         -         -         -       -",
        "",
        "Never caught up",
        "GROUP  TOPIC   PARTITION  LOWEST  HIGHEST  LAST  BEHIND  PER HOUR  SINCE",
        "late   events          0     100      550   550   5m 1s    5400.0  2026-11-16T12:00:01.000Z",
        "",
        "Stood still",
        "GROUP  TOPIC   PARTITION  COMMITTED  LAG  STOOD  SINCE                     UNTIL",
        "gone   events          0        100  500     4m  2026-11-16T12:01:00.000Z  -",
    ]
    assert list((tables / LAG).glob("date=2026-11-16/*.parquet"))


def test_lag_is_a_document_and_of_some_groups_nothing_is_written(decoded_only: Path) -> None:
    bounds = ("--pieces", "2", "--bound", "1000", "--standing", "10m")
    document = json.loads(shown("lag", decoded_only, *bounds, "--group", "late", "--group", "none", "-o", "json"))
    early = {"at": "2026-11-16T12:00:01.000Z", "until": "2026-11-16T12:02:31.000Z", "commits": 3}
    later = {"at": "2026-11-16T12:02:31.001Z", "until": "2026-11-16T12:05:01.000Z", "commits": 3}
    points = [
        {"group": "late", **early, "lag": 280, "highest_lag": 280, "lag_ms": 151000, "behind_ms": 151000},
        {"group": "late", **later, "lag": 550, "highest_lag": 550, "lag_ms": 301000, "behind_ms": 301000},
    ]
    assert document == {"kcoord": "pipeline-lag/v1", "timeline": points, "never_caught_up": [], "standing": []}
    assert not (decoded_only / LAG).exists()


def test_who_committed_last_before_the_time_that_is_asked_for_is_still_behind_in_it(decoded_only: Path) -> None:
    times = ("--since", "2026-11-16T12:04:00", "--pieces", "1")
    document = json.loads(shown("lag", decoded_only, "--group", "gone", *times, "-o", "json"))
    [point] = document["timeline"]
    assert (point["at"], point["until"]) == ("2026-11-16T12:04:00.000Z", "2026-11-16T12:05:00.000Z")
    assert (point["lag"], point["highest_lag"], point["behind_ms"], point["commits"]) == (500, 500, 240000, 0)
    found = [(row["committed"], row["lag"], row["since"], row["until"]) for row in document["standing"]]
    assert found == [(100, 500, "2026-11-16T12:01:00.000Z", None)]


def test_the_groups_with_the_highest_lag_that_is_shown_come_first_and_the_unknown_last(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = Log()
    for partition in range(3):
        log.batch("events", 0, 100, 0, partition=partition)
    wide, deep, forgot = log.group("wide"), log.group("deep"), log.group("a forgotten one")
    for partition in range(3):
        wide.commit(1, 40, topic="events", partition=partition)
    deep.commit(1, 10, topic="events")
    forgot.commit(1, 0, topic="events")
    forgot.commit(2, None, topic="events")
    with interpreted(spark):
        folder = written(spark, log, tmp_path / "ranked")
        sheet = shown("lag", folder, "--pieces", "1", "-o", "csv")
        rows = [(row["group"], row["lag"], row["highest_lag"]) for row in csv.DictReader(io.StringIO(sheet))]
        assert rows == [("wide", "180", "60"), ("deep", "90", "90"), ("a forgotten one", "", "100")]
        [_, _, line, *_] = shown("lag", folder, "--pieces", "1", "--top", "1").splitlines()
        assert line.split()[0] == "wide"


def test_a_section_without_rows_says_none(decoded_only: Path) -> None:
    early = ("--group", "late", "--until", "2026-11-16T12:00:01")
    lines = shown("lag", decoded_only, *early).splitlines()
    assert lines == ["Lag over time, until: none", "", "Never caught up: none", "", "Stood still: none"]
    lines = shown("rebalances", decoded_only, *early).splitlines()
    assert lines == ["Restless groups: none", "", "Members that come and go: none"]
    assert shown("rebalances", decoded_only, *early, "-o", "csv").startswith("group,")


@pytest.mark.parametrize("verb", [["lag"], ["rebalances"], ["report", "--out", "page.html"]])
def test_groups_that_are_not_there_are_said_and_if_none_is_it_failed(
    verb: list[str], decoded_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = pipeline(*verb, decoded_only, "--group", "nobody", "--group", "noone")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no group nobody, noone in these tables" in done.stderr
    done = pipeline(*verb, decoded_only, "--group", "late", "--group", "nobody")
    assert done.exit_code == 0
    assert "kcoord: no group nobody in these tables\n" in done.stderr
    done = pipeline(*verb, decoded_only, "--group", "")
    assert done.exit_code == 2
    assert "a group has a name" in done.stderr


def test_segments_are_decoded_on_the_way(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with interpreted(spark):
        sheet = shown("lag", SEGMENTS, "--pieces", "1", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(sheet)))
    assert {row["group"]: (row["commits"], row["lag"]) for row in rows} == {
        "classic-simple": ("3", ""),
        "committed-txn": ("1", ""),
        "gone": ("3", ""),
        "gone-offsets": ("3", ""),
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", ["tables", "segments"])
def test_what_is_said_of_a_cluster_is_refused_of_a_folder(source: str, decoded_only: Path) -> None:
    folder = decoded_only if source == "tables" else SEGMENTS
    for option in (("--topic", "t"), ("--no-log-ends",)):
        done = pipeline("lag", folder, *option)
        assert done.exit_code == 2
        assert "--topic and --no-log-ends are for a live cluster (-b): a folder is read as it is" in done.stderr


@pytest.mark.parametrize("verb", ["rebalances", "lag"])
@pytest.mark.parametrize(
    ("source", "line"),
    [("nowhere", "nowhere: no such folder"), ("half", "half: the job that wrote these tables did not end")],
)
def test_a_place_that_is_none_is_said(
    verb: str, source: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half" / "commits").mkdir(parents=True)
    done = pipeline(verb, source)
    assert done.exit_code == 1
    assert done.exception is not None
    assert line in line_of(done.exception)
