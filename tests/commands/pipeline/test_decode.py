"""Tests of `kcoord pipeline decode`."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kcoord.pipeline.follow_folder import locked
from kcoord.pipeline.tables import BadFolder, TablesFolder
from kcoord.protocol.records.record import Record
from tests.support.pipeline.segment_files import AT_MS, batch, commit, in_a_row, write_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments" / "plain"
line_of: Any = import_module("kcoord.commands.errors").line_of
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def decode(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", "decode", *map(str, arguments)], prog_name="kcoord")


def without_reminders(stderr: str) -> list[str]:
    """Returns the lines of a job without the timestamped ones, which long stages print on a slow machine."""
    return [line for line in stderr.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT\S+Z ", line)]


def test_tables_are_written_and_counted_and_spark_is_not_heard(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kcoord.commands", "pipeline", "decode", str(SEGMENTS), "--out", "tables"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[:4] == ["TABLE         ROWS", "commits         14", "generations      8", "group_events    46"]
    assert "records read                71" in lines
    printed = without_reminders(done.stderr)
    assert printed[0] == "reading 5.9 kB of segments in 1 range"
    assert [line.split(":")[0] for line in printed[1:-1]] == [
        "starting Spark",
        *("commits", "generations", "group_events", "log_ends", "rejected", "scanned"),
        "summary",
    ]
    assert "14 rows" in printed[2]
    assert printed[-1].startswith("done in ")
    assert list((tmp_path / "tables" / "commits").glob("date=*/*.parquet"))
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.endswith("kcoord: tables has tables in it already: name another folder, or say --overwrite\n")


def test_the_summary_is_a_document_too(spark: "SparkSession", tmp_path: Path) -> None:
    done = decode(SEGMENTS, "--out", tmp_path / "tables", "--group", "classic-simple", "-o", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["kcoord"] == "pipeline-decode/v1"
    assert document["balanced"] is True
    assert document["records"] == 71
    assert 0 < document["rows"]["commits"] < 14
    assert document["aside"]["left_out"] > 40


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere", "--out", "o"], "nowhere: no such file or folder"),
        ([".", "--out", "o"], ".: no segments of a log in it: <topic>-<partition>/<20 digits>.log"),
        ([str(SEGMENTS.parent), "--out", "o"], "segments holds several copies of __consumer_offsets-"),
        ([str(SEGMENTS), "--out", "file"], "file is a file: tables need a folder"),
        ([str(SEGMENTS), "--out", "file/below"], "file/below: Not a directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = decode(*arguments)
    assert done.exit_code == 1
    assert done.exception is not None
    assert line in line_of(done.exception)
    assert "reading" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--out", "o", "--since", "yesterday"], "'yesterday' is not a time"),
        (["--out", "o", "--since", "2026-01-02", "--until", "2026-01-01"], "--since is not before --until"),
        (["--out", "o", "--conf", "master=x"], "'master': say spark.KEY=VALUE"),
        ([], "Missing option '--out'"),
        (["--out", "o", "-b", "host:1"], "a folder, or a cluster (-b): not both"),
        (["--out", "o", "--topic", "t"], "--topic and --no-log-ends are for a live cluster (-b)"),
        (["--out", "o", "--no-log-ends"], "--topic and --no-log-ends are for a live cluster (-b)"),
        (["--out", "o", "--connector", "python"], "--connector is for a live cluster (-b): a folder is read as it is"),
        (["--out", "o", "--connector", "kafka"], "'kafka' is not one of 'python', 'spark-sql-kafka'"),
        (["--out", "o", "--interval", "10s"], "--interval says how often --follow writes"),
        (["--out", "o", "--master", "spark://x"], "--master spark://x: say spark://HOST:PORT"),
        (["--out", "o", "--master", "local[abc]"], "--master local[abc]: say local[N]"),
        (["--out", "o", "--master", "foo"], "--master foo: say local[N]"),
        (["--out", "o", "--group", ""], "a group has a name"),
        (["--out", "o", "--catch-up"], "--catch-up says how --follow ends"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(arguments: list[str], line: str) -> None:
    done = decode(SEGMENTS, *arguments)
    assert done.exit_code == 2
    assert line in done.stderr
    assert "reading" not in done.stderr


def damaged(folder: Path) -> tuple[Path, int]:
    """Makes a log with a batch of two records that has a wrong checksum, and one whose end is torn. Returns its
    path, and how many bytes are damaged."""
    batches = in_a_row(*(batch(commit(number), commit(number + 1)) for number in range(4)))
    wrong, torn = bytearray(batches[1]), batches[3][:-1]
    wrong[-1] ^= 0xFF
    write_segment(folder, batches[0], bytes(wrong), batches[2], torn)
    return folder, len(wrong) + len(torn)


def test_what_could_not_be_read_is_summed_up_and_makes_the_exit_code_1(spark: "SparkSession", tmp_path: Path) -> None:
    log, size = damaged(tmp_path / "log")
    done = decode(log, "--out", tmp_path / "tables")
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[lines.index("NOT READ COUNT") + 1 :] == [
        "batches 1",
        "ends of segments 1",
        f"bytes of both {size}",
        "records in the batches, by their headers 2",
    ]
    assert f"1 batch and 1 end of a segment, {size} B, could not be read: {tmp_path}/tables/rejected" in done.stderr
    document = json.loads(decode(log, "--out", tmp_path / "tables", "--overwrite", "-o", "json").stdout)
    assert document["not_read"] == {"batches": 1, "segments": 1, "bytes": size, "records": 2, "gaps": 0}
    assert (document["records"], document["rejected"], document["balanced"]) == (4, 0, True)


def test_a_record_that_cannot_be_decoded_leaves_the_exit_code_0(spark: "SparkSession", tmp_path: Path) -> None:
    write_segment(tmp_path / "log", batch(commit(1), Record(timestamp=AT_MS, key=b"\x00\x63", value=b"?")))
    done = decode(tmp_path / "log", "--out", tmp_path / "tables")
    assert done.exit_code == 0
    assert "NOT READ" not in done.stdout
    assert "not everything could be decoded" in done.stderr


def test_tables_that_are_to_be_overwritten_stay_if_the_cluster_cannot_be_followed(tmp_path: Path) -> None:
    old_file = tmp_path / "tables" / "commits" / "date=2026-11-16" / "a.parquet"
    old_file.parent.mkdir(parents=True)
    old_file.write_text("rows")
    done = decode("-b", "127.0.0.1:1", "--out", tmp_path / "tables", "--follow", "--overwrite")
    assert done.exit_code == 1
    assert old_file.read_text() == "rows"


def test_two_that_follow_into_one_folder_are_told_before_spark_and_the_cluster_are_asked(tmp_path: Path) -> None:
    with locked(TablesFolder(str(tmp_path / "tables"))):
        done = decode("-b", "127.0.0.1:1", "--out", tmp_path / "tables", "--follow")
    assert isinstance(done.exception, BadFolder)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("memory", "line"),
    [
        ("much", "kcoord: Spark does not start: Invalid maximum heap size: -Xmxmuch; Spark's log is "),
        ("1k", "kcoord: Spark does not start: Too small maximum heap; Spark's log is "),
    ],
)
def test_why_the_jvm_did_not_start_is_said_and_no_empty_folder_is_left(memory: str, line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kcoord.commands", "pipeline", "decode", str(SEGMENTS), "--out", "new"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*command, "--conf", f"spark.driver.memory={memory}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    [_, printed] = done.stderr.splitlines()
    assert printed.startswith(line)
    assert [each.name for each in tmp_path.iterdir()] == [Path(printed.rpartition(" ")[2]).name], (
        "the log that is named"
    )


def test_it_is_said_which_cluster_a_context_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_CONFIG_DIR", str(tmp_path))
    runner = CliRunner()
    assert runner.invoke(cli, ["context", "add", "far", "-b", "127.0.0.1:1"]).exit_code == 0
    for options in ([], ["--follow"]):
        done = decode("--out", tmp_path / "tables", "--request-timeout", "1", *options)
        assert isinstance(done.exception, ConnectionError)
        assert done.stderr.splitlines()[0] == "reading the cluster 127.0.0.1:1 (context far)"
        assert not (tmp_path / "tables").exists()
    named = decode("--out", tmp_path / "tables", "-b", "127.0.0.1:1", "--request-timeout", "1")
    assert "reading the cluster" not in named.stderr


def test_a_folder_that_one_may_not_write_to_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):  # root may write everywhere
        done = decode(SEGMENTS, "--out", "/proc/tables")
    else:
        done = decode(SEGMENTS, "--out", tmp_path / "tables")
    assert done.exit_code == 1
    assert isinstance(done.exception, OSError)
    assert "reading" not in done.stderr
