"""`kcoord groups list`: lists groups with filters and sorting."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from kcoord.admin.groups.group_snapshot import GroupSummary
from kcoord.admin.groups.selection import matching_names
from kcoord.admin.model import GroupType, ListedGroup, Refusal

from ..completing import complete_topics
from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..output.output import Column, Table, output_of, output_options, show, write
from ..output.printable import printable
from ..snapshots import end_with, sum_named
from .choice import pattern_option
from .documents import refusals
from .tables import state_cell

STATES: Final = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
TYPES: Final = tuple(kind.value for kind in GroupType if kind is not GroupType.UNKNOWN)
SORTS: Final = ("name", "lag", "members", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A listed group, with its summary if it could be described."""

    listed: ListedGroup
    seen: GroupSummary | None

    @property
    def state(self) -> str:
        return self.listed.state or (self.seen.group.state if self.seen else "")

    @property
    def members(self) -> int | None:
        return len(self.seen.group.members) if self.seen else None

    @property
    def topics(self) -> tuple[str, ...]:
        return self.seen.topics if self.seen else ()

    @property
    def lag(self) -> int | None:
        return self.seen.total_lag if self.seen else None


@click.command("list", short_help="The groups of a cluster.")
@pattern_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help=f"In this state: {', '.join(STATES)}.",
)
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Of this type.")
@click.option("--topic", "topics", multiple=True, shell_complete=complete_topics, help="With offsets or members of it.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Largest lag first, and so on."
)
@click.option("--names", "only_names", is_flag=True, help="Names only, one on each line: the quickest.")
@connection_options
@output_options
@click.pass_context
def list_groups(
    ctx: click.Context,
    pattern: str | None,
    states: tuple[str, ...],
    types: tuple[str, ...],
    topics: tuple[str, ...],
    sort: str,
    only_names: bool,
) -> None:
    """List groups with state, type, protocol, members, topics and total lag.

    \b
    kcoord groups list
    kcoord groups list --state Empty --sort lag
    kcoord groups list --topic orders --regex '^prod-' -o json
    kcoord groups list --names | head

    --state, --type and --topic may be given several times: any of them will do.
    """
    with open_cluster(connection(ctx)) as cluster:
        listed = cluster.list_groups(states=states, types=types)
        names = matching_names(listed.found, pattern) if pattern else sorted(listed.found)
        if only_names and not topics and sort == "name" and not _lacks_states(listed.found.values(), states):
            _show_names(ctx, names, listed.refused)
            return
        look = sum_named(cluster, names)
    lines = [Line(listed=listed.found[name], seen=look.groups.get(name)) for name in names]
    wanted = _sorted([line for line in lines if _is_wanted(line, states, topics)], sort)
    refused = (*listed.refused, *look.refused)
    if only_names:
        _show_names(ctx, [line.listed.name for line in wanted], refused)
        return
    show(
        ctx,
        "groups-list",
        lambda: {"groups": [_document(line) for line in wanted], "refused": refusals(refused)},
        lambda: [_table(wanted)],
    )
    end_with(refused)


def _show_names(ctx: click.Context, names: Sequence[str], refused: Iterable[Refusal]) -> None:
    """Prints the names only, one on each line."""
    if output_of(ctx).is_for_people:
        write("".join([f"{printable(name)}\n" for name in names]))
    else:
        table = Table(columns=[Column("GROUP")], rows=[(name,) for name in names])
        show(ctx, "groups-names", {"groups": names, "refused": refusals(refused)}, [table])
    end_with(refused)


def _lacks_states(listed: Iterable[ListedGroup], states: Collection[str]) -> bool:
    """Returns whether states are needed and missing. Brokers before 2.6 list groups without their states."""
    return bool(states) and not all(group.state for group in listed)


def _is_wanted(line: Line, states: Collection[str], topics: Collection[str]) -> bool:
    has_topic = not topics or not set(topics).isdisjoint(line.topics)
    return has_topic and (not states or line.state in states)


def _sorted(lines: Collection[Line], sort: str) -> list[Line]:
    match sort:
        case "lag":
            return sorted(lines, key=lambda line: -1 if line.lag is None else line.lag, reverse=True)
        case "members":
            return sorted(lines, key=lambda line: line.members or 0, reverse=True)
        case "state":
            return sorted(lines, key=lambda line: line.state)
        case _:
            return list(lines)


def _table(lines: Iterable[Line]) -> Table:
    columns: Sequence[Column] = (
        Column("GROUP"),
        Column("STATE"),
        Column("TYPE"),
        Column("PROTOCOL"),
        Column("MEMBERS", align="right"),
        Column("TOPICS", align="right"),
        Column("LAG", align="right"),
        Column("COORDINATOR", align="right", wide=True),
        Column("TOPIC-NAMES", wide=True),
    )
    rows = [
        (
            line.listed.name,
            state_cell(line.state),
            line.listed.type.value,
            _protocol(line),
            line.members,
            len(line.topics) if line.seen else None,
            line.lag,
            line.listed.coordinator,
            ", ".join(line.topics) or None,
        )
        for line in lines
    ]
    return Table(columns=columns, rows=rows)


def _protocol(line: Line) -> str | None:
    """Formats the protocol type, and the selected protocol if there is one: consumer/range."""
    protocol = line.seen.group.protocol if line.seen else ""
    return "/".join(part for part in (line.listed.protocol_type, protocol) if part) or None


def _document(line: Line) -> dict[str, Any]:
    return {
        "group": line.listed.name,
        "state": line.state or None,
        "type": line.listed.type.value,
        "protocol_type": line.listed.protocol_type,
        "protocol": line.seen.group.protocol if line.seen else None,
        "members": line.members,
        "topics": line.topics if line.seen else None,
        "total_lag": line.lag,
        "coordinator": line.listed.coordinator,
    }
