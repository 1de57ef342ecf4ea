"""Renders one screen of `kcoord groups watch` as text: groups, owners of partitions, and the last changes.

The lines of the terminal are shared out. The scrolled part gets most of them; by default that is the groups. The last
changes get at most a third, and the partitions the rest: if not all fit, those with most lag are shown, and the number
of the others.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count
from kcoord.admin.groups.forecast import UNKNOWN, Forecast, Outlook, TimeLag
from kcoord.admin.groups.group_snapshot import PartitionLag, sum_known
from kcoord.admin.groups.rates import UNKNOWN_RATE, Rate
from kcoord.admin.groups.snapshot_changes import ChangeKind, GroupChange, GroupStatus, WatchHistory

from ...output.printable import char_width, printable, width
from ...output.tables import Cell, Column, Screen, Table, Value, paint, render
from ...output.wrapping import wrapped
from ..tables import state_cell
from .formatting import COLUMN_MEANINGS, forecast_cell, format_behind, format_rate, short_change
from .keys import KEYS, Controls, Extent, Part, sorted_groups

_MAX_CHANGE_LINES: Final = 8  # lines
_MIN_GROUP_LINES: Final = 4  # lines of the groups, if another part is scrolled
_ROOM_FOR_HOSTS: Final = 120
_CHANGE_STYLES: Final = {
    ChangeKind.UNREACHABLE: "red",
    ChangeKind.REFUSED: "red",
    ChangeKind.GROUP_GONE: "red",
    ChangeKind.MOVED_BACK: "yellow",
    ChangeKind.MEMBER_LEFT: "yellow",
    ChangeKind.STATE: "cyan",
}
_TIME: Final = "%H:%M:%S"
_INDENT: Final = " " * len("00:00:00  ")

_PACE_COLUMNS: Final = (
    Column("LAG", align="right"),
    Column("IN/S", align="right", spare=True),
    Column("OUT/S", align="right"),
    Column("BEHIND", align="right"),
    Column("CATCHES-UP-IN", align="right"),
)
_GROUP_COLUMNS: Final = (Column("GROUP"), Column("STATE"), Column("MEMBERS", align="right"), *_PACE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The parameters by which a screen of `kcoord groups watch` is drawn: size in cells, style, cluster and what the
    user has chosen by keys."""

    where: str
    now: float
    width: int
    height: int
    is_colored: bool
    is_wide: bool = False
    has_keys: bool = False
    began_at: float = 0.0
    waits: Sequence[str] = ()
    controls: Controls = field(default_factory=Controls)

    def table(self, table: Table) -> list[str]:
        """Formats a table as lines of the screen, folded to the width of the terminal, or to the smallest width that is
        possible."""
        columns = next(columns for columns in itertools.count(self.width) if self._fits(table, columns))
        screen = Screen(width=columns, colored=self.is_colored, wide=self.is_wide)
        return render(table, screen).splitlines()

    def _fits(self, table: Table, columns: int) -> bool:
        lines = render(table, Screen(width=columns, wide=self.is_wide)).splitlines()
        return max(map(width, lines), default=0) <= columns

    def line(self, text: str, style: str = "") -> str:
        """Formats a text as one line of the screen, escaped and cut to its width."""
        return paint(cropped(printable(text), self.width), style, self.is_colored)


class Drawn(NamedTuple):
    """A screen of `kcoord groups watch` as text, and the scroll range of its scrolled part."""

    text: str = ""
    extent: Extent = Extent()


def draw(watch: WatchHistory, frame: Frame) -> Drawn:
    """Draws a screen of `kcoord groups watch` as text, with at most as many lines as the terminal has. A line is wider
    than the terminal only if a number would have to be cut otherwise."""
    controls = frame.controls
    if watch.latest is None and watch.failure is None and not controls.is_helping:
        return Drawn("\n".join(_first_lines(frame)[: frame.height]))
    groups = sorted_groups((each for each in watch.groups() if controls.matches(each.seen.group.name)), controls.sort)
    top = _top_lines(watch, frame, len(groups))
    if controls.is_helping:
        return Drawn("\n".join([*top, *_help_lines(frame)][: frame.height]), Extent())
    parts = _parts(watch, groups, frame, room=frame.height - len(top))
    lines = [*top, *itertools.chain.from_iterable(part.lines for part in parts.values())]
    shown = parts.get(controls.part)
    return Drawn("\n".join(lines[: frame.height]), shown.extent if shown else Extent())


