"""Tests of `kcoord log`."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kcoord.protocol.records.record import Record, write_batch
from tests.support.logs.kafka_dump import dumped_batches, printed_batches
from tests.support.logs.record_writers import write_key, write_value

SEGMENTS = Path(__file__).parent.parent.parent / "fixtures" / "segments"
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["log", "dump", *map(str, arguments)], prog_name="kcoord")


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A segment of an ordinary topic: a text, a tombstone, and characters that a terminal would interpret."""
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    path.parent.mkdir()
    records = [
        Record(timestamp=1_700_000_000_123, key=b"a", value=b"one", headers=(("h\x1b", b"1"),)),
        Record(timestamp=2**62, key=b"b", value=None),
        Record(timestamp=-1, key="\x1b[31m\u202e\x7f".encode(), value="\x9b2J".encode()),
    ]
    path.write_bytes(write_batch(records))
    return path


def test_a_table_has_a_line_for_each_batch_and_each_record() -> None:
    done = dump(SEGMENTS / "plain")
    lines = done.stdout.splitlines()
    theirs = printed_batches(SEGMENTS.joinpath("plain", "kafka-dump-log.txt").read_text())
    assert done.exit_code == 0
    assert len(lines) == 2 + len(theirs) + sum(len(batch["records"]) for batch in theirs)
    assert lines[1].split() == ["OFFSET", "TIME", "KEY", "VALUE"]
    assert lines[2].startswith("batch 0–0: 1 record, none, position 0, 103 bytes, leader epoch 0, crc ")
    (commit,) = [line for line in lines if "group=classic-simple topic=orders partition=1" in line]
    assert ' v4 offset=42 leaderEpoch=0 metadata="note 1" commitTimestamp=' in commit
    (deleted,) = [line for line in lines if "GroupMetadata group=gone" in line]
    assert deleted.endswith("<DELETE>")
    assert "producer 1 epoch 0 sequence -1, transactional, control" in lines[-2]
    assert lines[-1].endswith("type=ABORT coordinatorEpoch=0")


def test_what_a_terminal_would_act_on_is_escaped(orders: Path) -> None:
    done = dump(orders)
    first, second, third = [line.split(None, 1)[1] for line in done.stdout.splitlines()[3:]]
    assert first.split() == ["2023-11-14", "22:13:20.123", "a", "one", r"[h\x1b]"]
    assert second.split() == [str(2**62), "b", "<DELETE>"]
    assert third.split() == ["1969-12-31", "23:59:59.999", r"\x1b[31m\u202e\x7f", r"\x9b2J"]
    assert all(char.isprintable() for line in done.stdout.splitlines() for char in line)
    as_json = dump(orders, "-o", "json").stdout
    assert all(char.isprintable() for line in as_json.splitlines() for char in line)
    assert json.loads(as_json)["segments"][0]["batches"][0]["records"][2]["key"] == "\x1b[31m\u202e\x7f"


@pytest.mark.parametrize("name", ["plain", "lz4"])
def test_json_is_one_document_with_what_kafka_tells(name: str) -> None:
    done = dump(SEGMENTS / name, "-o", "json")
    document = json.loads(done.stdout)
    assert document["kcoord"] == "log-dump/v1"
    assert dumped_batches(document) == printed_batches(SEGMENTS.joinpath(name, "kafka-dump-log.txt").read_text())
    (segment,) = document["segments"]
    assert segment["problems"] == []
    assert segment["file"].endswith("__consumer_offsets-0/00000000000000000000.log")


def test_json_lines_are_one_batch_each(orders: Path) -> None:
    done = dump(SEGMENTS / "plain", orders, "-o", "jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["kcoord"] for line in lines} == {"log-dump/v1"}
    document = json.loads(dump(SEGMENTS / "plain", orders, "-o", "json").stdout)
    batches = [{"file": each["file"], **batch} for each in document["segments"] for batch in each["batches"]]
    assert [{name: fact for name, fact in line.items() if name != "kcoord"} for line in lines] == batches
    assert lines[-1]["file"] == str(orders)


def test_several_segments_and_none_make_a_whole_document(orders: Path) -> None:
    empty = orders.with_name("00000000000000000003.log")
    empty.touch()
    document = json.loads(dump(orders.parent, "-o", "json").stdout)
    assert [len(segment["batches"]) for segment in document["segments"]] == [1, 0]


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_a_torn_segment_is_told_as_far_as_it_goes_and_exits_1(orders: Path, output: str) -> None:
    whole = dump(orders, "-o", output)
    assert (whole.exit_code, whole.stderr) == (0, "")
    size = orders.stat().st_size
    orders.write_bytes(orders.read_bytes() + b"torn")
    done = dump(orders, "-o", output)
    assert done.exit_code == 1
    expected = f"position {size}: 4 bytes are left, too few for a batch: the end is torn"
    assert done.stderr == f"kcoord: {orders}: {expected}\n"
    problem = {"position": size, "problem": expected.split(": ", 1)[1]}
    match output:
        case "table":
            assert done.stdout == whole.stdout
        case "json":
            assert json.loads(done.stdout)["segments"][0]["problems"] == [problem]
        case "jsonl":
            assert done.stdout.startswith(whole.stdout)
            assert json.loads(done.stdout.splitlines()[-1]).items() >= problem.items()


def test_a_wrong_checksum_is_shown_in_the_table(orders: Path) -> None:
    content = bytearray(orders.read_bytes())
    content[-1] ^= 1
    orders.write_bytes(content)
    done = dump(orders)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].endswith("IS WRONG")
    assert "the checksum is wrong" in done.stderr


def test_options_choose_what_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "copy.log"
    record = Record(key=write_key(2, {"group": "g"}), value=write_value(2, {"generation": 3}))
    path.write_bytes(write_batch([record] * 5))
    assert len(dump(path, "--batches").stdout.splitlines()) == 3
    chosen = dump(path, "--offsets", "--from", "1", "--to", "2").stdout.splitlines()[3:]
    assert [line.split()[0] for line in chosen] == ["1", "2"]
    assert "GroupMetadata group=g" in chosen[0]
    assert "GroupMetadata" not in dump(path).stdout
    assert dump(path, "--plain").stdout == dump(path).stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere.log"], "'nowhere.log' does not exist"),
        (["."], "there are no segments in ."),
        ([], "Missing argument"),
        ([".", "--from", "-1"], "is not in the range"),
        ([".", "-o", "xml"], "is not one of"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_exits_2(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = dump(*arguments)
    assert done.exit_code == 2
    assert expected in done.stderr


def test_a_large_segment_takes_little_memory(tmp_path: Path) -> None:
    """Dumps 80 MB of batches in a process that may not allocate that much."""
    path = tmp_path / "large.log"
    batch = write_batch([Record(timestamp=0, key=b"k", value=b"v" * 1000)] * 100)
    with path.open("wb") as file:
        for count in range(800):
            file.write((100 * count).to_bytes(8) + batch[8:])
    program = (
        "import resource, sys; from kcoord.commands.main import main\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: main(['log', 'dump', '-o', 'jsonl', sys.argv[1]])\n"
        "finally: sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))"
    )
    output = tmp_path / "told.jsonl"
    with output.open("w") as out:
        command = [sys.executable, "-c", program, str(path)]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=True)
    with output.open() as lines:
        assert sum(1 for _ in lines) == 800
    assert int(done.stderr) < 30_000, "KiB more than at its start"
