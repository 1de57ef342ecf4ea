"""`kcoord groups list`: lists groups with filters and sorting."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from kcoord.admin.groups.group_snapshot import GroupSummary
from kcoord.admin.groups.selection import matching_names
from kcoord.admin.model import GroupType, ListedGroup, Refusal

from ..completion.completing import complete_topics
from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..output.output import Column, Table, output_of, output_options, show, write
from ..output.printable import printable
from .choice import pattern_option
from .documents import refusal_documents
from .snapshots import exit_if_refused, summarize_named
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
class GroupRow:
    """A row of `kcoord groups list`: a listed group, with its summary if it could be described."""

    listed: ListedGroup
    seen: GroupSummary | None

    @property
    def state(self) -> str:
        """The state of the group; empty if the broker did not report one."""
        return self.listed.state or (self.seen.group.state if self.seen else "")

    @property
    def members(self) -> int | None:
        """The number of members; None if unknown."""
        return len(self.seen.group.members) if self.seen else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the group; empty if unknown."""
        return self.seen.topics if self.seen else ()

    @property
    def lag(self) -> int | None:
        """The total lag of the group in records; None if unknown."""
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
        summaries = summarize_named(cluster, names)
    rows = [GroupRow(listed=listed.found[name], seen=summaries.groups.get(name)) for name in names]
    wanted = _sorted([row for row in rows if _is_wanted(row, states, topics)], sort)
    refused = (*listed.refused, *summaries.refused)
    if only_names:
        _show_names(ctx, [row.listed.name for row in wanted], refused)
        return
    show(
        ctx,
        "groups-list",
        lambda: {"groups": [_document(row) for row in wanted], "refused": refusal_documents(refused)},
        lambda: [_table(wanted)],
    )
    exit_if_refused(refused)


def _show_names(ctx: click.Context, names: Sequence[str], refused: Iterable[Refusal]) -> None:
    """Prints the names only, one on each line."""
    if output_of(ctx).is_for_people:
        write("".join([f"{printable(name)}\n" for name in names]))
    else:
        table = Table(columns=[Column("GROUP")], rows=[(name,) for name in names])
        show(ctx, "groups-names", {"groups": names, "refused": refusal_documents(refused)}, [table])
    exit_if_refused(refused)


def _lacks_states(listed: Iterable[ListedGroup], states: Collection[str]) -> bool:
    """Returns whether states are needed and missing. Brokers before 2.6 list groups without their states."""
    return bool(states) and not all(group.state for group in listed)


def _is_wanted(row: GroupRow, states: Collection[str], topics: Collection[str]) -> bool:
    has_topic = not topics or not set(topics).isdisjoint(row.topics)
    return has_topic and (not states or row.state in states)


def _sorted(rows: Collection[GroupRow], sort: str) -> list[GroupRow]:
    match sort:
        case "lag":
            return sorted(rows, key=lambda row: -1 if row.lag is None else row.lag, reverse=True)
        case "members":
            return sorted(rows, key=lambda row: row.members or 0, reverse=True)
        case "state":
            return sorted(rows, key=lambda row: row.state)
        case _:
            return list(rows)


def _table(rows: Iterable[GroupRow]) -> Table:
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
    cells = [
        (
            row.listed.name,
            state_cell(row.state),
            row.listed.type.value,
            _protocol(row),
            row.members,
            len(row.topics) if row.seen else None,
            row.lag,
            row.listed.coordinator,
            ", ".join(row.topics) or None,
        )
        for row in rows
    ]
    return Table(columns=columns, rows=cells)


def _protocol(row: GroupRow) -> str | None:
    """Formats the protocol type, and the selected protocol if there is one: consumer/range."""
    protocol = row.seen.group.protocol if row.seen else ""
    return "/".join(part for part in (row.listed.protocol_type, protocol) if part) or None


def _document(row: GroupRow) -> dict[str, Any]:
    return {
        "group": row.listed.name,
        "state": row.state or None,
        "type": row.listed.type.value,
        "protocol_type": row.listed.protocol_type,
        "protocol": row.seen.group.protocol if row.seen else None,
        "members": row.members,
        "topics": row.topics if row.seen else None,
        "total_lag": row.lag,
        "coordinator": row.listed.coordinator,
    }
