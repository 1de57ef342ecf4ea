"""Turns a range of a segment into rows of the tables: each task of a job calls this, and nothing else.

No content of a segment makes it fail: what cannot be decoded becomes a row of `rejected`. Only a file that cannot be
read at all raises OSError.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kcoord.pipeline.decoding.byte_columns import Flags
from kcoord.pipeline.decoding.commits import COMMIT_TYPES, decode_commits
from kcoord.pipeline.decoding.groups import decode_groups
from kcoord.pipeline.decoding.locate import BrokenBatch, LocatedRecords, locate_records
from kcoord.pipeline.decoding.records import Records, Source, dates, times
from kcoord.pipeline.decoding.rejected import Rejection, rejected_batch, rejected_part
from kcoord.pipeline.decoding.scan import (
    APPEND_TIME,
    CONTROL,
    TRANSACTIONAL,
    DecompressedBatches,
    Headers,
    Piece,
    Problem,
    batch_size,
    decompressed_parts,
    read_pieces,
)
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.pipeline.decoding.transactions import Outcome, Outcomes, Transactions
from kcoord.pipeline.schemas import COMMITS, LOG_ENDS, REJECTED, SCANNED, TABLES

Rows = tuple[str, pa.RecordBatch]
"""The name of a table, and rows of it."""

_TYPE_BYTES: Final = 2
_COUNTED: Final[list[str]] = TABLES[SCANNED].schema.names[6:]


def decode_range(segment_range: SegmentRange) -> Iterator[Rows]:
    """Decodes a range of a segment file to rows of the tables: yields batches of rows, each with the name of its table,
    and at the end its row of `scanned`."""
    segment = segment_range.segment
    source = Source(partition=segment.partition, segment=segment.base_offset)
    tally = Tally()
    transactions = Transactions(segment_range)
    for piece in read_pieces(segment_range):
        if isinstance(piece, Problem):
            yield from tally.counted([(REJECTED, rejected_batch([rejected_part(source, piece)]))])
        elif segment_range.holds_offsets:
            outcomes = transactions.outcomes(piece.headers, piece.at + piece.position)
            yield from tally.counted(decode_piece(piece, source, outcomes, tally))
        else:
            yield from log_ends(piece.headers, segment.topic, segment.partition, tally)
    tally.size = segment_range.end - segment_range.start
    yield tally.row(segment.topic, source, segment_range.start, segment_range.end)


def decode_piece(piece: Piece, source: Source, outcomes: Outcomes, tally: "Tally") -> Iterator[Rows]:
    """Decodes some batches of `__consumer_offsets` to rows of the tables, given how the transaction of each batch
    ended, and counts them in the tally."""
    headers = piece.headers
    tally.add_batches(headers)
    is_control = headers["attributes"] & CONTROL != 0
    for name, is_skipped in (
        ("control", is_control),
        ("aborted", outcomes == Outcome.ABORTED),
        ("open", outcomes == Outcome.OPEN),
    ):
        tally.counts[name] += int(_counts(headers[is_skipped]).sum())
    for part in decompressed_parts(piece, ~is_control & (outcomes == Outcome.COMMITTED)):
        if isinstance(part, Problem):
            yield REJECTED, rejected_batch([rejected_part(source, part)])
            continue
        located, broken = locate_records(
            part.buffer, part.starts, part.ends, part.headers["record_count"].astype(np.int64)
        )
        yield from decode_records(_records(part, located, source))
        if broken:
            yield REJECTED, rejected_batch([_rejected_rest(part, each, source) for each in broken])


def log_ends(headers: Headers, topic: str, partition: int, tally: "Tally") -> Iterator[Rows]:
    """Yields a row of the table `log_ends` for each batch of another topic, by its header alone, and counts them in the
    tally."""
    tally.add_batches(headers)
    tally.counts["plain"] += int(_counts(headers).sum())
    base_offsets = headers["base_offset"].astype(np.int64)
    last_at = headers["max_timestamp"].astype(np.int64)
    count = len(headers)
    columns = [
        pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(base_offsets),
        pa.array(base_offsets + headers["last_offset_delta"] + 1),
        times(last_at),
        dates(last_at),
    ]
    yield LOG_ENDS, pa.RecordBatch.from_arrays(columns, schema=TABLES[LOG_ENDS].schema)


def decode_records(records: Records) -> Iterator[Rows]:
    """Decodes records of `__consumer_offsets` to rows of the tables: yields batches of rows, each with the name of its
    table."""
    has_type = records.has_key & (records.key_ends - records.key_starts >= _TYPE_BYTES)
    numbers = records.buffer.numbers("h", records.key_starts)
    is_commit = has_type & np.isin(numbers, [each.number for each in COMMIT_TYPES])
    commits, rejections = decode_commits(records.take(np.flatnonzero(is_commit)))
    if len(commits):
        yield COMMITS, commits
    groups = decode_groups(records, np.flatnonzero(~is_commit))
    yield from groups.batches().items()
    if rejected := [*rejections, *groups.rejections]:
        yield REJECTED, rejected_batch(rejected)


@dataclass(slots=True)
class Tally:
    """The counts of a range that become its row of the table `scanned`: how many bytes, batches and records were read,
    and how many records became rows, were rejected or were skipped."""

    size: int = 0
    """How many bytes were read."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    def add_batches(self, headers: Headers) -> None:
        """Counts these batches, and the records that their headers claim."""
        self.counts["batches"] += len(headers)
        self.counts["records"] += int(_counts(headers).sum())

    def counted(self, rows: Any) -> Iterator[Rows]:
        """Passes rows of the tables through and counts them."""
        for table, batch in rows:
            self.counts[table] += int(sum(batch["records"].to_pylist())) if table == REJECTED else len(batch)
            yield table, batch

    def row(self, topic: str, source: Source, start: int, end: int) -> Rows:
        """Returns the range's row of the table `scanned`."""
        facts = {
            "topic": topic,
            "partition": source.partition,
            "source_segment": source.segment,
            "start": start,
            "end": end,
            "bytes": self.size,
            **self.counts,
        }
        return SCANNED, pa.RecordBatch.from_pylist([facts], TABLES[SCANNED].schema)


