"""Selects rows by group and time. Rows that are filtered out are counted, so that no record is lost unseen."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, SCANNED, TIME

_FILTERED_TABLES: Final = (COMMITS, GENERATIONS, GROUP_EVENTS)
"""The tables that are filtered. Log ends are not: those from before the first commit determine its lag. Rejected rows
have no group."""
FILTERED_OUT: Final = "left_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """Which rows of the decoded tables a job selects, by group and time; by default all. Times are those of the
    records, in milliseconds since 1970."""

    since_ms: int | None = None
    until_ms: int | None = None
    """The first time that is not wanted any more."""
    groups: tuple[str, ...] = ()
    """An empty tuple selects all groups."""

    @property
    def is_everything(self) -> bool:
        """Whether all rows are selected."""
        return self == RowSelection()

    def to_json(self) -> str:
        """Serializes the selection; `from_json` reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RowSelection":
        """Parses what `to_json` has serialized."""
        facts = json.loads(text)
        return cls(**{**facts, "groups": tuple(facts["groups"])})


def filter_rows(wanted: RowSelection, rows: Iterable[Rows]) -> Iterator[Rows]:
    """Yields the selected rows of one range of a log; its row of the table `scanned` counts those that were filtered
    out."""
    return RowFilter(wanted).apply(rows)


class RowFilter:
    """Filters the decoded rows of one range of a log by group and time, and counts those that are filtered out."""

    def __init__(self, wanted: RowSelection) -> None:
        self._wanted = wanted
        self._filtered_out = dict.fromkeys(_FILTERED_TABLES, 0)

    def apply(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        """Yields the selected rows; a row of the table `scanned` gets the counts of those that were filtered out."""
        if self._wanted.is_everything:
            yield from rows
            return
        for table, batch in rows:
            if table in self._filtered_out:
                selected = batch.filter(_is_wanted(self._wanted, batch))
                self._filtered_out[table] += len(batch) - len(selected)
                if len(selected):
                    yield table, selected
            elif table == SCANNED:
                yield table, _with_counts(self._filtered_out, batch)
            else:
                yield table, batch


def _is_wanted(wanted: RowSelection, batch: pa.RecordBatch) -> pa.Array:
    """Returns which rows are wanted. A row without a time is wanted only if no time is asked for."""
    conditions = []
    if wanted.groups:
        conditions.append(pc.is_in(batch["group"], pa.array(wanted.groups, pa.string())))
    if wanted.since_ms is not None:
        conditions.append(pc.greater_equal(batch["appended_at"], _timestamp(wanted.since_ms)))
    if wanted.until_ms is not None:
        conditions.append(pc.less(batch["appended_at"], _timestamp(wanted.until_ms)))
    found = conditions[0]
    for condition in conditions[1:]:
        found = pc.and_(found, condition)
    return pc.fill_null(found, False)


def _timestamp(milliseconds: int) -> pa.Scalar:
    return pa.scalar(milliseconds * 1000, pa.int64()).cast(TIME)


def _with_counts(filtered_out: dict[str, int], scanned: pa.RecordBatch) -> pa.RecordBatch:
    [row] = scanned.to_pylist()
    for table, count in filtered_out.items():
        row[table] -= count
        row[FILTERED_OUT] += count
    return pa.RecordBatch.from_pylist([row], scanned.schema)