def cropped(text: str, columns: int) -> str:
    """Cuts printable text to a width in terminal cells, and ends it with … then."""
    if width(text) <= columns:
        return text
    room, visible = columns - 1, ""
    for char in text:
        room -= char_width(char)
        if room < 0:
            break
        visible += char
    return f"{visible}…"


# The lines at the top


def _first_lines(frame: Frame) -> list[str]:
    """Returns the lines until the first snapshot is there: which cluster is read, since when, and each wait."""
    began = f"{datetime.fromtimestamp(frame.began_at, UTC):{_TIME}} UTC"
    elapsed = format_duration(int(max(0.0, frame.now - frame.began_at)))
    facts = (f"reading groups from {frame.where}", f"since {began} ({elapsed})", _way_out(frame))
    lines = wrapped(" · ".join(facts), frame.width)
    lines += [line for what in frame.waits for line in wrapped(f"waiting for {what}", frame.width)]
    return [frame.line(line, "dim") for line in lines]


def _way_out(frame: Frame) -> str:
    return "? keys, q quits" if frame.has_keys else "Ctrl-C ends"


def _top_lines(watch: WatchHistory, frame: Frame, shown: int) -> list[str]:
    lines = [frame.line(_prompt(frame), "bold") if frame.controls.is_typing else _head(watch, frame, shown)]
    if watch.failure is not None:
        lines.append(frame.line(f"{watch.failure}; trying again", "bold red"))
    elif watch.latest and watch.latest.refused:
        first, *others = watch.latest.refused
        more = f" (and {len(others):,} more)" if others else ""
        lines.append(frame.line(f"{first}{more}; waiting for it", "yellow"))
    return lines


def _prompt(frame: Frame) -> str:
    return f"filter: {frame.controls.filter}▏  enter keeps it, escape shows all"


def _head(watch: WatchHistory, frame: Frame, shown: int) -> str:
    controls = frame.controls
    at = watch.latest.at if watch.latest else frame.now
    facts = [
        f"{datetime.fromtimestamp(at, UTC):{_TIME}} UTC",
        _way_out(frame),
        f"{format_count(shown, 'group')} by {controls.sort.value}",
        *([f"filter {controls.filter}"] if controls.filter else []),
        *([f"scrolling {controls.part.value}"] if controls.part is not Part.GROUPS else []),
        frame.where,
    ]
    return frame.line(" · ".join(facts), "dim")


def _help_lines(frame: Frame) -> list[str]:
    lines = []
    for heading, rows in (("KEYS", KEYS), ("COLUMNS", COLUMN_MEANINGS)):
        lines += ["", frame.line(heading, "bold")]
        for name, meaning in rows:
            lines += wrapped(f"{name}: {meaning}", frame.width, first="  ", then="    ")
    return [*lines, "", frame.line("any key goes back", "dim")]


# The parts


class _Shown(NamedTuple):
    """A part of the screen: its lines, starting with a blank one, and its scroll range."""

    lines: list[str]
    extent: Extent = Extent()


_NOTHING: Final = _Shown([])


