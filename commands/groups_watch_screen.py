"""One screen of `kcoord groups watch`, as text: groups, who owns what, and what changed last.

A terminal has only so many lines. The groups come first, then the last changes, and the partitions get what is left:
where not all fit, those with most lag are shown, and how many there are besides.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kcoord.admin.durations import say_duration
from kcoord.admin.looking import SeenPartition, added
from kcoord.admin.pace import UNKNOWN_PACE, Pace
from kcoord.admin.saying import say_count, say_rate
from kcoord.admin.watching import Change, ChangeKind, Watch, WatchedGroup

from .group_tables import state_cell
from .printable import char_width, printable, width
from .tables import Cell, Column, Screen, Table, Value, paint, render

_CHANGES: Final = 8
_ROOM_FOR_HOSTS: Final = 110
_CHANGE_STYLES: Final = {
    ChangeKind.UNREACHABLE: "red",
    ChangeKind.REFUSED: "red",
    ChangeKind.GROUP_GONE: "red",
    ChangeKind.MOVED_BACK: "yellow",
    ChangeKind.MEMBER_LEFT: "yellow",
    ChangeKind.STATE: "cyan",
}

_PACE_COLUMNS: Final = (
    Column("LAG", align="right"),
    Column("IN/S", align="right"),
    Column("OUT/S", align="right"),
    Column("CATCHES-UP-IN", align="right"),
)
_GROUP_COLUMNS: Final = (Column("GROUP"), Column("STATE"), Column("MEMBERS", align="right"), *_PACE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a screen is drawn for."""

    where: str
    now: float
    width: int
    height: int
    is_colored: bool
    is_wide: bool = False

    def table(self, table: Table) -> list[str]:
        """Folded, also where it cannot be as narrow as the terminal: then as narrow as it can be, which shows most."""
        columns = next(columns for columns in itertools.count(self.width) if self._fits(table, columns))
        screen = Screen(width=columns, colored=self.is_colored, wide=self.is_wide)
        return render(table, screen).splitlines()

    def _fits(self, table: Table, columns: int) -> bool:
        lines = render(table, Screen(width=columns, wide=self.is_wide)).splitlines()
        return max(map(width, lines), default=0) <= columns

    def line(self, text: str, style: str = "") -> str:
        return paint(cropped(printable(text), self.width), style, self.is_colored)


def frame_text(watch: Watch, frame: Frame) -> str:
    """At most as many lines as the terminal has, and none wider unless numbers would have to be cut."""
    lines = [frame.line(_head(watch, frame), "dim")]
    if watch.trouble is not None:
        lines.append(frame.line(f"{watch.trouble}; trying again", "bold red"))
    changes = _change_lines(watch.changes, frame)
    groups = watch.groups()
    lines += ["", *_group_lines(groups, frame, room=frame.height - len(lines) - len(changes) - 1)]
    partitions = _partition_lines(groups, frame, room=frame.height - len(lines) - len(changes) - 1)
    lines += ["", *partitions] if partitions else []
    return "\n".join([*lines, *changes][: frame.height])


def cropped(text: str, columns: int) -> str:
    """Printable text, cut where the line ends."""
    if width(text) <= columns:
        return text
    room, kept = columns - 1, ""
    for char in text:
        room -= char_width(char)
        if room < 0:
            break
        kept += char
    return f"{kept}…"


def _head(watch: Watch, frame: Frame) -> str:
    at = watch.look.at if watch.look else frame.now
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC · {frame.where} · Ctrl-C ends"


def _group_lines(groups: Sequence[WatchedGroup], frame: Frame, *, room: int) -> list[str]:
    if not groups:
        return [frame.line("no groups", "dim")]
    rows = [_group_row(group) for group in sorted(groups, key=lambda group: -(group.seen.total_lag or 0))]

    def drawn(count: int) -> list[str]:
        lines = frame.table(Table(columns=_GROUP_COLUMNS, rows=rows[:count]))
        more = say_count(len(rows) - count, "group")
        return lines if count == len(rows) else [*lines, frame.line(f"and {more} more", "dim")]

    return _as_many_as_fit(drawn, len(rows), room)


def _group_row(group: WatchedGroup) -> tuple[Value, ...]:
    seen = group.seen
    pace = _pace_cells(seen.total_lag, group.pace)
    return seen.group.name, state_cell(seen.group.state), len(seen.group.members), *pace


