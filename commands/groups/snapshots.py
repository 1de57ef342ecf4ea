"""Common steps of commands that read groups: select groups, read a snapshot with a progress bar, report refusals."""

import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.groups.group_snapshot import GroupSummaries, Snapshot
from kcoord.admin.groups.selection import select_groups
from kcoord.admin.groups.snapshot_reader import MAX_GROUPS_WITH_TIMES, read_snapshot, read_summaries
from kcoord.admin.model import Refusal

from ..output.output import echo_err, progress
from .choice import GroupSelection


def read_selected(cluster: ClusterClient, choice: GroupSelection, *, with_times: bool | None) -> Snapshot:
    """Reads a snapshot of the groups that the command line selects, with a progress bar. If `with_times` is None,
    record times are read unless there are too many groups."""
    names, unlisted = select_groups(cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything)
    if with_times is None:
        with_times = len(names) <= MAX_GROUPS_WITH_TIMES
        if not with_times:
            echo_err(f"{len(names):,} groups: the times of their records are not read; --time reads them")
    seen = read_named(cluster, names, with_times=with_times)
    return replace(seen, refused=(*unlisted, *seen.refused))


def read_named(cluster: ClusterClient, names: Collection[str], *, with_times: bool) -> Snapshot:
    """Reads a snapshot of these groups, with a progress bar."""
    with progress("reading groups", len(names)) as bar:
        return read_snapshot(cluster, names, at=time.time(), with_times=with_times, advance=bar.advance)


def summarize_named(cluster: ClusterClient, names: Collection[str]) -> GroupSummaries:
    """Reads summaries of these groups, with a progress bar."""
    with progress("reading groups", len(names)) as bar:
        return read_summaries(cluster, names, advance=bar.advance)


def exit_if_refused(refused: Iterable[Refusal]) -> None:
    """Prints each error of a group or broker that the cluster has refused to report, and exits with code 1 if there is
    any."""
    refusals = list(refused)
    for refusal in refusals:
        echo_err(f"kcoord: {refusal}")
    if refusals:
        sys.exit(1)