def _parts(watch: WatchHistory, groups: Sequence[GroupStatus], frame: Frame, *, room: int) -> dict[Part, _Shown]:
    """Renders the parts from top to bottom. The scrolled part gets the room that the others leave."""
    few = max(_MIN_GROUP_LINES, frame.height // 4)
    of_changes = [each for each in watch.changes if not each.group or frame.controls.matches(each.group)]
    if frame.controls.part is Part.CHANGES:
        shown = _groups_part(groups, frame, room=min(few, room))
        changes = _changes_part(of_changes, frame, room=room - len(shown.lines) - 2)
        return {Part.GROUPS: shown, Part.CHANGES: changes}
    changes = _changes_part(of_changes, frame, room=min(_MAX_CHANGE_LINES, frame.height // 3 - 2))
    room -= len(changes.lines)
    has_groups_first = frame.controls.part is Part.GROUPS
    shown = _groups_part(groups, frame, room=room - 1 if has_groups_first else min(few, room - 1))
    partitions = _partitions_part(groups, frame, room=room - len(shown.lines) - 1)
    return {Part.GROUPS: shown, Part.PARTITIONS: partitions, Part.CHANGES: changes}


def _groups_part(groups: Sequence[GroupStatus], frame: Frame, *, room: int) -> _Shown:
    if not groups:
        text = f"no group has {frame.controls.filter!r} in its name" if frame.controls.filter else "no groups"
        return _Shown(["", frame.line(text, "dim")])

    def drawn(first: int, count: int) -> list[str]:
        rows = [_group_row(group) for group in groups[first : first + count]]
        return [*frame.table(Table(columns=_GROUP_COLUMNS, rows=rows)), *_range_line(frame, first, count, len(groups))]

    return _scrolled(drawn, len(groups), frame.controls.first(Part.GROUPS), room)


def _range_line(frame: Frame, first: int, count: int, total: int, of: str = "groups") -> list[str]:
    """Formats the range of rows that are shown, unless all are."""
    return [frame.line(f"{first + 1:,}-{first + count:,} of {total:,} {of}", "dim")] if count < total else []


def _scrolled(drawn: Callable[[int, int], list[str]], total: int, first: int, room: int) -> _Shown:
    """Renders as many rows from the first one on as fit into the room, but never fewer than fit at the end."""
    at_end = _largest(lambda count: drawn(total - count, count), total, room)
    last = total - at_end
    if at_end == 0:
        return _NOTHING
    start = min(first, last)
    count = at_end if start == last else _largest(lambda count: drawn(start, count), total - start, room)
    return _Shown(["", *drawn(start, count)], Extent(page=max(1, count), last=last))


def _largest(drawn: Callable[[int], list[str]], most: int, room: int) -> int:
    """Returns the largest number of rows whose lines fit into the room; a row may take several lines."""
    return next((count for count in range(min(most, room), 0, -1) if len(drawn(count)) <= room), 0)


def _group_row(group: GroupStatus) -> tuple[Value, ...]:
    seen = group.seen
    figures = _figures(seen.total_lag, group.rate, group.time_lag, group.forecast)
    return seen.group.name, state_cell(seen.group.state), len(seen.group.members), *figures


def _partitions_part(groups: Sequence[GroupStatus], frame: Frame, *, room: int) -> _Shown:
    """Renders partitions ordered by owner. If not all fit, those with most lag are shown, unless this part is
    scrolled."""
    parts = [_Row(group, seen) for group in groups for seen in group.seen.partitions]
    skipped = 0 if len(groups) > 1 else 1  # the column GROUP is left out if there is only one group
    columns = _partition_columns(frame)[skipped:]

    def table(shown: Sequence[_Row]) -> list[str]:
        rows = [row.cells(before)[skipped:] for before, row in itertools.pairwise([None, *shown]) if row]
        return frame.table(Table(columns=columns, rows=rows))

    if frame.controls.part is Part.PARTITIONS:
        in_order = sorted(parts, key=_Row.order)

        def drawn(first: int, count: int) -> list[str]:
            lines = table(in_order[first : first + count])
            return [*lines, *_range_line(frame, first, count, len(in_order), of="partitions")]

        return _scrolled(drawn, len(in_order), frame.controls.first(Part.PARTITIONS), room)
    most_first = sorted(parts, key=lambda part: -(part.seen.lag or 0))

    def worst(count: int) -> list[str]:
        left_out = most_first[count:]
        lag = sum_known(part.seen.lag for part in left_out) or 0
        more = f"and {format_count(len(left_out), 'partition')} more, with lag {lag:,}"
        lines = table(sorted(most_first[:count], key=_Row.order))
        return [*lines, frame.line(more, "dim")] if left_out else lines

    count = _largest(worst, len(most_first), room)
    return _Shown(["", *worst(count)]) if count else _NOTHING


def _partition_columns(frame: Frame) -> list[Column]:
    """Returns the columns of partitions, without hosts on a narrow screen, so that topic names have room."""
    return [
        Column("GROUP"),
        Column("OWNER"),
        Column("HOST", wide=frame.width < _ROOM_FOR_HOSTS),
        Column("MEMBER-ID", wide=True),
        Column("TOPIC"),
        Column("PARTITION", align="right"),
        *_PACE_COLUMNS,
    ]


class _Row(NamedTuple):
    """A partition of a group, as a row of the screen."""

    group: GroupStatus
    seen: PartitionLag

    def order(self) -> tuple[object, ...]:
        """Returns the sort key: by group and owner, partitions without an owner last."""
        owner = self.seen.owner
        return self.group.seen.group.name, *((0, owner.client_id, owner.member_id) if owner else (1,)), self.seen.tp

    def cells(self, before: "_Row | None") -> tuple[Value, ...]:
        """Returns the cells of the row. Group and owner are blank if the row before has the same."""
        name, owner, tp = self.group.seen.group.name, self.seen.owner, self.seen.tp
        figures = _figures(
            self.seen.lag,
            self.group.rates.get(tp, UNKNOWN_RATE),
            self.group.time_lags.get(tp),
            self.group.forecasts.get(tp, UNKNOWN),
        )
        named: tuple[Value, ...] = (None, None, None)
        if owner:
            named = owner.client_id, owner.host.removeprefix("/"), owner.member_id
        is_same_group = before is not None and before.group.seen.group.name == name
        if is_same_group and before and before.seen.owner == owner:
            named = ("", "", "")
        return "" if is_same_group else name, *named, tp.topic, tp.partition, *figures


def _figures(lag: int | None, rate: Rate, behind: TimeLag | None, forecast: Forecast) -> tuple[Value, ...]:
    style = {Outlook.FALLING_BEHIND: "yellow", Outlook.BEYOND_END: "red"}.get(forecast.outlook, "")
    return (
        None if lag is None else Cell(f"{lag:,}", style),
        format_rate(rate.produced),
        format_rate(rate.consumed),
        format_behind(behind),
        forecast_cell(forecast),
    )


def _changes_part(changes: Sequence[GroupChange], frame: Frame, *, room: int) -> _Shown:
    """Renders the last changes, the newest at the bottom. Scrolling hides the newest ones."""
    if room <= 0 or not changes:
        return _NOTHING
    folded = [_change_lines(change, frame) for change in changes]
    oldest = _newest_that_fit(list(reversed(folded)), room)
    last = len(folded) - oldest
    hidden = min(frame.controls.first(Part.CHANGES), last)
    count = _newest_that_fit(folded[: len(folded) - hidden], room)
    shown = folded[len(folded) - hidden - count : len(folded) - hidden]
    title = f"LAST CHANGES, without the newest {hidden:,}" if hidden else "LAST CHANGES"
    lines = list(itertools.chain.from_iterable(shown))[-room:]
    return _Shown(["", frame.line(title, "bold"), *lines], Extent(page=max(1, count), last=last))


def _newest_that_fit(folded: Sequence[list[str]], room: int) -> int:
    """Returns how many of the last changes fit into the room, but at least 1."""
    lines = itertools.accumulate(map(len, reversed(folded)))
    return max(1, sum(total <= room for total in lines))


def _change_lines(change: GroupChange, frame: Frame) -> list[str]:
    """Formats a change on one line if it fits; otherwise with a short member name, wrapped."""
    time = f"{datetime.fromtimestamp(change.at, UTC):{_TIME}}  "
    about = f"{change.group}: " if change.group else ""
    text = next(
        (text for text in (change.text, short_change(change)) if width(printable(time + about + text)) <= frame.width),
        short_change(change),
    )
    lines = wrapped(about + text, frame.width, first=time, then=_INDENT)
    return [frame.line(line, _CHANGE_STYLES.get(change.kind, "")) for line in lines]
