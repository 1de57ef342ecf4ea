"""Decodes records of `__consumer_offsets` that another client has consumed, as keys and values.

Such a client has opened the batches and resolved the transactions itself. So less is known than of a log that is read
here (`fetched`, `decode`):

| for                                      | there is                                                              |
|------------------------------------------|-----------------------------------------------------------------------|
| a record of a committed transaction      | a row, but not that it was one: `transactional` is false              |
| aborted and control records              | nothing: they are not consumed, and `scanned` does not count them     |
| batches                                  | nothing: `scanned` has 0 of them, and as bytes those of keys, values  |
| the range that was asked for             | its first and last record: `scanned` is from the one to the other     |
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcoord.pipeline.decoding.decode import Rows, Tally, decode_records
from kcoord.pipeline.decoding.records import Source, records_of_messages
from kcoord.pipeline.decoding.row_filter import RowFilter, RowSelection
from kcoord.pipeline.decoding.segments import OFFSETS_TOPIC

CONSUMED_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value")
"""The columns of the input. Timestamps are in ms since 1970; keys and values are bytes, or null."""


def decode_consumed(batches: Iterable[pa.RecordBatch], wanted: RowSelection) -> Iterator[Rows]:
    """Decodes records of `__consumer_offsets` that another client has consumed, with the columns CONSUMED_COLUMNS, to
    rows of the tables; at the end it yields one row of `scanned` for each partition. `wanted` selects groups and times.
    The records of a partition must be in order."""
    logs: dict[int, _PartitionDecoder] = {}
    for batch in batches:
        for partition in pc.unique(batch["partition"]).to_pylist():
            log = logs.setdefault(partition, _PartitionDecoder(partition, RowFilter(wanted)))
            yield from log.decode(batch.filter(pc.equal(batch["partition"], partition)))
    for log in logs.values():
        yield from log.scanned()


@dataclass(slots=True)
class _PartitionDecoder:
    """Decodes the records of one partition as they come."""

    partition: int
    row_filter: RowFilter
    start: int | None = None
    end: int = 0
    tally: Tally = field(default_factory=Tally)

    def decode(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        offsets = batch["offset"].to_pylist()
        keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
        self.start = offsets[0] if self.start is None else self.start
        self.end = offsets[-1] + 1
        self.tally.counts["records"] += len(batch)
        self.tally.size += sum(len(each) for each in (*keys, *values) if each is not None)
        timestamps = batch["timestamp"].to_numpy().astype(np.int64)
        records = records_of_messages(self._source, keys, values, offsets=offsets, timestamps=timestamps.tolist())
        yield from self.row_filter.apply(self.tally.counted(decode_records(records)))

    def scanned(self) -> Iterator[Rows]:
        assert self.start is not None, "a log is there from its first record on"
        return self.row_filter.apply([self.tally.row(OFFSETS_TOPIC, self._source, self.start, self.end)])

    @property
    def _source(self) -> Source:
        return Source(partition=self.partition)
