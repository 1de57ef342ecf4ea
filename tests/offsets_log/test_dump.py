"""The dump of a segment: it agrees with Kafka's own tool, and reports everything wrong with the segment."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.offsets_log.dump import Dumped, DumpedBatch, DumpFilter, Problem, batch_json, dump_segment, segments_in
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch
from tests.storage.record_segments import FOLDER, PRINTED, SEGMENT
from tests.support.logs.kafka_dump import dumped_batches, printed_batches
from tests.support.logs.record_writers import write_key, write_value

KEY = write_key(1, {"group": "g", "topic": "t", "partition": 3})
VALUE = write_value(1, {"offset": 41})


def dumped(segment: Path, **wanted: Any) -> list[Dumped]:
    return list(dump_segment(segment, DumpFilter(**wanted)))


def batches_in(found: Sequence[Dumped]) -> list[dict[str, Any]]:
    return [batch_json(each) for each in found if isinstance(each, DumpedBatch)]


def problems_in(found: Sequence[Dumped]) -> list[tuple[int, str]]:
    return [(each.position, each.message) for each in found if isinstance(each, Problem)]


def offsets_in(found: Sequence[Dumped]) -> list[int]:
    return [record["offset"] for batch in batches_in(found) for record in batch["records"]]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Three batches: offsets 0–1, 2 and 3–5."""
    path = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    path.parent.mkdir()
    record = Record(timestamp=1_000, key=KEY, value=VALUE)
    batches = [write_batch([record] * count, base_offset=offset) for offset, count in ((0, 2), (2, 1), (3, 3))]
    path.write_bytes(b"".join(batches))
    return path


def with_records(path: Path, *records: Record, **how: Any) -> Path:
    path.write_bytes(write_batch(records, **how))
    return path


@pytest.mark.parametrize("name", ["plain", "lz4"])
def test_a_segment_of_a_broker_is_told_as_kafka_tells_it(name: str) -> None:
    found = dumped(FOLDER / name / SEGMENT)
    ours = dumped_batches({"segments": [{"batches": batches_in(found)}]})
    theirs = printed_batches(FOLDER.joinpath(name, PRINTED).read_text())
    assert len(theirs) > 20
    assert ours == theirs
    assert not problems_in(found)
    assert json.loads(json.dumps(batches_in(found))) == batches_in(found)


def test_the_name_of_the_folder_decides_how_records_are_read_unless_it_is_said(segment: Path) -> None:
    elsewhere = segment.parent.parent / "copy.log"
    elsewhere.write_bytes(segment.read_bytes())
    record = batches_in(dumped(segment))[0]["records"][0]
    assert record["key"] == {
        "type": 1,
        "name": "OffsetCommit",
        "data": {"group": "g", "topic": "t", "partition": 3},
    }
    assert record["value"]["data"]["offset"] == 41
    plain = batches_in(dumped(elsewhere))[0]["records"][0]
    assert plain == batches_in(dumped(segment, as_offsets=False))[0]["records"][0]
    assert plain["key"] == KEY.decode()
    assert batches_in(dumped(elsewhere, as_offsets=True)) == batches_in(dumped(segment))


def test_a_folder_stands_for_its_segments_and_one_of_partitions_for_theirs(segment: Path) -> None:
    later = segment.with_name("00000000000000000006.log")
    other = segment.parent.parent / "orders-0" / segment.name
    deleted = segment.parent.parent / "orders-1.0f5b-delete" / segment.name
    for path in (later, other, deleted):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert segments_in(segment) == [segment]
    assert segments_in(segment.parent) == [segment, later]
    assert segments_in(segment.parent.parent) == [segment, later, other]


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"first": 1}, [1, 2, 3, 4, 5]),
        ({"last": 3}, [0, 1, 2, 3]),
        ({"first": 1, "last": 4}, [1, 2, 3, 4]),
        ({"first": 6}, []),
    ],
)
def test_only_the_wanted_offsets_are_told(segment: Path, wanted: dict[str, int], offsets: list[int]) -> None:
    assert offsets_in(dumped(segment, **wanted)) == offsets


