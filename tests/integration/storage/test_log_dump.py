"""`kcoord log dump` prints segments as Kafka's own kafka-dump-log does: those of a broker, and our own."""

import json
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, seed, settings

from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.protocol.records.record import Record, write_batch
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.storage.record_segments import FOLDER
from tests.storage.record_segments import SEGMENT as GOLDEN
from tests.support.logs.compacted import compacted
from tests.support.logs.kafka_dump import Batch, dumped_batches, printed_batches
from tests.support.logs.log_dump_scene import SETTINGS, LogScene
from tests.support.logs.record_writers import write_key, write_value
from tests.support.logs.schema_values import values_of

SEGMENT = "00000000000000000000.log"
WRITTEN_BY_KAFKA = set(RECORD_TYPES) - {0, 4}
CODECS = {"none": "0", "gzip": "1", "snappy": "2", "lz4": "3", "zstd": "4"}

cli: Any = import_module("kcoord.commands.main").cli


def ours(*segments: Path) -> list[Batch]:
    done = CliRunner().invoke(cli, ["log", "dump", "-o", "json", *map(str, segments)])
    assert done.exit_code == 0, done.stderr
    return dumped_batches(json.loads(done.stdout))


def theirs(tools: JavaTools, *segments: Path, decoder: str = "--offsets-decoder") -> list[Batch]:
    done = tools.run("dump-log", decoder, "--files", ",".join(map(str, segments)))
    assert done.exit_code == 0, done.stderr
    return printed_batches(done.stdout)


@pytest.fixture(scope="module", params=["none", "zstd"])
def played(
    request: pytest.FixtureRequest, java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The codec of the offsets topic, and a copy of the broker's folder after the scene; the broker is run from the
    jars."""
    codec = request.param
    folder = tmp_path_factory.mktemp("broker") / "data"
    properties = SETTINGS | {"offsets.topic.compression.codec": CODECS[codec]}
    with KafkaCluster(properties=properties) as kafka:
        scene = LogScene(kafka.bootstrap)
        scene.play()
        scene.produce_every_codec()
        scene.close()
        shutil.copytree(kafka.brokers[0].data_dir, folder, ignore=shutil.ignore_patterns("__cluster_metadata-0"))
    yield codec, folder
    shutil.rmtree(folder)


def test_the_groups_of_a_broker_are_told_as_kafka_tells_them(played: tuple[str, Path], java_tools: JavaTools) -> None:
    codec, folder = played
    segment = folder / "__consumer_offsets-0" / SEGMENT
    batches = ours(segment)
    assert batches == theirs(java_tools, segment)
    records = [record for batch in batches for record in batch["records"]]
    assert {int(record["key"]["type"]) for record in records if record.get("value")} == WRITTEN_BY_KAFKA
    assert {record["marker"]["type"] for record in records if "marker" in record} == {"COMMIT", "ABORT"}
    assert any(record["value"] is None for record in records if "key" in record)
    assert codec in {batch["compresscodec"] for batch in batches}


def test_the_records_of_a_topic_are_told_as_kafka_tells_them(played: tuple[str, Path], java_tools: JavaTools) -> None:
    _, folder = played
    segments = sorted(folder.joinpath("orders-0").glob("*.log"))
    batches = ours(folder / "orders-0")
    assert batches == theirs(java_tools, *segments, decoder="--print-data-log")
    assert {batch["compresscodec"] for batch in batches} == set(CODECS)
    assert len(segments) > 1, "the old timestamps make the broker roll"


def test_every_segment_of_a_broker_is_read_to_its_end(played: tuple[str, Path]) -> None:
    _, folder = played
    done = CliRunner().invoke(cli, ["log", "dump", "-o", "jsonl", str(folder)])
    assert (done.exit_code, done.stderr) == (0, "")
    topics = {Path(json.loads(line)["file"]).parent.name.rpartition("-")[0] for line in done.stdout.splitlines()}
    assert topics == {"__consumer_offsets", "__share_group_state", "__transaction_state", "orders"}


def test_a_torn_end_is_found_where_kafka_finds_it(tmp_path: Path, java_tools: JavaTools) -> None:
    segment = tmp_path / SEGMENT
    batch = write_batch([Record(timestamp=0, key=b"k", value=b"v")])
    segment.write_bytes(batch + batch[:-10])
    done = CliRunner().invoke(cli, ["log", "dump", "-o", "json", str(segment)])
    assert done.exit_code == 1
    (described,) = json.loads(done.stdout)["segments"]
    assert dumped_batches({"segments": [described]}) == theirs(java_tools, segment, decoder="--print-data-log")
    printed = java_tools.run("dump-log", "--files", segment).stdout
    assert f"Found {len(batch) - 10} invalid bytes at the end" in printed
    assert described["problems"][0]["position"] == segment.stat().st_size - (len(batch) - 10)


@pytest.mark.parametrize("name", ["plain", "lz4"])
def test_kafka_reads_what_a_compaction_leaves(name: str, tmp_path: Path, java_tools: JavaTools) -> None:
    original = FOLDER / name / GOLDEN
    segments = [tmp_path / f"__consumer_offsets-{number}" / SEGMENT for number in range(2)]
    now = 1_900_000_000_000
    content = original.read_bytes()
    for segment, time in zip(segments, (now, now + 5_000), strict=True):
        content = compacted(content, now_ms=time, delete_retention_ms=5_000)
        segment.parent.mkdir()
        segment.write_bytes(content)
    first, second = (ours(segment) for segment in segments)
    assert first + second == theirs(java_tools, *segments)
    assert now + 5_000 in {batch["deleteHorizonMs"] for batch in first}
    assert records_in(ours(original)) > records_in(first) > records_in(second) > 0
    deleted = [record for batch in second for record in batch["records"] if "key" in record and record["value"] is None]
    assert not deleted


def records_in(batches: list[Batch]) -> int:
    return sum(len(batch["records"]) for batch in batches)


def test_kafka_reads_every_version_of_every_record_that_we_write(tmp_path: Path, java_tools: JavaTools) -> None:
    """This covers versions that its broker no longer writes, with random values from one seed."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    segment = folder / SEGMENT
    written: list[Record] = []
    for number, record_type in RECORD_TYPES.items():
        for version in record_type.value.versions:
            for key, value in _samples(number, version):
                key_bytes, value_bytes = write_key(number, key), write_value(number, value, version=version)
                written.append(Record(timestamp=version, key=key_bytes, value=value_bytes))
    segment.write_bytes(write_batch(written))
    batches = ours(segment)
    assert batches == theirs(java_tools, segment)
    assert len(batches[0]["records"]) == len(written)
    assert all("data" in record["value"] for record in batches[0]["records"])


def _samples(number: int, version: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns some keys and values of this version: empty ones, and random ones."""
    record_type = RECORD_TYPES[number]
    found: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {})]

    @seed(number * 10 + version)
    @settings(max_examples=40, database=None)
    @given(values_of(record_type.key, 0), values_of(record_type.value, version))
    def collect(key: dict[str, Any], value: dict[str, Any]) -> None:
        found.append((key, value))

    collect()
    return found
