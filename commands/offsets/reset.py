"""`kcoord offsets reset`: moves groups to other offsets."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kcoord.admin.groups.selection import select_groups
from kcoord.admin.offsets.files.documents import BadDocument, read_text
from kcoord.admin.offsets.files.importing import offsets_by_group, only_groups, read_offsets
from kcoord.admin.offsets.planning import plan_from_files, plan_reset
from kcoord.admin.offsets.plans import Risk, Verb
from kcoord.admin.offsets.resetting import OffsetsFromFile
from kcoord.admin.offsets.selecting import Selection, selects

from ..groups.choice import GroupSelection, group_options
from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import output_options, progress
from .options import ApplyOptions, offsets_connection, planning_options, risk_options, scope_of, scope_options
from .plan import preview_or_apply
from .targets import target_of, target_options


@click.command(short_help="Move groups to another place: an offset, a time, a distance.")
@group_options
@scope_options
@target_options
@click.option("--ignore-topic-ids", is_flag=True, help="With --from-file: take offsets of topics that were made anew.")
@risk_options
@planning_options
@connection_options
@output_options
@click.pass_context
def reset(
    ctx: click.Context,
    choice: GroupSelection,
    selections: tuple[Selection, ...],
    all_topics: bool,
    ignore_topic_ids: bool,
    accepted: tuple[Risk, ...],
    where: dict[str, Any],
    apply_options: ApplyOptions,
) -> None:
    """Reset offsets. The plan is shown: old and new offsets, what is replayed or skipped, and every fallback.

    \b
    kcoord offsets reset payments --topic orders --to earliest
    kcoord offsets reset payments --topic orders:0,2-3 --to @-1h --execute
    kcoord offsets reset payments --all-topics --shift-by -100 --plan back.json
    kcoord offsets reset --regex '^prod-' --all-topics --to @2026-11-16T10:00

    The offsets are those that kafka-consumer-groups --reset-offsets gives. The groups must have no members; the broker
    itself refuses it if one joins meanwhile. Before anything is changed an undo file is written. With --from-file the
    options --accept-... are those of kcoord offsets import.
    """
    now = datetime.now(UTC)
    target = target_of(where, now=now)
    if ignore_topic_ids and not isinstance(target, Path):
        raise click.UsageError("--ignore-topic-ids is for --from-file: no other target has ids of topics")
    if accepted and not isinstance(target, Path):
        raise click.UsageError(f"{accepted[0].option} is for --from-file: no other target comes from another cluster")
    scope = selections if isinstance(target, Path) else scope_of(selections, all_topics)
    with open_cluster(offsets_connection(ctx)) as cluster:
        with progress("reading groups and logs"):
            names, unlisted = select_groups(
                cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything
            )
            if isinstance(target, Path):
                planned = plan_from_files(
                    cluster,
                    _listed(target, choice, names, selections),
                    verb=Verb.RESET,
                    target=f"from-file {target}",
                    now=now,
                    ignores_topic_ids=ignore_topic_ids,
                    accepted=accepted,
                )
            else:
                planned = plan_reset(cluster, names, scope=scope, target=target, now=now)
        preview_or_apply(ctx, cluster, planned, apply_options, unlisted=unlisted)


def _listed(
    path: Path, choice: GroupSelection, names: list[str], selections: tuple[Selection, ...]
) -> dict[str, OffsetsFromFile]:
    """Reads the offsets of the selected groups from a file. A named group must be in it; of a pattern, only those in
    it count."""
    lines = read_offsets(read_text(path), str(path), group=names[0] if len(names) == 1 else None)
    named = only_groups(lines, choice.names)
    others = [line for line in lines if line.group in names and line.group not in choice.names]
    wanted = offsets_by_group(line for line in (*named, *others) if not selections or selects(selections, line.tp))
    if not wanted:
        raise BadDocument(f"{path}: it has no offsets of what was named")
    return wanted