def _partition_lines(groups: Sequence[WatchedGroup], frame: Frame, *, room: int) -> list[str]:
    """By owner; if not all fit, those with most lag."""
    most_first = sorted(
        (_Part(group, seen) for group in groups for seen in group.seen.partitions),
        key=lambda part: -(part.seen.lag or 0),
    )
    first = 0 if len(groups) > 1 else 1  # whose group it is goes without saying if there is one

    def drawn(count: int) -> list[str]:
        shown = sorted(most_first[:count], key=_Part.order)
        rows = [part.row(before)[first:] for before, part in itertools.pairwise([None, *shown]) if part]
        lines = frame.table(Table(columns=_partition_columns(frame)[first:], rows=rows))
        left_out = most_first[count:]
        lag = added(part.seen.lag for part in left_out) or 0
        more = f"and {say_count(len(left_out), 'partition')} more, with lag {lag:,}"
        return [*lines, frame.line(more, "dim")] if left_out else lines

    return _as_many_as_fit(drawn, len(most_first), room)


def _partition_columns(frame: Frame) -> list[Column]:
    """Hosts leave their place to names of topics where there is little."""
    return [
        Column("GROUP"),
        Column("OWNER"),
        Column("HOST", wide=frame.width < _ROOM_FOR_HOSTS),
        Column("MEMBER-ID", wide=True),
        Column("TOPIC"),
        Column("PARTITION", align="right"),
        *_PACE_COLUMNS,
    ]


class _Part(NamedTuple):
    """A partition as one group has it."""

    group: WatchedGroup
    seen: SeenPartition

    def order(self) -> tuple[object, ...]:
        """By group and owner; what nobody owns comes last."""
        owner = self.seen.owner
        return self.group.seen.group.name, *((0, owner.client_id, owner.member_id) if owner else (1,)), self.seen.tp

    def row(self, before: "_Part | None") -> tuple[Value, ...]:
        """Group and owner are named where they begin."""
        name, owner = self.group.seen.group.name, self.seen.owner
        pace = _pace_cells(self.seen.lag, self.group.paces.get(self.seen.tp, UNKNOWN_PACE))
        named: tuple[Value, ...] = (None, None, None)
        if owner:
            named = owner.client_id, owner.host.removeprefix("/"), owner.member_id
        is_same_group = before is not None and before.group.seen.group.name == name
        if is_same_group and before and before.seen.owner == owner:
            named = ("", "", "")
        return "" if is_same_group else name, *named, self.seen.tp.topic, self.seen.tp.partition, *pace


def _as_many_as_fit(drawn: Callable[[int], list[str]], most: int, room: int) -> list[str]:
    """The lines of the largest number of rows whose lines there is room for; a row may take more than one."""
    for count in range(min(most, room), 0, -1):
        lines = drawn(count)
        if len(lines) <= room:
            return lines
    return []


def _pace_cells(lag: int | None, pace: Pace) -> tuple[Value, Value, Value, Value]:
    is_lasting = pace.closing is not None and pace.catches_up_in(lag) is None
    return (
        None if lag is None else Cell(f"{lag:,}", "yellow" if is_lasting else ""),
        _rate(pace.produced),
        _rate(pace.consumed),
        _time_left(lag, pace),
    )


def _rate(per_second: float | None) -> str | None:
    return None if per_second is None else say_rate(per_second).removesuffix("/s")


def _time_left(lag: int | None, pace: Pace) -> Cell | None:
    left = pace.catches_up_in(lag)
    if left is None:
        return Cell("never", "yellow") if lag is not None and pace.closing is not None else None
    return Cell(say_duration(left)) if left else Cell("caught up", "green")


def _change_lines(changes: Iterable[Change], frame: Frame) -> list[str]:
    """The last of them, the newest below; at most a third of the screen."""
    room = min(_CHANGES, frame.height // 3 - 2)
    last = list(changes)[-room:] if room > 0 else []
    if not last:
        return []
    return ["", frame.line("LAST CHANGES", "bold"), *(_change_line(change, frame) for change in last)]


def _change_line(change: Change, frame: Frame) -> str:
    about = f"{change.group}: " if change.group else ""
    text = f"{datetime.fromtimestamp(change.at, UTC):%H:%M:%S}  {about}{change.says}"
    return frame.line(text, _CHANGE_STYLES.get(change.kind, ""))
