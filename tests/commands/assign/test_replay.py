"""Tests of `kcoord assign replay`."""

import csv
import io
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kcoord.pipeline.schemas import REJECTED, SCANNED
from kcoord.pipeline.tables import TablesFolder
from tests.support.pipeline.histories import Log, frame_of, interpreted, member, stranger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments" / "plain"
BUSY = "busy\x1b[31m"
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["assign", "replay", *map(str, arguments)], prog_name="kcoord")


def shown(*arguments: str | Path) -> str:
    done = replay(*arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def document(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(*arguments, "-o", "json"))
    return found


def history() -> Log:
    """Records of a group of which one member restarts and one expires and comes back, and of groups that cannot be
    replayed."""
    log = Log()
    busy = log.group(BUSY)
    steady = {"a": [0, 1], "b": [2, 3]}
    busy.generation(0, 0, [])
    busy.generation(3, 1, [member("a", steady["a"]), member("b-1", steady["b"], client_id="b")], join_ended=2)
    busy.commit(8, 1, partition=0)
    busy.commit(9, 1, partition=2)
    busy.generation(10, 2, [member("a", [0, 1, 2, 3])])
    busy.commit(15, 2, partition=0)
    busy.generation(20, 3, [member("a", steady["a"]), member("b-2", steady["b"], client_id="b")])
    busy.commit(22, 3, partition=2)
    busy.commit(119, 3, partition=0)
    busy.generation(120, 4, [member("a", [0, 1, 2, 3])])
    busy.commit(122, 4, partition=0)
    busy.generation(150, 5, [member("a", steady["a"]), member("b-3", steady["b"], client_id="b")])
    busy.commit(151, 4, partition=0)
    connect, odd, lone = log.group("connect"), log.group("odd"), log.group("only-commits")
    connect.generation(1, 1, [stranger("w")], protocol_type="connect")
    odd.generation(1, 1, [stranger("o")])
    lone.commit(1, 1)
    for rows in log.rows.values():
        for row in rows:
            if row.get("state") == "Stable":
                row["protocol"] = "range"
    return log


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("tables")
    with interpreted(spark):
        for name, frame in history().frames(spark).items():
            TablesFolder(str(folder)).write(frame, name)
        for name in (REJECTED, SCANNED):
            TablesFolder(str(folder)).write(frame_of(spark, name, []), name)
        yield folder


TOTALS = "STRATEGY            REBALANCES  MOVED  PAUSED  PARTITION-SECONDS  AT-LEAST"
AVOIDED = "GENERATION  AT                        MEMBERS"


def test_each_strategy_is_shown_beside_what_was_recorded_and_what_need_not_have_been(tables: Path) -> None:
    lines = shown(tables, "--group", BUSY, "--strategy", "range", "--strategy", "cooperative-sticky").splitlines()
    assert lines == [
        r"busy\x1b[31m: partitions by the assignments: orders 4",
        TOTALS,
        "recorded (range)             5      8      16              180.0       0.0",
        "range                        5      8      16              180.0       0.0",
        "cooperative-sticky           7      8       8               90.0       0.0",
        "",
        r"busy\x1b[31m: if members had been static (group.instance.id), with their session timeouts;"
        " unread while members were away, and not counted below: 20.0 partition-seconds",
        TOTALS,
        "range                        3      4       8              128.0       0.0",
        "cooperative-sticky           4      4       4               64.0       0.0",
        "",
        r"busy\x1b[31m: 2 recorded rebalances would not have happened",
        AVOIDED,
        "2           2026-11-16T12:00:10.000Z  b /10.0.0.1",
        "3           2026-11-16T12:00:20.000Z  b /10.0.0.1",
    ]


def test_with_a_session_timeout_it_names_what_it_would_have_bridged(tables: Path) -> None:
    [group] = document(tables, "--group", BUSY, "--session-timeout", "2m")["groups"]
    static, session = group["what_ifs"]
    assert [each["generations"] for each in static["avoided"]] == [[2], [3], [4], [5]]
    assert [each["generations"] for each in session["avoided"]] == [[4], [5]]
    assert session["assumes"] == "if sessions had lasted 2m, and members that expired were alive and only late"
    left, expired = group["absences"]
    assert (left["departure"], left["away_ms"]) == ("left", 10_000)
    assert (expired["departure"], expired["away_ms"]) == ("expired", 30_000 + 45_000)
    assert expired["new_member_id"] == "b-3"


def test_only_rebalances_of_the_time_that_is_asked_for_count_and_start_from_what_was_before(tables: Path) -> None:
    times = ("--since", "2026-11-16T12:01:00", "--until", "2026-11-16T12:02:10")
    found = document(tables, "--group", BUSY, "--each", "--strategy", "sticky", *times)
    assert found["kcoord"] == "assign-replay/v1"
    [group] = found["groups"]
    [sticky] = group["strategies"]
    assert sticky["each"] == [
        {
            "at": "2026-11-16T12:02:00.000Z",
            "generation": 4,
            "members": 1,
            "rebalances": 1,
            "moved": 2,
            "started": 0,
            "paused": 4,
            "least_partition_ms": 0,
            "partition_ms": 12_000,
            "spread": 0,
            "failure": None,
        }
    ]
    assert group["recorded"]["rebalances"] == 1
    assert group["partitions"] == {"orders": 4}


def test_a_sheet_has_a_row_for_each_strategy_and_what_if_or_for_each_rebalance(tables: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(tables, "--group", BUSY, "--strategy", "uniform", "-o", "csv"))))
    assert [(row["what_if"], row["strategy"], row["moved"], row["partition_seconds"]) for row in rows] == [
        ("", "recorded", "8", "180.0"),
        ("", "uniform", "8", "40.0"),
        ("static members", "uniform", "4", "20.0"),
    ]
    options = ("--group", BUSY, "--strategy", "range", "--each", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(shown(tables, *options))))
    assert [(row["generation"], row["strategy"]) for row in rows[:3]] == [
        ("1", "recorded"),
        ("1", "range"),
        ("2", "recorded"),
    ]
    assert len(rows) == 10


