"""How fast commits become rows, in one process and without Spark: python -m tests.bench.decode [RECORDS]

Segments of synthetic commits, as kcoord's own journal writes them: many groups, several topics each, names of many
lengths, value version 4 with a topic id, one in twenty with metadata, one in a hundred a tombstone. They are read

| way        | what is done                                                                                       |
|------------|----------------------------------------------------------------------------------------------------|
| scan       | the file is read, batches found, checksums checked; records are not read                            |
| locate     | as scan, and batches decompressed, and keys and values located                                      |
| decode     | all of it: `decode_range`, to Arrow                                                                 |
| naive      | a loop over records: protocol.records.record, offsets_log.record_codec, lists, to Arrow (of a part)  |

What is shown is thousands of records per second of processor time, the best of some rounds: other work on the machine
then matters less. `decode` grows with cores as processes do: nothing is shared.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from kcoord.groups.records import OffsetDeleted, OffsetsStored
from kcoord.groups.records import Record as Fact
from kcoord.offsets_log.encoding import key_values
from kcoord.offsets_log.record_codec import read_key, read_value
from kcoord.pipeline.decoding.decode import decode_range
from kcoord.pipeline.decoding.locate import locate_records
from kcoord.pipeline.decoding.scan import DecompressedBatches, Piece, decompressed_parts, read_pieces
from kcoord.pipeline.decoding.segments import SegmentRange, find_segments, plan_ranges
from kcoord.pipeline.schemas import COMMITS, TABLES
from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, read_records, write_batch
from tests.bench.support.machine import machine, table

RECORDS = 1_000_000
ROUNDS = 3
GROUPS, TOPICS, PARTITIONS = 2_000, 4, 12
NAIVE_ROWS = 10_000  # that become Arrow at once
PATTERN = 20_000  # records that are made one by one; the rest repeats their batches at other offsets
AT_MS = 1_790_000_000_000
ENOUGH = 1.3  # million rows a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    batch: int
    codec: Codec = Codec.NONE


SHAPES = [
    Shape(name="batches of 500", batch=500),
    Shape(name="batches of 50", batch=50),
    Shape(name="batches of 3", batch=3),
    Shape(name="batches of 1", batch=1),
    Shape(name="of 500, lz4", batch=500, codec=Codec.LZ4),
    Shape(name="of 500, zstd", batch=500, codec=Codec.ZSTD),
    Shape(name="of 500, snappy", batch=500, codec=Codec.SNAPPY),
    Shape(name="of 500, gzip", batch=500, codec=Codec.GZIP),
]


def main(records: int = RECORDS) -> None:
    print(f"decoding {records:,} commits: thousands a second, the best of {ROUNDS} rounds\n{machine()}\n")
    rows = [["", "MB", "scan", "locate", "decode", "naive", "decode is"]]
    fastest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            ranges = segment_of(shape, records, Path(folder) / shape.name.replace(" ", "-"))
            scan, located, decoded = (rate(way, ranges, records) for way in (_scan, _locate, _decode))
            naive = rate(_naive, ranges, records // 20)
            size = sum(each.end - each.start for each in ranges) / 1e6
            rows.append([shape.name, f"{size:.0f}", *map(_thousands, (scan, located, decoded, naive))])
            rows[-1].append(f"{decoded / naive:.1f} x naive")
            fastest = max(fastest, decoded if shape.codec is Codec.NONE else 0)
    print(table(rows), "\n")
    print(f"wanted: {ENOUGH} million a second, uncompressed: {fastest / 1e6:.2f}, {_verdict(fastest)}\n")


def _verdict(fastest: float) -> str:
    return "reached" if fastest >= ENOUGH * 1e6 else "not reached"


def _thousands(rate_: float) -> str:
    return f"{rate_ / 1e3:,.0f}"


def segment_of(shape: Shape, records: int, folder: Path) -> list[SegmentRange]:
    """Writes a segment of so many commits and returns its ranges."""
    path = folder / "__consumer_offsets-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    made = list(islice(commits(random.Random(7)), PATTERN))
    batches = [
        bytearray(write_batch(made[start : start + shape.batch], codec=shape.codec))
        for start in range(0, len(made), shape.batch)
    ]
    offset = 0
    with path.open("wb") as file:
        while offset < records:
            for start, batch in zip(range(0, len(made), shape.batch), batches, strict=True):
                if offset >= records:
                    break
                batch[:8] = offset.to_bytes(8, "big")  # outside the checksum
                file.write(batch)
                offset += min(shape.batch, len(made) - start)
    return plan_ranges(find_segments(folder))


def commits(chance: random.Random) -> Iterator[Record]:
    """Yields commits of groups, each of all partitions of a topic at once."""
    groups = [f"group-{chance.randrange(10 ** chance.randrange(1, 12))}" for _ in range(GROUPS)]
    topics = [(f"orders.{'x' * chance.randrange(20)}.{index}", UUID(int=index + 1)) for index in range(TOPICS * 10)]
    moment = AT_MS
    while True:
        moment += chance.randrange(3)
        group, (topic, topic_id) = chance.choice(groups), chance.choice(topics)
        for partition in range(PARTITIONS):
            fact = _fact(chance, group, topic, topic_id, partition, moment)
            for key, value in key_values(fact):
                yield Record(timestamp=moment, key=key, value=value)


def _fact(chance: random.Random, group: str, topic: str, topic_id: UUID, partition: int, moment: int) -> Fact:
    if chance.random() < 0.01:
        return OffsetDeleted(group_id=group, topic=topic, partition=partition)
    metadata = "checkpoint " * chance.randrange(4) if chance.random() < 0.05 else ""
    offset = chance.randrange(10**10)
    return OffsetsStored(group, topic, (partition,), (offset,), (5,), (metadata,), moment, None, topic_id)


def rate(way: Callable[[list[SegmentRange], int], int], ranges: list[SegmentRange], records: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        found = way(ranges, records)
        best = min(best, time.process_time() - start)
        assert found >= records, (way, found)
    return found / best


def naive_rate(ranges: list[SegmentRange], records: int) -> float:
    return rate(_naive, ranges, records)


def _scan(ranges: list[SegmentRange], records: int) -> int:
    return sum(int(piece.headers["record_count"].sum()) for piece in _pieces(ranges))


def _locate(ranges: list[SegmentRange], records: int) -> int:
    found = 0
    for piece in _pieces(ranges):
        for part in decompressed_parts(piece, np.ones(len(piece.headers), np.bool_)):
            assert isinstance(part, DecompressedBatches)
            counts = part.headers["record_count"].astype(np.int64)
            found += len(locate_records(part.buffer, part.starts, part.ends, counts)[0])
    return found


def _pieces(ranges: list[SegmentRange]) -> Iterator[Piece]:
    for each in ranges:
        for piece in read_pieces(each):
            assert isinstance(piece, Piece)
            yield piece


def _decode(ranges: list[SegmentRange], records: int) -> int:
    return sum(len(batch) for each in ranges for name, batch in decode_range(each) if name == COMMITS)


def _naive(ranges: list[SegmentRange], records: int) -> int:
    found = 0
    for each in ranges:
        with each.segment.path.open("rb") as file:
            content = file.read(4 * (each.end - each.start) // 30)  # more than a twentieth
        rows = (_naive_row(record) for batch in split_batches(content) for record in read_records(batch))
        while some := list(islice(rows, NAIVE_ROWS)):
            columns = [
                pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), _NAIVE_TYPES, strict=True)
            ]
            found += len(pa.RecordBatch.from_arrays(columns, names=_NAIVE_COLUMNS))
            if found >= records:
                return found
    return found


_NAIVE_COLUMNS = [
    *("group", "topic", "partition", "offset", "epoch", "metadata", "committed_at", "tombstone", "topic_id"),
    *("source_partition", "source_segment", "source_offset", "appended_at"),
]
_NAIVE_TYPES = [TABLES[COMMITS].schema.field(name).type for name in _NAIVE_COLUMNS]


def _naive_row(record: Record) -> tuple[Any, ...]:
    assert record.key is not None
    number, key = read_key(record.key)
    names = (key["group"], key["topic"], key["partition"])
    source = (0, 0, record.offset, record.timestamp * 1000)
    if record.value is None:
        return (*names, None, None, None, None, True, None, *source)
    value = read_value(number, record.value)[1]
    facts = (value["offset"], value["leaderEpoch"], value["metadata"], value["commitTimestamp"] * 1000)
    return (*names, *facts, False, str(value["topicId"]), *source)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