def _records(part: DecompressedBatches, located: LocatedRecords, source: Source) -> Records:
    of = located.batches
    headers = part.headers
    base_timestamps = headers["base_timestamp"].astype(np.int64)
    timestamps = base_timestamps[of] + located.timestamp_deltas
    is_appended = _has(headers, APPEND_TIME)
    if is_appended.any():
        timestamps = np.where(is_appended[of], headers["max_timestamp"].astype(np.int64)[of], timestamps)
    return Records(
        source=source,
        buffer=part.buffer,
        offsets=headers["base_offset"].astype(np.int64)[of] + located.offset_deltas,
        timestamps=timestamps,
        key_starts=located.key_starts,
        key_ends=located.key_ends,
        has_key=located.has_key,
        value_starts=located.value_starts,
        value_ends=located.value_ends,
        has_value=located.has_value,
        is_transactional=_has(headers, TRANSACTIONAL)[of],
        positions=part.positions[of] if source.is_file else None,
    )


def _has(headers: Headers, flag: int) -> Flags:
    flags: Flags = headers["attributes"] & flag != 0
    return flags


def _counts(headers: Headers) -> Any:
    return np.maximum(headers["record_count"].astype(np.int64), 0)


def _rejected_rest(part: DecompressedBatches, broken: BrokenBatch, source: Source) -> Rejection:
    header = part.headers[broken.batch]
    return rejected_part(
        source,
        Problem(
            position=int(part.positions[broken.batch]),
            reason=broken.reason,
            base_offset=int(header["base_offset"]),
            records=max(0, int(header["record_count"])) - broken.records_read,
            size=batch_size(header),
        ),
    )