def test_what_lies_behind_the_wanted_offsets_is_not_looked_at(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() + b"torn")
    assert not problems_in(dumped(segment, last=2))
    assert problems_in(dumped(segment, last=5))


def test_batches_can_be_told_without_their_records(segment: Path) -> None:
    batches = batches_in(dumped(segment, records=False))
    assert [batch["count"] for batch in batches] == [2, 1, 3]
    assert not any(batch["records"] for batch in batches)


@given(cut=st.integers(1, 1000))
def test_a_torn_end_is_told_after_all_that_is_whole(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("torn") / "0.log"
    record = Record(timestamp=1_000, key=b"k", value=b"v" * 20)
    batches = [write_batch([record], base_offset=offset) for offset in range(3)]
    whole = b"".join(batches)
    left = whole[: max(0, len(whole) - cut)]
    path.write_bytes(left)
    found = dumped(path)
    whole_batches = len(left) // len(batches[0])
    assert offsets_in(found) == list(range(whole_batches))
    torn_at = whole_batches * len(batches[0])
    assert [position for position, _ in problems_in(found)] == ([torn_at] if torn_at < len(left) else [])
    assert all("torn" in message for _, message in problems_in(found))


def test_a_batch_with_a_wrong_checksum_hides_nothing_but_itself(segment: Path) -> None:
    first, second, _ = batches_in(dumped(segment))
    content = bytearray(segment.read_bytes())
    content[second["position"] + 70] ^= 1
    segment.write_bytes(content)
    found = dumped(segment)
    assert [batch["isvalid"] for batch in batches_in(found)] == [True, False, True]
    assert offsets_in(found) == [0, 1, 3, 4, 5]
    assert problems_in(found) == [(first["size"], "the checksum is wrong: its records are not read")]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (bytes(100), "no batch: a length of 0; 100 bytes are left"),
        (struct.pack(">qiib", 6, 88, 0, 7) + bytes(83), "no batch: a magic of 7; 100 bytes are left"),
        (struct.pack(">qiib", 6, 20, 0, 2) + bytes(83), "no batch: 32 bytes, fewer than a header has"),
        (struct.pack(">qiib", 6, 2**31 - 1, 0, 2) + bytes(83), "a batch of 2147483659 bytes, of which 100 are left"),
    ],
)
def test_what_is_no_batch_ends_the_segment(segment: Path, rest: bytes, expected: str) -> None:
    end = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + rest)
    found = dumped(segment)
    assert offsets_in(found) == list(range(6))
    ((position, message),) = problems_in(found)
    assert position == end
    assert expected in message


def test_messages_of_an_old_format_are_stepped_over(segment: Path) -> None:
    old = struct.pack(">qiIb", 0, 22, 0, 1) + bytes(17)
    segment.write_bytes(old + segment.read_bytes())
    found = dumped(segment)
    assert problems_in(found) == [(0, "messages of format v1, which is no longer read")]
    assert offsets_in(found) == list(range(6))


def test_offsets_that_go_back_are_told(segment: Path) -> None:
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() * 2)
    assert problems_in(dumped(segment))[0] == (size, "offsets 0 to 1 where 6 or more is expected")


def test_records_that_are_not_what_their_batch_says_are_told(tmp_path: Path) -> None:
    batch = bytearray(write_batch([Record(timestamp=0, key=b"k", value=b"v")] * 2))
    struct.pack_into(">i", batch, 57, 3)
    from crc32c import crc32c

    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    path = tmp_path / "0.log"
    path.write_bytes(batch)
    found = dumped(path)
    assert offsets_in(found) == [0, 1]
    assert [position for position, _ in problems_in(found)] == [0]


