"""`kcoord groups watch`: shows groups as they change."""

import os
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from kcoord.admin.cluster_client import ClusterClient, Refused
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.selection import NoGroupSelected, select_groups
from kcoord.admin.groups.snapshot_changes import WatchHistory
from kcoord.admin.groups.snapshot_reader import read_snapshot
from kcoord.admin.groups.time_cache import TimeCache
from kcoord.admin.model import Refusal
from kcoord.admin.opening import open_cluster
from kcoord.admin.waiting import Waits

from ...opening import WaitReporter, wait_report_delay
from ...options.connection_options import connection, connection_options
from ...options.duration_options import duration, interval
from ...output.output import echo_err, output_of, output_options
from ..choice import GroupSelection, group_options
from .snapshots import poll_snapshots, record_result
from .views import JsonView, LinesView, View

MAX_REQUEST_TIMEOUT: Final = 5.0  # seconds; with a longer request timeout the screen would seem dead


@click.command(short_help="Groups as they change: state, owners, lag and its speed.")
@group_options
@click.option(
    "--every", callback=interval, default="2s", show_default=True, metavar="DURATION", help="From look to look."
)
@click.option("--for", "limit", callback=duration, metavar="DURATION", help="End after so long; without it, at Ctrl-C.")
@connection_options
@output_options
@click.pass_context
def watch(ctx: click.Context, choice: GroupSelection, every: timedelta, limit: timedelta | None) -> None:
    """Watch groups: their state, who owns what, lag, how fast it shrinks, and when they will have caught up.

    \b
    kcoord groups watch payments
    kcoord groups watch payments orders --every 5s
    kcoord groups watch --regex '^prod-' --for 10m > changes.log
    kcoord groups watch payments -o json | jq 'select(.event == "change")'

    On a terminal it is a screen, with keys to scroll (arrows, page up and down, tab), sort (s), filter (/) and quit
    (q); ? lists them. Otherwise it is one line for each group and look, and one for each change. -o json is one JSON
    object on each line.

    IN/S is what is written each second, OUT/S what the group commits, over the last half minute; BEHIND is the age of
    the first record that is not consumed yet. CATCHES-UP-IN is the time until nothing is left if both go on like that,
    or: caught up, steady (the lag stays about the same), never (it grows, or nobody consumes), beyond end.

    Brokers may restart meanwhile: it says so, and goes on. Ctrl-C ends it with exit code 0.
    """
    output = output_of(ctx)
    if output.format in ("yaml", "csv"):
        raise click.UsageError(f"-o {output.format} is no form for what goes on: -o json is one object on each line")
    where = connection(ctx)
    patient = replace(where, request_timeout=min(MAX_REQUEST_TIMEOUT, where.request_timeout))
    has_screen = output.is_for_people and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    cluster = _ReopeningCluster(patient, choice, reports_waits=output.is_for_people and not has_screen)
    bootstrap = ", ".join(where.bootstrap)
    with suppress(KeyboardInterrupt):
        if has_screen:
            from .live import watch_on_screen

            watch_on_screen(cluster, output, bootstrap, cluster.waits, every, limit)
        else:
            if sys.stderr.isatty():  # somebody waits before it for the first line
                echo_err(f"kcoord: reading groups from {bootstrap} since {datetime.now(UTC):%H:%M:%S} UTC")
            view = JsonView() if output.format == "json" else LinesView()
            with cluster:
                _show_all(cluster, view, every, limit)


def _show_all(cluster: "_ReopeningCluster", view: View, every: timedelta, limit: timedelta | None) -> None:
    history = WatchHistory()
    with ExitStack() as first_wait:
        first_wait.enter_context(WaitReporter(cluster.waits, after=wait_report_delay()))
        for at, result in poll_snapshots(cluster.snapshot, every, limit, sleep=time.sleep):
            first_wait.close()
            view.show(history, record_result(history, at, result))


class _ReopeningCluster:
    """A connection to the cluster that is reopened after a failure, since the brokers may have changed."""

    def __init__(self, where: Connection, choice: GroupSelection, *, reports_waits: bool) -> None:
        self.waits = Waits()
        self._where, self._choice, self._reports_waits = where, choice, reports_waits
        self._stack = ExitStack()
        self._times = TimeCache()
        self._cluster: ClusterClient | None = None
        self._has_chosen = False
        self._has_seen = False

    def __enter__(self) -> "_ReopeningCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def snapshot(self, at: float) -> Snapshot:
        """Reads a snapshot. Groups are selected again each time, since new ones may match the pattern."""
        if self._cluster is None:
            self._cluster = self._stack.enter_context(open_cluster(self._where, waits=self.waits))
        try:
            names, unlisted = self._chosen(self._cluster)
            seen = self._times.fill(self._cluster, read_snapshot(self._cluster, names, at=at, with_times=False))
        except (ConnectionError, Refused):
            self._cluster = None
            self._stack.close()
            raise
        if self._reports_waits and not self._has_seen:
            self._has_seen = True
            for refusal in seen.refused:
                echo_err(f"kcoord: {refusal}; waiting for it")
        return replace(seen, refused=(*unlisted, *seen.refused))

    def _chosen(self, cluster: ClusterClient) -> tuple[list[str], tuple[Refusal, ...]]:
        """Selects the groups. No match is an error in the first snapshot only; later all may have been deleted."""
        try:
            names, unlisted = select_groups(
                cluster, names=self._choice.names, pattern=self._choice.pattern, everything=self._choice.everything
            )
        except NoGroupSelected:
            if not self._has_chosen:
                raise
            return [], ()
        self._has_chosen = True
        return names, unlisted
