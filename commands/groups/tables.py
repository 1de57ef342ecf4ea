"""Tables of groups, members and partitions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count, format_partitions
from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot, UnownedPartitions, lag_seconds
from kcoord.admin.model import Bounds, Member

from ..output.tables import ByColumn, Cell, Column, Table, Value

_STATE_STYLES: Final = {
    "Stable": "green",
    "Empty": "dim",
    "Dead": "dim",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "yellow",
}

_LOG_END: Final = Column("LOG-END", align="right")
LOG_START: Final = Column("LOG-START", align="right")
PARTITION_COLUMNS: Final = (
    Column("TOPIC"),
    Column("PARTITION", align="right"),
    Column("OFFSET", align="right"),
    _LOG_END,
    Column("LAG", align="right"),
    Column("BEHIND", align="right"),
    Column("CLIENT-ID"),
    Column("HOST", spare=True),  # the table of members shows it, too
)
STATIC_COLUMNS: Final = (*PARTITION_COLUMNS, Column("INSTANCE-ID"))  # where client ids may be equal
WIDE_COLUMNS: Final = (
    *PARTITION_COLUMNS,
    Column("INSTANCE-ID", wide=True),
    Column("MEMBER-ID", wide=True),
    Column("LOG-START", align="right", wide=True),
    Column("LEADER-EPOCH", align="right", wide=True),
    Column("METADATA", wide=True),
)

# Epochs and targets are those of KIP-848.
MEMBER_COLUMNS: Final = (
    Column("CLIENT-ID"),
    Column("HOST"),
    Column("MEMBER-ID"),
    Column("INSTANCE-ID"),
    Column("EPOCH", align="right"),
    Column("COUNT", align="right"),
    Column("ASSIGNMENT"),
    Column("TARGET"),
    Column("SUBSCRIPTION", wide=True),
    Column("RACK", wide=True),
)
STATE_COLUMNS: Final = (
    Column("GROUP"),
    Column("STATE"),
    Column("TYPE"),
    Column("PROTOCOL"),
    Column("MEMBERS", align="right"),
    Column("COORDINATOR", align="right", spare=True),
    Column("EPOCH", align="right", spare=True),
    Column("ASSIGNMENT-EPOCH", align="right", spare=True),
    Column("LAG", align="right"),
    Column("BEHIND", align="right"),
)


def describe_tables(snapshot: Snapshot, *, with_partitions: bool, with_members: bool, is_wide: bool) -> Iterator[Table]:
    """Yields the tables of `kcoord groups describe` for each group: partitions and members, the first one titled with a
    heading of the group."""
    for seen in snapshot.groups.values():
        tables = []
        if with_partitions and seen.partitions:
            tables.append(partitions_table(seen, snapshot.at, is_wide=is_wide))
        if with_members and seen.group.members:
            tables.append(members_table(seen.group.members))
        if not tables:
            tables.append(Table(columns=(), rows=()))
        first, *others = tables
        yield Table(columns=first.columns, rows=first.rows, title=group_heading(seen, snapshot.at))
        yield from others


def group_heading(seen: GroupSnapshot, at: float) -> str:
    """Formats the line above the tables of a group: name, state, type, members, coordinator and lag at the time
    `at`."""
    group = seen.group
    facts = [
        group.name,
        group.state,
        f"{group.type.value} {group.protocol}".strip(),
        format_count(len(group.members), "member"),
        f"coordinator {group.coordinator.host}:{group.coordinator.port} (id {group.coordinator.id})",
    ]
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}, assignment epoch {group.assignment_epoch}")
    if seen.total_lag is not None:
        behind = seen.worst_seconds(at)
        facts.append(f"lag {seen.total_lag:,}" + (f", {format_duration(behind)} behind" if behind else ""))
    return " · ".join(facts)


def partitions_table(seen: GroupSnapshot, at: float, *, is_wide: bool) -> Table:
    """Returns the table of a group's offsets and lag in its partitions. Wide columns are made only where they are
    shown, since there may be many thousands of rows.

    LOG-START is also among the narrow columns if the group is behind it: records that it has not read were deleted.
    """
    table = _partitions_table(seen, at, is_wide=is_wide)
    starts = _starts_ahead(seen)
    if is_wide or not starts:
        return table
    index = PARTITION_COLUMNS.index(_LOG_END)
    by_column = table.rows.columns if isinstance(table.rows, ByColumn) else tuple(zip(*table.rows, strict=True))
    return Table(
        columns=(*table.columns[:index], LOG_START, *table.columns[index:]),
        rows=ByColumn(*by_column[:index], starts, *by_column[index:]),
    )


def _starts_ahead(seen: GroupSnapshot) -> list[int | None]:
    """Returns the log start of each partition if any committed offset is below it, else an empty list."""
    unowned = seen.partitions
    if isinstance(unowned, UnownedPartitions):
        offsets: Iterable[int | None] = unowned.offsets
        bounds: Sequence[Bounds | None] = unowned.bounds
    else:
        offsets = [each.committed.offset if each.committed else None for each in unowned]
        bounds = [each.bounds for each in unowned]
    starts = [each.start if each else None for each in bounds]
    is_behind = any(
        offset is not None and start is not None and offset < start
        for offset, start in zip(offsets, starts, strict=True)
    )
    return starts if is_behind else []


def _partitions_table(seen: GroupSnapshot, at: float, *, is_wide: bool) -> Table:
    if isinstance(seen.partitions, UnownedPartitions) and not is_wide and not seen.group.members:
        return Table(columns=PARTITION_COLUMNS, rows=_unowned_rows(seen.partitions))
    rows = _partition_rows(seen.partitions, at)
    if is_wide:
        wide = [(*row, *_wide_cells(each)) for row, each in zip(rows, seen.partitions, strict=True)]
        return Table(columns=WIDE_COLUMNS, rows=wide)
    if any(member.instance_id is not None for member in seen.group.members):
        static = [(*row, _instance(each.owner)) for row, each in zip(rows, seen.partitions, strict=True)]
        return Table(columns=STATIC_COLUMNS, rows=static)
    return Table(columns=PARTITION_COLUMNS, rows=rows)


def _instance(owner: Member | None) -> str | None:
    return owner.instance_id if owner else None


def _partition_rows(partitions: Iterable[PartitionLag], at: float) -> list[tuple[Value, ...]]:
    return [
        (
            topic,
            partition,
            committed.offset if committed else None,
            bounds.end if bounds else None,
            lag,
            lag_time(lag_seconds(lag, next_record_at, at)) if lag == 0 or next_record_at is not None else None,
            owner.client_id if owner else None,
            owner.host if owner else None,
        )
        for (topic, partition), committed, bounds, owner, lag, next_record_at in partitions
    ]


def _unowned_rows(partitions: UnownedPartitions) -> ByColumn:
    """Returns the rows of partitions without owners and times, column by column."""
    return ByColumn(
        partitions.topics,
        partitions.partitions,
        partitions.offsets,
        [bounds.end if bounds else None for bounds in partitions.bounds],
        partitions.lags,
        [_AT_THE_END if lag == 0 else None for lag in partitions.lags],
        *[[None] * len(partitions)] * 2,
    )


def _wide_cells(seen: PartitionLag) -> tuple[Value, ...]:
    _, committed, bounds, owner, _, _ = seen
    return (
        _instance(owner),
        owner.member_id if owner else None,
        bounds.start if bounds else None,
        committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        committed.metadata if committed and committed.metadata else None,
    )


def members_table(members: Iterable[Member]) -> Table:
    """Returns the table of a group's members, ordered by client id. Columns without any value are left out."""
    ordered = sorted(members, key=lambda member: (member.client_id, member.instance_id or "", member.member_id))
    return _without_empty(Table(columns=MEMBER_COLUMNS, rows=[_member_row(member) for member in ordered]))


