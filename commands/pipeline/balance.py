"""Record counts of a job as tables: what was read, decoded, rejected and skipped adds up."""

from typing import TYPE_CHECKING, Final

import click

from ..output.output import Column, Table
from .progress import size_text

if TYPE_CHECKING:
    from kcoord.pipeline.decode_job import NotRead, Summary

_REASONS: Final = {
    "control": "markers of transactions",
    "aborted": "of aborted transactions",
    "open": "of open transactions",
    "plain": "of other topics",
    "left_out": "not asked for",
}


def balance_table(summary: "Summary") -> Table:
    """Returns the table of a job's record counts; the records that were read are the sum of the rows below."""
    lines = [
        ("records read", summary.records),
        ("rows of groups", summary.decoded),
        ("rejected", summary.rejected),
        *((_REASONS[name], count) for name, count in summary.skipped.items() if count),
    ]
    return Table(columns=[Column("OF THE RECORDS"), Column("COUNT")], rows=lines)


def balance_tables(summary: "Summary") -> list[Table]:
    """Returns the table of a job's record counts, and one of what could not be read if there is any."""
    lines = [
        ("batches", summary.not_read.batches),
        ("ends of segments", summary.not_read.segments),
        ("bytes of both", summary.not_read.size),
        ("records in the batches, by their headers", summary.not_read.records),
        ("gaps: deleted before they were read", summary.not_read.gaps),
    ]
    shown = [line for line in lines if line[1]]
    lost = [Table(columns=[Column("NOT READ"), Column("COUNT")], rows=shown)] if shown else []
    return [balance_table(summary), *lost]


def not_read_document(summary: "Summary") -> dict[str, int]:
    """Returns the JSON object of what a job could not read: batches, ends of segments, bytes, records and gaps."""
    lost = summary.not_read
    return {
        "batches": lost.batches,
        "segments": lost.segments,
        "bytes": lost.size,
        "records": lost.records,
        "gaps": lost.gaps,
    }


def not_read_line(not_read: "NotRead") -> str:
    """Formats how much a job could not read: 2 batches and 1 end of a segment, 1.2 MB."""
    parts = [
        *([f"{not_read.batches:,} batch{'es' if not_read.batches != 1 else ''}"] if not_read.batches else []),
        *([_ends(not_read.segments)] if not_read.segments else []),
    ]
    return f"{' and '.join(parts)}, {size_text(not_read.size)}, could not be read"


def check_balance(summary: "Summary", out: str) -> None:
    """Raises ClickException if the record counts of a job do not add up, or if some input could not be read."""
    if not summary.is_balanced:
        raise click.ClickException(f"{out}: records are missing: the tables and what was read do not add up")
    if summary.not_read.is_damage:
        raise click.ClickException(f"{not_read_line(summary.not_read)}: {out}/rejected tells where and why")


def _ends(count: int) -> str:
    return f"{count:,} ends of segments" if count != 1 else "1 end of a segment"
