"""Key bindings of `kcoord groups watch`: scroll, sort, filter, help, quit. Pure functions without I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from kcoord.admin.groups.snapshot_changes import GroupStatus

Kind = TypeVar("Kind")


class Sort(StrEnum):
    """The orders in which `kcoord groups watch` sorts groups; the first one is the default."""

    LAG = "lag"
    BEHIND = "time behind"
    NAME = "name"
    STATE = "state"
    OUT = "records out"


class Part(StrEnum):
    """The parts of the screen of `kcoord groups watch`. One of them is scrolled, and gets most of the room."""

    GROUPS = "groups"
    PARTITIONS = "partitions"
    CHANGES = "changes"


KEYS: Final = (
    ("up, down, page up, page down, home, end", "scroll"),
    ("tab", "scroll groups, partitions or changes"),
    ("s", f"sort groups by {', '.join(Sort)}"),
    ("/", "show only groups whose names contain what is typed then; escape shows all"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The choices that the user has made by keys on the screen of `kcoord groups watch`: order, filter, scrolled part
    and positions."""

    sort: Sort = Sort.LAG
    filter: str = ""
    is_typing: bool = False  # whether keys are typed into the filter
    part: Part = Part.GROUPS
    scrolled: Mapping[Part, int] = field(default_factory=lambda: MappingProxyType({}))
    is_helping: bool = False
    is_over: bool = False

    def first(self, part: Part) -> int:
        """Returns the index of the first row that is shown of a part of the screen; for changes, how many of the newest
        are hidden."""
        return self.scrolled.get(part, 0)

    def matches(self, name: str) -> bool:
        """Whether the group of this name passes the filter that the user has typed."""
        return self.filter.casefold() in name.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The scroll range of the scrolled part of a screen: how many rows were shown, and the largest index of the first
    row."""

    page: int = 1
    last: int = 0


def press(controls: Controls, key: str, extent: Extent) -> Controls:
    """Returns the controls after the user has pressed a key on a screen of that scroll range."""
    if controls.is_typing:
        return _type(controls, key)
    if controls.is_helping and key != "q":
        return replace(controls, is_helping=False)
    match key:
        case "q":
            return replace(controls, is_over=True)
        case "?" | "h":
            return replace(controls, is_helping=True)
        case "/":
            return _back_to_top(replace(controls, is_typing=True, filter=""))
        case "escape":
            return _back_to_top(replace(controls, filter=""))
        case "s":
            return _back_to_top(replace(controls, sort=_next(Sort, controls.sort)))
        case "tab":
            return replace(controls, part=_next(Part, controls.part))
        case "shift-tab":
            return replace(controls, part=_next(tuple(reversed(Part)), controls.part))
    return _scroll(controls, key, extent)


def sorted_groups(groups: Iterable[GroupStatus], sort: Sort) -> list[GroupStatus]:
    """Sorts groups for the screen, in descending order but for names, and equal ones by name, so that the order is
    stable between snapshots."""
    named = sorted(groups, key=lambda group: group.seen.group.name)
    match sort:
        case Sort.LAG:
            return sorted(named, key=lambda group: -(group.seen.total_lag or 0))
        case Sort.BEHIND:
            return sorted(named, key=lambda group: -(group.time_lag.seconds if group.time_lag else 0.0))
        case Sort.NAME:
            return named
        case Sort.STATE:
            return sorted(named, key=lambda group: group.seen.group.state)
        case Sort.OUT:
            return sorted(named, key=lambda group: -(group.rate.consumed or 0.0))


def _type(controls: Controls, key: str) -> Controls:
    match key:
        case "enter" | "tab" | "up" | "down":
            return replace(controls, is_typing=False)
        case "escape":
            return replace(controls, is_typing=False, filter="")
        case "backspace":
            return replace(controls, filter=controls.filter[:-1])
        case "clear":
            return replace(controls, filter="")
    return replace(controls, filter=controls.filter + key) if len(key) == 1 else controls


def _scroll(controls: Controls, key: str, extent: Extent) -> Controls:
    """Moves the first row of the scrolled part. Changes grow from below, so there `up` moves to older ones."""
    now = min(controls.first(controls.part), extent.last)
    steps = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page-up": -extent.page,
        "page-down": extent.page,
        " ": extent.page,
        "home": -now,
        "end": extent.last - now,
    }
    if key not in steps:
        return controls
    step = steps[key]
    if controls.part is Part.CHANGES:
        step = {"home": extent.last - now, "end": -now}.get(key, -step)
    first = max(0, min(extent.last, now + step))
    return replace(controls, scrolled=MappingProxyType({**controls.scrolled, controls.part: first}))


def _back_to_top(controls: Controls) -> Controls:
    return replace(controls, scrolled=MappingProxyType({}))


def _next(kinds: Iterable[Kind], now: Kind) -> Kind:
    order = list(kinds)
    return order[(order.index(now) + 1) % len(order)]
