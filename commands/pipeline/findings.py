"""Formatting of pipeline findings: durations, times, documents."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kcoord.admin.durations import format_duration
from kcoord.admin.times import utc_text

from ..output.output import Cell, Table


def duration_cell(milliseconds: int | None) -> Cell | None:
    """Formats a duration in milliseconds for people; the raw value is for CSV. None stays None."""
    return None if milliseconds is None else Cell(format_duration(milliseconds / 1000), raw=milliseconds)


def time_text(milliseconds: int | None) -> str | None:
    """Formats a time in ms since 1970 as ISO 8601 in UTC; None stays None."""
    return None if milliseconds is None else utc_text(milliseconds)


def or_none_note(table: Table) -> Table:
    """Returns the table, or for an empty one a title alone that ends with the word none."""
    return table if table.rows else Table(columns=(), rows=(), title=f"{table.title}: none")


def documents(rows: Sequence[Mapping[str, Any]], times: Collection[str]) -> list[dict[str, Any]]:
    """Converts rows of a table to JSON objects, with the named columns, in ms since 1970, formatted as times."""
    return [{name: time_text(value) if name in times else value for name, value in row.items()} for row in rows]
