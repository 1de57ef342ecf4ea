"""The records to decode: their bytes in a buffer, and where they come from, as columns.

They come out of segments (`decode`), or from another client as keys and values (`consumed_messages`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kcoord.pipeline.decoding.byte_columns import ByteBuffer, Flags, Integers, Positions
from kcoord.pipeline.schemas import TIME

NO_TIME: Final = -1
_FIRST_MS: Final = -62_135_596_800_000  # the year 1
_LAST_MS: Final = 253_402_300_799_999  # the end of 9999
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The log that decoded records come from: a partition of `__consumer_offsets`, and the base offset of the segment
    file, None if they came over the network."""

    partition: int
    segment: int | None = None

    @property
    def is_file(self) -> bool:
        """Whether the records come from a segment file, and so have positions in it; those that came over the network
        have none."""
        return self.segment is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records that are to be decoded, as columns with a row for each record, in the order of the log: where its key and
    value lie in the buffer, its offset, and its timestamp in milliseconds since 1970. A null key or value has an empty
    span."""

    source: Source
    buffer: ByteBuffer
    offsets: Integers
    timestamps: Integers
    key_starts: Positions
    key_ends: Positions
    has_key: Flags
    value_starts: Positions
    value_ends: Positions
    has_value: Flags
    is_transactional: Flags
    positions: Positions | None = None
    """Where in the file the batch of each record begins."""

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, row: int) -> bytes | None:
        """Returns the bytes of the key of the record in this row; None if it is null."""
        return self.buffer.bytes_at(self.key_starts[row], self.key_ends[row]) if self.has_key[row] else None

    def value(self, row: int) -> bytes | None:
        """Returns the bytes of the value of the record in this row; None if it is null."""
        return self.buffer.bytes_at(self.value_starts[row], self.value_ends[row]) if self.has_value[row] else None

    def take(self, rows: Integers) -> "Records":
        """Returns the records in these rows, in their order; taking all rows copies nothing."""
        if len(rows) == len(self):
            return self
        return Records(
            source=self.source,
            buffer=self.buffer,
            positions=None if self.positions is None else self.positions[rows],
            **{name: getattr(self, name)[rows] for name in _COLUMNS},
        )


_COLUMNS: Final = (
    *("offsets", "timestamps", "key_starts", "key_ends", "has_key", "value_starts", "value_ends", "has_value"),
    "is_transactional",
)


def records_of_messages(
    source: Source,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    *,
    offsets: Sequence[int],
    timestamps: Sequence[int],
) -> Records:
    """Makes records of the keys and values that another client has consumed: all are of committed transactions, and
    which ones is unknown."""
    buffer = ByteBuffer.of(*(part or b"" for pair in zip(keys, values, strict=True) for part in pair))
    sizes = np.array([len(part or b"") for pair in zip(keys, values, strict=True) for part in pair], np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    return Records(
        source=source,
        buffer=buffer,
        offsets=np.array(offsets, np.int64),
        timestamps=np.array(timestamps, np.int64),
        key_starts=starts[0::2],
        key_ends=ends[0::2],
        has_key=np.array([key is not None for key in keys], np.bool_),
        value_starts=starts[1::2],
        value_ends=ends[1::2],
        has_value=np.array([value is not None for value in values], np.bool_),
        is_transactional=np.zeros(len(keys), np.bool_),
    )


def source_columns(records: Records) -> list[pa.Array]:
    """Returns the last columns of all decoded tables (partition, segment, offset, time and date) for these records."""
    count = len(records)
    segment = pa.scalar(records.source.segment, pa.int64())
    return [
        pa.repeat(pa.scalar(records.source.partition, pa.int32()), count),
        pa.repeat(segment, count) if records.source.segment is not None else pa.nulls(count, pa.int64()),
        pa.array(records.offsets),
        times(records.timestamps),
        dates(records.timestamps),
    ]


def source_row(records: Records, row: int) -> dict[str, Any]:
    """Returns the last columns of all decoded tables (partition, segment, offset, time and date) for the record in this
    row."""
    return source_facts(records.source, int(records.offsets[row]), int(records.timestamps[row]))


def source_facts(source: Source, offset: int | None, timestamp: int) -> dict[str, Any]:
    """Returns the last columns of all decoded tables (partition, segment, offset, time and date) for an offset and a
    timestamp."""
    is_known = bool(_is_known(np.array(timestamp)))
    return {
        "source_partition": source.partition,
        "source_segment": source.segment,
        "source_offset": offset,
        "appended_at": time_of(timestamp),
        "date": timestamp // _DAY_MS if is_known else None,
    }


def time_of(milliseconds: int) -> int | None:
    """Converts milliseconds since 1970 to microseconds; None if the time is unknown (-1) or in no calendar."""
    return milliseconds * 1000 if bool(_is_known(np.array(milliseconds))) else None


def times(milliseconds: Integers) -> pa.Array:
    """Converts milliseconds since 1970 to an Arrow column of times; null if unknown (-1) or in no calendar."""
    is_known = _is_known(milliseconds)
    if is_known.all():
        return pa.array(milliseconds * 1000).view(TIME)
    return pa.array(np.where(is_known, milliseconds, 0) * 1000, mask=~is_known).view(TIME)


def dates(milliseconds: Integers) -> pa.Array:
    """Converts milliseconds since 1970 to an Arrow column of dates; null if unknown (-1) or in no calendar."""
    is_known = _is_known(milliseconds)
    days = np.floor_divide(np.where(is_known, milliseconds, 0), _DAY_MS).astype(np.int32)
    return pa.array(days, mask=None if is_known.all() else ~is_known).view(pa.date32())


def _is_known(milliseconds: Integers) -> Flags:
    is_known: Flags = (milliseconds >= _FIRST_MS) & (milliseconds <= _LAST_MS) & (milliseconds != NO_TIME)
    return is_known
