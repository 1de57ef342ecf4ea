"""Tables as text, with columns as narrow as their values, for terminals of any width and for pipes.

Tens of thousands of rows are common, so each column is examined as a whole: whether it is ASCII, how wide it is,
whether anything must be escaped, whether all its values are equal. Then each row is formatted by one `%` of the columns
that differ. Only rows that do not fit are folded, cell by cell.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat, zip_longest
from typing import Final, Literal, NamedTuple, overload

from .printable import printable, width
from .wrapping import fill, fill_facts, fold, longest_word

GAP: Final = "  "
COMFORTABLE_WIDTH: Final = 16
"""Text columns are not folded to less, so that states, types and addresses are never broken."""
TIGHT_WIDTHS: Final = (8, 4)
"""If that does not fit, text columns are folded to no less than the first width; on small screens, than the second."""
MAX_WHOLE_WORD: Final = 24
"""The longest word that is kept whole while other columns can be folded: ids of 22 characters, and most names."""
_HEADER_WORDS: Final = re.compile(r"[^ _-]*[ _-]?")

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Cell(NamedTuple):
    """A value of a table with its own style, such as "bold red". CSV shows `raw` instead of the text, if it is set."""

    text: str
    style: str = ""
    raw: str | int | float | None = None


Value = str | int | float | Cell | None


class Column(NamedTuple):
    """A column of a table: its header, and when it is shown. Numbers are aligned right by default; `wide` columns are
    shown by -o wide and CSV only.

    `spare` columns are left out, the last first, if text would have to be broken otherwise; -o wide always shows them.
    """

    name: str
    align: Literal["left", "right"] | None = None
    wide: bool = False
    spare: bool = False


class ByColumn(Sequence[Sequence[Value]]):
    """The rows of a table, stored as columns of equal length, the form in which a table is laid out."""

    def __init__(self, *columns: Sequence[Value]) -> None:
        self.columns = columns

    @overload
    def __getitem__(self, index: int) -> Sequence[Value]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Value]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[Value] | Sequence[Sequence[Value]]:
        return list(self)[index]

    def __iter__(self) -> Iterator[Sequence[Value]]:
        return zip(*self.columns, strict=True)

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table to print: columns, rows of values and a title."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The properties of the terminal or pipe that tables are formatted for. Without a width (in cells) nothing is
    folded.

    A table that is too wide for comfortable columns is folded further if `tight`, without spare columns; otherwise its
    lines stay as they are, and the terminal wraps them.
    """

    width: int | None = None
    wide: bool = False
    tight: bool = True
    headers: bool = True
    colored: bool = False


def render(table: Table, screen: Screen) -> str:
    """Formats a table as text: lines without trailing blanks, each with its line break."""
    (text,) = render_all([table], screen)
    return text


def render_all(tables: Sequence[Table], screen: Screen) -> list[str]:
    """Formats each table as text, as `render` does. Tables with identical columns are aligned with each other, if that
    fits the screen."""
    indexes_by_columns: dict[int, list[int]] = {}
    for index, table in enumerate(tables):
        indexes_by_columns.setdefault(id(table.columns), []).append(index)
    texts = [""] * len(tables)
    for indexes in indexes_by_columns.values():
        for index, text in zip(
            indexes, _render_same_columns([tables[index] for index in indexes], screen), strict=True
        ):
            texts[index] = text
    return texts


def _render_same_columns(tables: Sequence[Table], screen: Screen) -> Iterable[str]:
    by_column = _by_column([table.rows for table in tables]) or [()] * len(tables[0].columns)
    columns = [
        _LaidOutColumn(column, values, screen)
        for column, values in zip(tables[0].columns, by_column, strict=True)
        if screen.wide or not column.wide
    ]
    if len(tables) > 1 and not _fits(columns, screen.width):
        yield from (render(table, screen) for table in tables)
        return
    columns = _fit_columns(columns, screen)
    header = [paint(line, "bold", screen.colored) for line in _header(columns)] if screen.headers else []
    lines = iter(_rows(columns, sum(len(table.rows) for table in tables)))
    for table in tables:
        title = _title(table.title, screen.width) if screen.headers else ()
        titles = [paint(line, "bold", screen.colored) for line in title]
        of_table = (*titles, *header, *islice(lines, len(table.rows)))
        yield "\n".join((*of_table, "")) if of_table else ""


def _by_column(tables: Sequence[Sequence[Sequence[Value]]]) -> list[Sequence[Value]]:
    """Concatenates the rows of all tables by column; returns an empty list if there are no rows."""
    columnar = [rows.columns for rows in tables if isinstance(rows, ByColumn)]
    if len(columnar) == len(tables):
        return [list(chain.from_iterable(parts)) for parts in zip(*columnar, strict=True)]
    return list(zip(*chain.from_iterable(tables), strict=True))


