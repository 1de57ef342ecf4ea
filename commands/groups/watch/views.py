"""Output of `kcoord groups watch` without a screen: lines for a pipe, JSON for programs."""

import re
from datetime import UTC, datetime
from typing import Any, Protocol

import click

from kcoord.admin.formatting import format_member, format_partitions, rate_text
from kcoord.admin.groups.forecast import UNKNOWN, Forecast, TimeLag
from kcoord.admin.groups.group_snapshot import PartitionLag
from kcoord.admin.groups.rates import UNKNOWN_RATE, Rate
from kcoord.admin.groups.snapshot_changes import GroupChange, GroupStatus, WatchHistory
from kcoord.admin.times import utc_text

from ...output.json_text import json_line
from ...output.printable import escaped, printable
from ..documents import group_fields, member_document, refusal_documents
from .formatting import forecast_word, format_behind


class View(Protocol):
    """The interface of an output of `kcoord groups watch` without a screen: lines of text or JSON."""

    def show(self, watch: WatchHistory, changes: tuple[GroupChange, ...]) -> None:
        """Prints the latest snapshot of groups and the changes since the one before; called after each snapshot."""


class LinesView:
    """The output of `kcoord groups watch` in a pipe: it prints one line for each change, and one for each group and
    snapshot, each flushed at once.

    The owners of partitions are printed with the first snapshot; afterwards only changes of owners are.
    """

    def __init__(self) -> None:
        self._has_begun = False

    def show(self, watch: WatchHistory, changes: tuple[GroupChange, ...]) -> None:
        """Prints the changes, and the groups of the latest snapshot, as lines of key=value."""
        for change in changes:
            about = f"group={_word(change.group)} " if change.group else ""
            self._write(f"{_time(change.at)} {about}change={change.kind.value} {printable(change.text)}")
        if watch.latest is not None and watch.failure is None:
            for group in watch.groups():
                self._write(f"{_time(watch.latest.at)} {_summary(group)}")
                for owner in () if self._has_begun else _owners(group):
                    self._write(f"{_time(watch.latest.at)} {owner}")
            self._has_begun = True

    def _write(self, line: str) -> None:
        click.echo(line)  # flushes


class JsonView:
    """The output of `kcoord groups watch -o json`: one JSON object on each line, an event "look" with all groups, or an
    event "change" for a change."""

    def show(self, watch: WatchHistory, changes: tuple[GroupChange, ...]) -> None:
        """Prints the changes, and the groups of the latest snapshot, as JSON lines."""
        for change in changes:
            self._write("change", change.at, _change_document(change))
        if watch.latest is not None and watch.failure is None:
            groups = [_group_document(group) for group in watch.groups()]
            self._write("look", watch.latest.at, {"groups": groups, "refused": refusal_documents(watch.latest.refused)})

    def _write(self, event: str, at: float, document: dict[str, Any]) -> None:
        line = {"kcoord": "groups-watch/v1", "event": event, "at": utc_text(round(at * 1000)), **document}
        click.echo(json_line(line))


def _summary(group: GroupStatus) -> str:
    """Formats a group as key=value, the format of kcoord's logs."""
    seen, rate = group.seen, group.rate
    facts = {
        "group": _word(seen.group.name),
        "state": seen.group.state,
        "members": len(seen.group.members),
        "lag": "?" if seen.total_lag is None else seen.total_lag,
        "in": _rate(rate.produced),
        "out": _rate(rate.consumed),
        "behind": (format_behind(group.time_lag) or "?").replace(" ", ""),
        "catches_up_in": forecast_word(group.forecast),
    }
    return " ".join(f"{name}={value}" for name, value in facts.items())


def _owners(group: GroupStatus) -> list[str]:
    """Formats a line for each member that owns partitions."""
    of = group.seen.group
    owning = [
        (format_member(member), format_partitions(member.assignment)) for member in of.members if member.assignment
    ]
    return [f"group={_word(of.name)} owner {printable(who)} has {printable(what)}" for who, what in owning]


def _rate(per_second: float | None) -> str:
    return "?" if per_second is None else rate_text(per_second).replace(",", "")


def _word(name: str) -> str:
    """Escapes a name so that it is one word of a line."""
    return re.sub(r"\s", lambda found: escaped(found[0]) if found[0] != " " else "\\x20", printable(name))


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _change_document(change: GroupChange) -> dict[str, Any]:
    return {
        "group": change.group or None,
        "kind": change.kind.value,
        "says": change.text,
        "member": member_document(change.member) if change.member else None,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in change.partitions],
    }


def _group_document(group: GroupStatus) -> dict[str, Any]:
    seen = group.seen
    return {
        **group_fields(seen.group),
        "members": len(seen.group.members),
        "total_lag": seen.total_lag,
        **_progress_document(group.rate, group.time_lag, group.forecast),
        "partitions": [_partition_document(each, group) for each in seen.partitions],
    }


def _partition_document(seen: PartitionLag, group: GroupStatus) -> dict[str, Any]:
    tp = seen.tp
    progress = _progress_document(
        group.rates.get(tp, UNKNOWN_RATE), group.time_lags.get(tp), group.forecasts.get(tp, UNKNOWN)
    )
    return {
        "topic": seen.tp.topic,
        "partition": seen.tp.partition,
        "offset": seen.committed.offset if seen.committed else None,
        "log_start": seen.bounds.start if seen.bounds else None,
        "log_end": seen.bounds.end if seen.bounds else None,
        "lag": seen.lag,
        **progress,
        "owner": seen.owner.member_id if seen.owner else None,
        "client_id": seen.owner.client_id if seen.owner else None,
    }


def _progress_document(rate: Rate, behind: TimeLag | None, forecast: Forecast) -> dict[str, float | str | bool | None]:
    """Returns rates, lag in time and forecast. A lag in time that is only a lower bound is marked."""
    return {
        "produced_per_second": _rounded(rate.produced),
        "consumed_per_second": _rounded(rate.consumed),
        "lag_seconds": _rounded(behind.seconds) if behind else None,
        "is_lag_seconds_at_least": behind.is_at_least if behind else None,
        "outlook": forecast.outlook.value,
        "catches_up_in_seconds": _rounded(forecast.seconds),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