def test_what_a_newer_kafka_wrote_stays_bytes_and_is_no_problem(segment: Path) -> None:
    newer = (
        Record(timestamp=0, key=b"\x00\x63new", value=b"\x00\x00"),
        Record(timestamp=0, key=b"\x00\x63new", value=None),
        Record(timestamp=0, key=KEY, value=b"\x00\x09new"),
    )
    found = dumped(with_records(segment, *newer))
    assert [(record["key"], record["value"]) for record in batches_in(found)[0]["records"]] == [
        ({"type": 99, "base64": "AGNuZXc="}, {"base64": "AAA="}),
        ({"type": 99, "base64": "AGNuZXc="}, None),
        ({"type": 1, "name": "OffsetCommit", "data": {"group": "g", "topic": "t", "partition": 3}},
         {"version": 9, "base64": "AAluZXc="}),
    ]  # fmt: skip
    assert not problems_in(found)


def test_a_malformed_record_is_told_and_shown_as_bytes(segment: Path) -> None:
    malformed = (
        Record(timestamp=0, key=None, value=VALUE),
        Record(timestamp=0, key=b"\x00\x02\x00\x09g", value=VALUE),
        Record(timestamp=0, key=KEY, value=VALUE[:-3]),
        Record(timestamp=0, key=KEY, value=VALUE),
    )
    found = dumped(with_records(segment, *malformed))
    records = batches_in(found)[0]["records"]
    assert [record["key"] for record in records[:2]] == [None, {"base64": "AAIACWc="}]
    assert records[3]["value"]["data"]["offset"] == 41
    assert [message.split(":")[0] for _, message in problems_in(found)] == ["offset 0", "offset 1", "offset 2"]


@pytest.mark.parametrize(
    ("key", "value", "marker"),
    [
        ("00000001", "000000000007", {"type": "COMMIT", "coordinatorEpoch": 7}),
        ("00000000", "000000000007", {"type": "ABORT", "coordinatorEpoch": 7}),
        ("00000001", "0000", {"type": "COMMIT", "base64": "AAA="}),
        ("00000002", "0102", {"type": "LEADER_CHANGE", "base64": "AQI="}),
        ("00000063", "", {"type": "UNKNOWN (99)", "base64": ""}),
        ("00", "", {"type": "none", "base64": "AA=="}),
    ],
)
def test_markers_say_what_they_mean(segment: Path, key: str, value: str, marker: Any) -> None:
    record = Record(timestamp=0, key=bytes.fromhex(key), value=bytes.fromhex(value))
    producer = ProducerStamp(id=5, epoch=2, is_transactional=True)
    (batch,) = batches_in(dumped(with_records(segment, record, producer=producer, is_control=True)))
    assert batch["isControl"]
    assert batch["records"][0]["marker"] == marker
    assert "key" not in batch["records"][0]


@pytest.mark.parametrize("codec", Codec)
def test_plain_records_are_told_in_every_codec(tmp_path: Path, codec: Codec) -> None:
    record = Record(timestamp=7, key=None, value=b"\xff", headers=(("h", b"1"), ("i", None)))
    (batch,) = batches_in(dumped(with_records(tmp_path / "0.log", record, codec=codec)))
    assert batch["compresscodec"] == codec.name.lower()
    assert batch["records"] == [
        {
            "offset": 0,
            "timestamp": 7,
            "keySize": -1,
            "valueSize": 1,
            "sequence": -1,
            "headers": [{"key": "h", "value": "1"}, {"key": "i", "value": None}],
            "key": None,
            "value": {"base64": "/w=="},
        }
    ]


@given(content=st.binary(max_size=300), seed=st.integers(0, 400), with_header=st.booleans())
def test_any_bytes_are_told_to_their_end(
    content: bytes, seed: int, with_header: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Random bytes, and a valid segment with some bytes changed, never raise an error."""
    path = tmp_path_factory.getbasetemp() / "any.log"
    good = bytearray(write_batch([Record(timestamp=0, key=KEY, value=VALUE)] * 3, codec=Codec.ZSTD))
    if with_header:
        good[seed % len(good) : seed % len(good) + len(content) % 4] = content[: len(content) % 4]
        content = bytes(good)
    path.write_bytes(content)
    found = dumped(path, as_offsets=True)
    json.dumps(batches_in(found))
    dumped_bytes = sum(batch["size"] for batch in batches_in(found))
    assert dumped_bytes == len(content) or problems_in(found)
