"""`kcoord groups describe`: shows state, members, offsets and lag of groups."""

import click

from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..output.output import Table, output_of, output_options, show
from .choice import GroupSelection, group_options
from .documents import snapshot_document
from .snapshots import exit_if_refused, read_selected
from .tables import describe_tables, members_with_group, partitions_with_group, states_table


@click.command(short_help="State, members, offsets and lag of groups.")
@group_options
@click.option("--offsets", "only_offsets", is_flag=True, help="Partitions only, without the members.")
@click.option("--members", "only_members", is_flag=True, help="Members only, without the partitions.")
@click.option("--state", "only_state", is_flag=True, help="One line for each group.")
@click.option(
    "--time/--no-time",
    "with_times",
    default=None,
    help="Read the age of the next record of each partition, or don't. Without it: unless there are over 200 groups.",
)
@connection_options
@output_options
@click.pass_context
def describe(
    ctx: click.Context,
    choice: GroupSelection,
    only_offsets: bool,
    only_members: bool,
    only_state: bool,
    with_times: bool | None,
) -> None:
    """Describe groups: state, coordinator, protocol, members with what they own, and for each partition the committed
    offset, where the log ends, and the lag in records and in time.

    \b
    kcoord groups describe payments
    kcoord groups describe payments orders -o wide
    kcoord groups describe --regex '^prod-' --members
    kcoord groups describe --all-groups -o json

    LAG is from the committed offset to the end of the log, as kafka-consumer-groups counts it. BEHIND is the age of the
    first record that is not consumed yet, by the time in the record itself. LOG-START is shown if a group is behind it,
    so that records which it has not read were deleted. A group that does not exist makes the exit code 1; so does what
    may not be seen, and the rest is shown.
    """
    if only_offsets + only_members + only_state > 1:
        raise click.UsageError("--offsets, --members and --state exclude each other")
    with open_cluster(connection(ctx), about=choice.names) as cluster:
        snapshot = read_selected(cluster, choice, with_times=False if only_members else with_times)
    shows_all = not (only_offsets or only_members or only_state)
    output = output_of(ctx)

    def tables() -> list[Table]:
        if only_state:
            return [states_table(snapshot)]
        if output.format == "csv":
            return [members_with_group(snapshot) if only_members else partitions_with_group(snapshot)]
        return list(
            describe_tables(
                snapshot,
                with_partitions=shows_all or only_offsets,
                with_members=shows_all or only_members,
                is_wide=output.format == "wide",
            )
        )

    show(ctx, "groups-describe", lambda: snapshot_document(snapshot), tables)
    exit_if_refused(snapshot.refused)