def paint(text: str, style: str, colored: bool) -> str:
    """Adds the escape codes of a style such as "bold red" to a text, if it is to be colored."""
    if not (colored and style):
        return text
    return f"\x1b[{';'.join(_STYLES[word] for word in style.split())}m{text}\x1b[0m"


def text_of(value: Value) -> str:
    """Formats a value of a table for people, not escaped yet: None is a dash."""
    match value:
        case None:
            return "-"
        case Cell():
            return value.text
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case _:
            return str(value)


class _LaidOutColumn:
    """A column's layout: its texts and styles, the width of each text, and the width of the column."""

    def __init__(self, column: Column, values: Sequence[Value], screen: Screen) -> None:
        kinds = set(map(type, values))
        self.is_spare = column.spare
        self.is_same = _are_same(values, kinds)
        """Whether all rows have the same value; then only the first is stored."""
        self._values = values[:1] if self.is_same else values
        self._is_whole_numbers = kinds == {int}
        self.is_ascii = self._is_whole_numbers or "".join(self.texts).isascii()
        self.widest = self._widest()
        self.styles = _styles(self._values) if screen.colored and Cell in kinds else None
        is_numeric = bool(kinds & {int, float}) and kinds <= {int, float, type(None)}
        self.is_right = column.align == "right" or (column.align is None and is_numeric)
        self.header = [word for word in _HEADER_WORDS.findall(column.name) if word] if screen.headers else []
        self.width = max(self.widest, width("".join(self.header)))

    @cached_property
    def texts(self) -> list[str]:
        return _texts(self._values)

    @cached_property
    def widths(self) -> list[int]:
        return list(map(len if self.is_ascii else width, self.texts))

    def narrowest(self, least: int) -> int:
        """Returns the smallest width of the column. Numbers are never folded, since half a number is another number;
        headers are folded between words."""
        values = self.widest if self.is_right else min(self.widest, least)
        return max([values, *(width(word.rstrip()) for word in self.header)])

    def narrowest_with_whole_words(self, least: int) -> int:
        """Returns the smallest width at which words stay whole, up to MAX_WHOLE_WORD."""
        is_never_broken = self.is_right or self.widest <= least
        return self.narrowest(least if is_never_broken else max(least, longest_word(self.texts, MAX_WHOLE_WORD)))

    @property
    def tight(self) -> int:
        """The width of its values and of its header, after the header is folded to the column's width."""
        return max([self.widest, *map(width, fill(self.header, self.width))])

    @property
    def is_plain(self) -> bool:
        """Whether `%` can pad the texts: it counts characters, not cells."""
        return self.is_ascii and self.styles is None

    @property
    def template(self) -> str:
        return f"%{'' if self.is_right else '-'}{self.width}s" if self.is_plain else "%s"

    @property
    def literal(self) -> str:
        """The text that all rows have in this column, escaped for the template."""
        return (self.template % tuple(self.padded())).replace("%", "%%")

    def padded(self) -> Sequence[Value]:
        """Returns the values for the template, which formats whole numbers itself."""
        if self.is_plain:
            return self._values if self._is_whole_numbers else self.texts
        texts = list(map(self.pad, self.texts, self.widths))
        return texts if self.styles is None else list(map(_painted, texts, self.styles))

    def too_wide(self, rows: int) -> Iterable[int]:
        """Returns the rows whose text is wider than the column."""
        if self.widest <= self.width:
            return ()
        return range(rows) if self.is_same else [row for row, wide in enumerate(self.widths) if wide > self.width]

    def folded(self, row: int) -> list[str]:
        """Returns the folded parts of one text, for the template."""
        index = 0 if self.is_same else row
        text = self.texts[index]
        parts = [text] if self.widths[index] <= self.width else fold(text, self.width)
        if self.is_plain:
            return parts
        padded = [self.pad(part, width(part)) for part in parts]
        return padded if self.styles is None else [_painted(part, self.styles[index]) for part in padded]

    def _widest(self) -> int:
        if self._is_whole_numbers:
            return max(len(str(number)) for number in (min(self._values), max(self._values)))  # type: ignore[type-var]
        return max(self.widths, default=0)

    def pad(self, text: str, text_width: int) -> str:
        blanks = " " * (self.width - text_width)
        return blanks + text if self.is_right else text + blanks


def _are_same(values: Sequence[Value], kinds: set[type]) -> bool:
    """Returns whether all values are equal and look equal: equal floats may be written in two forms."""
    is_likely = len(kinds) == 1 and float not in kinds and values[0] == values[-1]
    return is_likely and values.count(values[0]) == len(values)


def _texts(values: Sequence[Value]) -> list[str]:
    """Formats the values as printable texts."""
    texts = [value if type(value) is str else str(value) if type(value) is int else text_of(value) for value in values]
    return texts if "".join(texts).isprintable() else list(map(printable, texts))