def _member_row(member: Member) -> tuple[Value, ...]:
    has_other_target = member.target is not None and member.target != member.assignment
    return (
        member.client_id,
        member.host,
        member.member_id,
        member.instance_id,
        member.epoch,
        None if member.assignment is None else len(member.assignment),
        format_partitions(member.assignment or ()) or None,
        (format_partitions(member.target or ()) or "nothing") if has_other_target else None,
        member.subscribed_regex or ", ".join(member.subscription or ()) or None,
        member.rack or None,
    )


def _without_empty(table: Table) -> Table:
    used = [index for index in range(len(table.columns)) if any(row[index] is not None for row in table.rows)]
    return Table(
        columns=[table.columns[index] for index in used],
        rows=[[row[index] for index in used] for row in table.rows],
        title=table.title,
    )


# For CSV, all groups are in one table.


def partitions_with_group(snapshot: Snapshot) -> Table:
    """Returns one table of the partitions of all groups, with the group as the first column."""
    tables = [(seen.group.name, partitions_table(seen, snapshot.at, is_wide=True)) for seen in snapshot.groups.values()]
    rows = [(name, *row) for name, table in tables for row in table.rows]
    return Table(columns=(Column("GROUP"), *WIDE_COLUMNS), rows=rows)


def members_with_group(snapshot: Snapshot) -> Table:
    """Returns one table of the members of all groups, with the group as the first column."""
    rows = [
        (each.group.name, *_member_row(member)) for each in snapshot.groups.values() for member in each.group.members
    ]
    return Table(columns=(Column("GROUP"), *MEMBER_COLUMNS), rows=rows)


def states_table(snapshot: Snapshot) -> Table:
    """Returns the table with one row for each group: its state, coordinator, members and lag."""
    return Table(columns=STATE_COLUMNS, rows=[_state_row(each, snapshot.at) for each in snapshot.groups.values()])


def _state_row(seen: GroupSnapshot, at: float) -> tuple[Value, ...]:
    group = seen.group
    return (
        *(group.name, state_cell(group.state), group.type.value, group.protocol or None, len(group.members)),
        *(group.coordinator.id, group.epoch, group.assignment_epoch),
        *(seen.total_lag, lag_time(seen.worst_seconds(at))),
    )


def state_cell(state: str) -> Cell | None:
    """Formats a group's state with its color; None for an unknown state."""
    return Cell(state, _STATE_STYLES.get(state, "")) if state else None


_AT_THE_END: Final = Cell("0s", raw=0.0)


def lag_time(seconds: float | None) -> Cell | None:
    """Formats a lag in seconds for people; the raw value, in seconds, is for CSV."""
    if not seconds:
        return None if seconds is None else _AT_THE_END
    return Cell(format_duration(seconds), raw=round(seconds, 3))
