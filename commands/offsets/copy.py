"""`kcoord offsets copy`: copies committed offsets from one cluster to another."""

import re
from collections.abc import Collection
from datetime import UTC, datetime

import click

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.groups.selection import NoGroupSelected
from kcoord.admin.model import Refusal
from kcoord.admin.name_patterns import compile_name_pattern
from kcoord.admin.offsets.comparing import Origin, origin_of
from kcoord.admin.offsets.files.exporting import Exported, export
from kcoord.admin.offsets.files.importing import offsets_by_group
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.marking import mark_lines
from kcoord.admin.offsets.planning import plan_from_files
from kcoord.admin.offsets.plans import Risk, Verb
from kcoord.exceptions import RemoteFailure

from ..opening import open_cluster
from ..options.connection_options import connection_options, format_cluster_options
from ..output.output import echo_err, output_options, progress
from .cluster_names import cluster_name_of, connection_to, options_for
from .options import ApplyOptions, planning_options, risk_options
from .plan import preview_or_apply


def _pattern(_: click.Context, __: click.Parameter, text: str) -> re.Pattern[str]:
    try:
        return compile_name_pattern(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None


class NotAllRead(RemoteFailure, RuntimeError):
    """An error: some of the offsets to copy could not be read from the source cluster, so that they would be missing in
    the copy."""


@click.command("copy", short_help="Set offsets of groups to those that they have in another cluster.")
@click.option(
    "--from", "source", required=True, callback=cluster_name_of, metavar="PLACE", help="The cluster to read from."
)
@click.option(
    "--to", "target", required=True, callback=cluster_name_of, metavar="PLACE", help="The cluster to commit to."
)
@click.option(
    "--group", "pattern", required=True, callback=_pattern, metavar="REGEX", help="Groups whose whole name matches."
)
@click.option(
    "--ignore-topic-ids", is_flag=True, help="Although topics there are not the same ones, but only their names."
)
@risk_options
@planning_options
@connection_options
@output_options
@click.pass_context
def copy_offsets(
    ctx: click.Context,
    source: str,
    target: str,
    pattern: re.Pattern[str],
    ignore_topic_ids: bool,
    accepted: tuple[Risk, ...],
    apply_options: ApplyOptions,
) -> None:
    """Copy committed offsets from one cluster to another, for groups that have no members there. They may be new there.

    \b
    kcoord offsets copy --from proxy:9192 --to kafka:9092 --group payments
    kcoord offsets copy --from proxy:9192 --to kafka:9092 --group 'payments.*' --execute
    kcoord offsets copy --from context:old --to context:new --group '.*' --ignore-topic-ids --plan move.json

    With a proxy that coordinates locally and the cluster behind it, this writes the offsets back. A PLACE is HOST:PORT,
    context:NAME, or cluster: for that of -b or --context. Leader epochs and metadata go along for the very same topics.

    The record at each offset is compared on both sides, and the plan shows both times. A group is refused as a whole,
    and the others are done, if a record differs or cannot be compared, if an offset is outside a log, or if the group
    still has members where it is read: those would go on behind what was copied. Each --accept option takes one of
    these risks.
    """
    came_from, goes_to = connection_to(ctx, source), connection_to(ctx, target)
    with open_cluster(goes_to) as there:
        with open_cluster(came_from) as here, progress("reading offsets and records"):
            exported = _exported(here, pattern)
            lines, unread = _with_records(here, exported.lines, there)
        for line in (*exported.notes, *map(str, unread)):
            echo_err(f"kcoord: {line}")
        planned = plan_from_files(
            there,
            offsets_by_group(lines),
            verb=Verb.COPY,
            target=source,
            now=datetime.now(UTC),
            ignores_topic_ids=ignore_topic_ids,
            accepted=accepted,
        )
        preview_or_apply(
            ctx, there, planned, apply_options, where=format_cluster_options(ctx, options_for(ctx, target))
        )


def _exported(cluster: ClusterClient, pattern: re.Pattern[str]) -> Exported:
    """Exports the offsets of the matching groups. Raises NotAllRead unless all of them can be read."""
    listed = cluster.list_groups()
    names = [name for name in listed.found if pattern.fullmatch(name)]
    if not names and not listed.refused:
        raise NoGroupSelected(f"no group's name is {pattern.pattern!r}: there are {len(listed.found)}")
    exported = export(cluster, names, with_records=False)
    if refused := (*map(str, listed.refused), *exported.refused, *exported.missing):
        raise NotAllRead(f"nothing is copied, as not all can be read: {'; '.join(refused)}")
    return exported


def _with_records(
    source: ClusterClient, lines: Collection[OffsetLine], target: ClusterClient
) -> tuple[list[OffsetLine], tuple[Refusal, ...]]:
    """Adds record marks to the offsets whose logs differ in the target. Also returns what could not be read."""
    topics = target.topics(sorted({line.tp.topic for line in lines})).found
    ids = {name: topic.id for name, topic in topics.items()}
    cluster_id = target.cluster_id()
    same: list[OffsetLine] = []
    others: list[OffsetLine] = []
    for line in lines:
        origin = origin_of(line, cluster_id=cluster_id, topic_id=ids.get(line.tp.topic))
        (same if origin is Origin.SAME_LOG else others).append(line)
    marked, unread = mark_lines(source, others)
    return [*same, *marked], unread
