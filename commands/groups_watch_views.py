"""What `kcoord groups watch` looks like: a screen on a terminal, lines in a pipe, JSON for programs."""

import re
import signal
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

import click

from kcoord.admin.durations import say_duration
from kcoord.admin.looking import SeenPartition
from kcoord.admin.pace import UNKNOWN_PACE, Pace
from kcoord.admin.saying import say_member, say_partitions, say_rate
from kcoord.admin.times import utc_text
from kcoord.admin.watching import Change, Watch, WatchedGroup

from .group_documents import heading, member_document, refusals
from .groups_watch_screen import Frame, frame_text
from .json_text import json_line
from .output import Output, is_colored
from .printable import escaped, printable


class View(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def show(self, watch: Watch, changes: tuple[Change, ...]) -> None:
        """After each look: all that is known, and what is new."""


class LinesView:
    """One line for each change, and one for each group at each look; each is there at once, for who reads the pipe.

    Who owns what is told at the first look, then by what changes.
    """

    def __init__(self) -> None:
        self._has_begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, watch: Watch, changes: tuple[Change, ...]) -> None:
        for change in changes:
            about = f"group={_word(change.group)} " if change.group else ""
            self._write(f"{_time(change.at)} {about}change={change.kind.value} {printable(change.says)}")
        if watch.look is not None and watch.trouble is None:
            for group in watch.groups():
                self._write(f"{_time(watch.look.at)} {_summary(group)}")
                for owner in () if self._has_begun else _owners(group):
                    self._write(f"{_time(watch.look.at)} {owner}")
            self._has_begun = True

    def _write(self, line: str) -> None:
        click.echo(line)  # flushes


class JsonView:
    """An object on each line: an event "look" with all groups, an event "change" for each change."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, watch: Watch, changes: tuple[Change, ...]) -> None:
        for change in changes:
            self._write("change", change.at, _change_document(change))
        if watch.look is not None and watch.trouble is None:
            groups = [_group_document(group) for group in watch.groups()]
            self._write("look", watch.look.at, {"groups": groups, "refused": refusals(watch.look.refused)})

    def _write(self, event: str, at: float, document: dict[str, Any]) -> None:
        line = {"kcoord": "groups-watch/v1", "event": event, "at": utc_text(round(at * 1000)), **document}
        click.echo(json_line(line))


class ScreenView:
    """The whole terminal while it runs; the last screen stays when it ends."""

    def __init__(self, output: Output, where: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._where = where
        self._is_colored = is_colored(output)
        self._is_wide = output.format == "wide"
        self._console = Console(highlight=False, no_color=not self._is_colored)
        self._live = Live(console=self._console, auto_refresh=False, screen=True, vertical_overflow="crop")
        self._last = ""

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the terminal gets its own screen back
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._last:
            click.echo(self._last, color=True)

    def show(self, watch: Watch, changes: tuple[Change, ...]) -> None:
        from rich.text import Text

        size = self._console.size
        frame = Frame(
            where=self._where,
            now=time.time(),
            width=size.width,
            height=size.height,
            is_colored=self._is_colored,
            is_wide=self._is_wide,
        )
        self._last = frame_text(watch, frame)
        self._live.update(Text.from_ansi(self._last, no_wrap=True, overflow="crop"), refresh=True)


def _summary(group: WatchedGroup) -> str:
    """key=value, as every log of kcoord has it."""
    seen, pace = group.seen, group.pace
    facts = {
        "group": _word(seen.group.name),
        "state": seen.group.state,
        "members": len(seen.group.members),
        "lag": "?" if seen.total_lag is None else seen.total_lag,
        "in": _rate(pace.produced),
        "out": _rate(pace.consumed),
        "catches_up_in": "?" if (left := group.catches_up_in) is None else say_duration(left).replace(" ", ""),
    }
    return " ".join(f"{name}={value}" for name, value in facts.items())


def _owners(group: WatchedGroup) -> list[str]:
    """A line for each member that has something."""
    of = group.seen.group
    owning = [(say_member(member), say_partitions(member.assignment)) for member in of.members if member.assignment]
    return [f"group={_word(of.name)} owner {printable(who)} has {printable(what)}" for who, what in owning]


def _rate(per_second: float | None) -> str:
    return "?" if per_second is None else say_rate(per_second).replace(",", "")


def _word(name: str) -> str:
    """A name as one word of a line, whatever is in it."""
    return re.sub(r"\s", lambda found: escaped(found[0]) if found[0] != " " else "\\x20", printable(name))


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "group": change.group or None,
        "kind": change.kind.value,
        "says": change.says,
        "member": member_document(change.member) if change.member else None,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in change.partitions],
    }


def _group_document(group: WatchedGroup) -> dict[str, Any]:
    seen = group.seen
    return {
        **heading(seen.group),
        "members": len(seen.group.members),
        "total_lag": seen.total_lag,
        **_pace_document(group.pace, seen.total_lag),
        "partitions": [_partition_document(each, group.paces.get(each.tp, UNKNOWN_PACE)) for each in seen.partitions],
    }


def _partition_document(seen: SeenPartition, pace: Pace) -> dict[str, Any]:
    return {
        "topic": seen.tp.topic,
        "partition": seen.tp.partition,
        "offset": seen.committed.offset if seen.committed else None,
        "log_start": seen.bounds.start if seen.bounds else None,
        "log_end": seen.bounds.end if seen.bounds else None,
        "lag": seen.lag,
        **_pace_document(pace, seen.lag),
        "owner": seen.owner.member_id if seen.owner else None,
        "client_id": seen.owner.client_id if seen.owner else None,
    }


def _pace_document(pace: Pace, lag: int | None) -> dict[str, float | None]:
    left = pace.catches_up_in(lag)
    return {
        "produced_per_second": None if pace.produced is None else round(pace.produced, 3),
        "consumed_per_second": None if pace.consumed is None else round(pace.consumed, 3),
        "catches_up_in_seconds": None if left is None else round(left, 3),
    }
