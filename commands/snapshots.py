"""Common steps of commands that read groups: select groups, read a snapshot with a progress bar, report refusals."""

import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from kcoord.admin.cluster_client import LiveCluster
from kcoord.admin.groups.group_snapshot import Look, Sums
from kcoord.admin.groups.selection import choose
from kcoord.admin.groups.snapshot_reader import MOST_GROUPS_WITH_TIMES, look, sums
from kcoord.admin.model import Refusal

from .groups.choice import Choice
from .output.output import progress, talk


def see(cluster: LiveCluster, choice: Choice, *, with_times: bool | None) -> Look:
    """Reads a snapshot of the selected groups. If `with_times` is None, record times are read unless there are too
    many groups."""
    names, unlisted = choose(cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything)
    if with_times is None:
        with_times = len(names) <= MOST_GROUPS_WITH_TIMES
        if not with_times:
            talk(f"{len(names):,} groups: the times of their records are not read; --time reads them")
    seen = see_named(cluster, names, with_times=with_times)
    return replace(seen, refused=(*unlisted, *seen.refused))


def see_named(cluster: LiveCluster, names: Collection[str], *, with_times: bool) -> Look:
    with progress("reading groups", len(names)) as bar:
        return look(cluster, names, at=time.time(), with_times=with_times, advance=bar.advance)


def sum_named(cluster: LiveCluster, names: Collection[str]) -> Sums:
    with progress("reading groups", len(names)) as bar:
        return sums(cluster, names, advance=bar.advance)


def end_with(refused: Iterable[Refusal]) -> None:
    """Prints what was refused, and exits with code 1 if anything was."""
    told = list(refused)
    for refusal in told:
        talk(f"kcoord: {refusal}")
    if told:
        sys.exit(1)