def _styles(values: Sequence[Value]) -> list[str]:
    return [value.style if isinstance(value, Cell) else "" for value in values]


def _painted(text: str, style: str) -> str:
    return paint(text, style, colored=True)


def _fits(columns: Sequence[_LaidOutColumn], room: int | None) -> bool:
    return room is None or sum(column.width for column in columns) + len(GAP) * (len(columns) - 1) <= room


def _fit_columns(columns: list[_LaidOutColumn], screen: Screen) -> list[_LaidOutColumn]:
    """Chooses the columns that are shown, and narrows the widest until the lines fit. If they cannot fit, all are
    returned as they are."""
    if _fits(columns, screen.width) or _fold_into(columns, screen.width, COMFORTABLE_WIDTH) or not screen.tight:
        return columns
    shown = list(columns)
    for spare in [column for column in reversed(columns) if column.is_spare and not screen.wide]:
        shown.remove(spare)
        if _fits(shown, screen.width) or _fold_into(shown, screen.width, COMFORTABLE_WIDTH):
            return shown
    is_folded = any(_fold_into(shown, screen.width, least) for least in TIGHT_WIDTHS)
    return shown if is_folded else columns  # even the smallest columns would be too wide


def _fold_into(columns: Sequence[_LaidOutColumn], room: int | None, least: int) -> bool:
    """Narrows the columns so that they fit, if no text column needs to be narrower than `least`. Words stay whole if
    there is room for them. Returns whether they fit."""
    assert room is not None, "what has all the room fits"
    room -= len(GAP) * (len(columns) - 1)
    narrowest = [column.narrowest_with_whole_words(least) for column in columns]
    if sum(narrowest) > room:
        narrowest = [column.narrowest(least) for column in columns]
    if sum(narrowest) > room:
        return False
    bounds = [(least_wide, column.width) for least_wide, column in zip(narrowest, columns, strict=True)]
    for column, fitted in zip(columns, _level_widths(bounds, room), strict=True):
        column.width = fitted
    # A header in two lines may leave its numbers more room than they take: text can have it.
    again = [
        (column.tight, column.tight) if column.is_right else bound
        for column, bound in zip(columns, bounds, strict=True)
    ]
    for column, fitted in zip(columns, _level_widths(again, room), strict=True):
        column.width = fitted
    return True


def _level_widths(bounds: Sequence[tuple[int, int]], room: int) -> Sequence[int]:
    """Returns a width for each pair of narrowest and widest, where the widest columns are narrowed first."""

    def at_most(limit: int) -> list[int]:
        return [max(narrowest, min(widest, limit)) for narrowest, widest in bounds]

    low, high = 0, max(widest for _, widest in bounds)
    while low < high:  # binary search for the largest common limit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(at_most(middle)) <= room else (low, middle - 1)
    widths = at_most(low)
    spare = room - sum(widths)
    for index, (_, widest) in enumerate(bounds):
        if spare > 0 and widths[index] == low < widest:
            widths[index] += 1
            spare -= 1
    return widths


def _title(title: str, room: int | None) -> Iterable[str]:
    text = printable(title)
    if room is None or width(text) <= room:
        return [text] if text else []
    return fill_facts(text, room)


def _header(columns: Sequence[_LaidOutColumn]) -> Iterable[str]:
    """Yields the lines of the header; shorter headers are at the bottom."""
    folded = [fill(column.header, column.width) for column in columns]
    height = max(map(len, folded), default=0)
    for level in range(-height, 0):
        parts = [lines[level] if len(lines) >= -level else "" for lines in folded]
        yield GAP.join(column.pad(part, width(part)) for column, part in zip(columns, parts, strict=True)).rstrip()


def _rows(columns: Sequence[_LaidOutColumn], rows: int) -> Iterable[str]:
    """Formats each row; a folded row has line breaks in it."""
    differing = [column.padded() for column in columns if not column.is_same]
    template = GAP.join(column.literal if column.is_same else column.template for column in columns)
    cells = zip(*differing, strict=True) if differing else repeat((), rows if columns else 0)
    lines = [(template % row).rstrip() for row in cells]
    for row in {row for column in columns for row in column.too_wide(rows)}:
        lines[row] = "\n".join(_folded(columns, row))
    return lines


def _folded(columns: Sequence[_LaidOutColumn], row: int) -> Iterable[str]:
    """Returns the lines of one row: text that does not fit continues below, in its own column."""
    template = GAP.join(column.template for column in columns)
    cells = [column.folded(row) for column in columns]
    height = max(map(len, cells))
    for column, parts in zip(columns, cells, strict=True):
        if not column.is_plain:
            parts += [" " * column.width] * (height - len(parts))
    return [(template % parts).rstrip() for parts in zip_longest(*cells, fillvalue="")]
