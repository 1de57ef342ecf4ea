"""Renders the tables of the page, and the figures at its head."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kcoord.admin.formatting import format_count
from kcoord.markup import Child, Markup, el
from kcoord.pipeline.report.model import Bounded

Kind = Literal["text", "name", "number", "time"]

_CLASSES: Final[dict[Kind, str | None]] = {"text": None, "name": "name", "number": "n", "time": "t"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an HTML table: its head, and the kind of its cells, which decides their alignment."""

    label: str
    kind: Kind = "text"


def table(columns: Sequence[Column], rows: Iterable[Sequence[Child]], *, caption: Child = None) -> Markup:
    """Renders an HTML table of these rows, which scrolls by itself where the screen is narrower."""
    heads = [el("th", column.label, class_=_head_class(column), scope="col") for column in columns]
    body = [el("tr", *map(_cell, columns, cells)) for cells in rows]
    # The caption is in a span, which stays in sight while the table is scrolled.
    caption_element = el("caption", el("span", caption)) if caption else None
    # With tabindex the keyboard reaches the scrollable box, too.
    return el(
        "div",
        el("table", caption_element, el("thead", el("tr", *heads)), el("tbody", *body)),
        class_="scroll",
        tabindex="0",
    )


def figures(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Renders the key figures at the head of a page, as pairs of a name and a value."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in pairs))


def truncation_note(some: Bounded[object], thing: str, *, which: str) -> str | None:
    """Returns a sentence that says how many rows are shown of how many, or None if all are. `which` says which ones."""
    if not some.omitted:
        return None
    return f"Shown: {len(some.rows):,} of {format_count(some.total, thing)}, {which}."


def _head_class(column: Column) -> str | None:
    return "n" if column.kind == "number" else None


def _cell(column: Column, cell: Child) -> Markup:
    return el("td", cell, class_=_CLASSES[column.kind])
