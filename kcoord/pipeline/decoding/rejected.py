"""The rows of `rejected`: what could not be decoded."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from kcoord.pipeline.decoding.records import NO_TIME, Records, Source, source_facts, source_row
from kcoord.pipeline.decoding.scan import Problem
from kcoord.pipeline.schemas import REJECTED, TABLES

Rejection = dict[str, Any]
"""A row of `rejected`."""

_SCHEMA: Final = TABLES[REJECTED].schema


def rejected_record(records: Records, row: int, reason: str) -> Rejection:
    """Returns the row of the table `rejected` for the record in this row, which cannot be decoded for this reason."""
    return {
        "reason": reason,
        "what": "record",
        "records": 1,
        "claimed": None,
        "bytes": None,
        "key": records.key(row),
        "value": records.value(row),
        "position": None if records.positions is None else int(records.positions[row]),
        **source_row(records, row),
    }


def rejected_part(source: Source, problem: Problem) -> Rejection:
    """Returns the row of the table `rejected` for a batch that cannot be read, or for bytes that are no batch."""
    return {
        "reason": problem.reason,
        "what": "segment" if problem.base_offset is None else "batch",
        "records": problem.records,
        "claimed": problem.claimed,
        "bytes": problem.size,
        "key": None,
        "value": None,
        "position": problem.position if source.is_file else None,
        **source_facts(source, problem.base_offset, NO_TIME),
    }


def rejected_batch(rejections: Sequence[Rejection]) -> pa.RecordBatch:
    """Converts rows of the table `rejected` to an Arrow batch."""
    return pa.RecordBatch.from_pylist(rejections, _SCHEMA)
