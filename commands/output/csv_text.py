"""Tables as CSV (RFC 4180): one line for each row, with every column."""

import csv
import re
from io import StringIO
from typing import Any

from .printable import printable
from .tables import Cell, Table, Value


def csv_text(table: Table, *, headers: bool = True) -> str:
    """Formats a table as CSV, with all its columns."""
    text = StringIO()
    writer = csv.writer(text)
    if headers:
        writer.writerow([header(column.name) for column in table.columns])
    writer.writerows([_field(value) for value in row] for row in table.rows)
    return text.getvalue()


def header(name: str) -> str:
    """Converts the name of a table's column to a CSV header: CURRENT-OFFSET becomes current_offset."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def _field(value: Value) -> Any:
    if isinstance(value, Cell):
        value = value.text if value.raw is None else value.raw
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(value) if isinstance(value, str) else value