def test_what_was_recorded_is_what_the_table_of_rebalances_has(tables: Path) -> None:
    arguments = ["pipeline", "rebalances", str(tables), "--group", BUSY, "-o", "json"]
    [row] = json.loads(CliRunner().invoke(cli, arguments, prog_name="kcoord").stdout)["groups"]
    [group] = document(tables, "--group", BUSY)["groups"]
    assert (group["recorded"]["rebalances"], group["recorded"]["moved"]) == (row["rebalances"], row["moved_partitions"])


def test_partitions_that_nobody_had_yet_can_be_named(tables: Path) -> None:
    options = ("--group", BUSY, "--strategy", "range", "-o", "json")
    found = json.loads(shown(tables, *options, "--partitions", "orders=8"))
    assert found["groups"][0]["partitions"] == {"orders": 8}
    assert found["groups"][0]["strategies"][0]["paused"] == 32
    done = replay(tables, *options, "--partitions", "orders=2")
    assert done.exit_code == 1
    assert "orders has 2 partitions, but 3 was assigned: it has more" in str(done.exception)
    done = replay(tables, *options, "--partitions", "orders")
    assert done.exit_code == 2
    assert "'orders' is not TOPIC=PARTITIONS, such as orders=12" in done.stderr


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("connect", "its protocol type is 'connect', and the strategies are of consumers"),
        ("odd", "a subscription in its generation 1 cannot be read"),
        ("only-commits", "no generation of it with members is in the tables"),
    ],
)
def test_why_a_group_cannot_be_replayed_is_one_line(group: str, reason: str, tables: Path) -> None:
    done = replay(tables, "--group", group)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{group} cannot be replayed: {reason}" in done.stderr


def test_without_a_group_those_with_the_most_generations_are_replayed_and_others_named(tables: Path) -> None:
    done = replay(tables, "-o", "json")
    assert done.exit_code == 0
    assert [each["group"] for each in json.loads(done.stdout)["groups"]] == [BUSY]
    assert "kcoord: odd cannot be replayed: a subscription in its generation 1 cannot be read\n" in done.stderr
    assert "connect" not in done.stderr, "only consumers are chosen"


def test_a_group_that_is_not_in_the_tables_is_said(tables: Path) -> None:
    done = replay(tables, "--group", "nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no group nobody in these tables" in done.stderr


def test_segments_of_a_broker_are_decoded_on_the_way(spark: "SparkSession") -> None:
    with interpreted(spark):
        found = document(SEGMENTS, "--group", "classic")
    [group] = found["groups"]
    assert group["protocols"] == ["range"]
    assert group["recorded"]["rebalances"] == 1
    assert {each["strategy"]: each["started"] for each in group["strategies"]} == dict.fromkeys(
        ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range"), 3
    )
