"""`kcoord groups doctor`: examines groups and reports findings with advice."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from kcoord.admin.cluster_client import ClusterClient, Refused
from kcoord.admin.doctor.case import MIN_SPAN
from kcoord.admin.doctor.examining import examine
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.doctor.gathering import gather
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.selection import select_groups
from kcoord.admin.groups.snapshot_reader import MAX_GROUPS_WITH_TIMES, read_snapshot
from kcoord.admin.times import utc_text

from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..options.duration_options import duration, interval
from ..output.output import Cell, Column, Table, echo_err, is_colored, output_of, output_options, progress, show, write
from .choice import GroupSelection, group_options
from .doctor_text import FOLDED_ABOVE, SEVERITY_STYLES, findings_text, summary

NEVER: Final = "never"


@click.command(short_help="What is wrong with groups, and what to do about it.")
@group_options
@click.option(
    "--for",
    "seconds",
    callback=duration,
    default="0s",
    metavar="DURATION",
    help="Look again and again for so long: 60s. Without it there is one look.",
)
@click.option(
    "--every",
    callback=interval,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="From look to look, with --for.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*(each.value for each in Severity), NEVER]),
    default=Severity.ERROR.value,
    show_default=True,
    help="Exit 1 if there is a finding as bad as this.",
)
@click.option(
    "--severity",
    type=click.Choice([each.value for each in Severity]),
    help="Show findings as bad as this and worse. The exit code is by all of them.",
)
@click.option(
    "--unfolded",
    is_flag=True,
    help="Show each finding by itself, also where many groups have the same. -o json and csv always do.",
)
@click.option(
    "--consumer-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The properties that the members are started with: examined, too.",
)
@connection_options
@output_options
@click.pass_context
def doctor(
    ctx: click.Context,
    choice: GroupSelection,
    seconds: timedelta,
    every: timedelta,
    fail_on: str,
    severity: str | None,
    unfolded: bool,
    consumer_config: Path | None,
) -> None:
    """Say what is wrong with groups, by what was seen, and what to do about it.

    \b
    kcoord groups doctor payments
    kcoord groups doctor --all-groups --for 60s
    kcoord groups doctor --regex '^prod-' --for 5m --every 10s -o json --fail-on warning
    kcoord groups doctor payments --consumer-config consumer.properties
    kcoord groups doctor --all-groups --severity warning

    One look shows members that are idle or differ from the others, uneven shares, partitions that nobody owns, offsets
    out of range or near the end of their retention, and settings out of proportion. --for, at least ten seconds, is
    needed for lag that grows, commits that stand still, rebalances that do not end or come too often, and static
    members that go missing.

    The worst comes first. What many groups have is shown once, with some of their names; --unfolded shows each.

    Exit 0 if nothing is as bad as --fail-on says, else 1; also 1 if something could not be examined, unless --fail-on
    never. docs/doctor.md explains each finding by its code.
    """
    properties = _properties(consumer_config) if consumer_config else None
    with open_cluster(connection(ctx)) as cluster:
        snapshots = _take_snapshots(cluster, choice, seconds.total_seconds(), every.total_seconds())
        facts, not_examined = gather(cluster, snapshots[-1], consumer_config=properties)
    examination = Examination(
        snapshots=snapshots,
        findings=examine(snapshots, facts, refused=not_examined),
        shown=Severity(severity or "notice"),
    )
    if output_of(ctx).is_for_people:
        folded_above = None if unfolded else FOLDED_ABOVE
        write(
            findings_text(examination.shown_findings, is_colored=is_colored(output_of(ctx)), folded_above=folded_above)
        )
        line = summary(
            examination.findings,
            groups=len(snapshots[-1].groups),
            snapshots=len(snapshots),
            seconds=examination.seconds,
        )
        hidden = len(examination.findings) - len(examination.shown_findings)
        write(f"{line}; not shown by --severity: {hidden:,}\n" if hidden else f"{line}\n")
        if examination.seconds < MIN_SPAN:
            echo_err("So quickly nothing is seen of growth, standstill and rebalances: --for 60s looks for longer.")
    else:
        show(ctx, "groups-doctor", examination.document, examination.tables)
    sys.exit(1 if _fails(examination.findings, fail_on) else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of `kcoord groups doctor`: the snapshots that were examined, the findings, and which of them are
    shown."""

    snapshots: Sequence[Snapshot]
    findings: Sequence[Finding]
    shown: Severity  # the lowest severity that is shown

    @property
    def shown_findings(self) -> list[Finding]:
        """The findings that are severe enough to be shown."""
        return [finding for finding in self.findings if finding.severity.is_at_least(self.shown)]

    @property
    def seconds(self) -> float:
        """The time from the first snapshot to the last, in seconds."""
        return self.snapshots[-1].at - self.snapshots[0].at

    def document(self) -> dict[str, Any]:
        """Returns the result as a JSON document."""
        return {
            "at": utc_text(round(self.snapshots[-1].at * 1000)),
            "looks": len(self.snapshots),
            "seconds": round(self.seconds, 3),
            "groups": sorted(self.snapshots[-1].groups),
            "counts": {each.value: sum(found.severity is each for found in self.findings) for each in Severity},
            "findings": [_document(finding) for finding in self.shown_findings],
        }

    def tables(self) -> list[Table]:
        """Returns the result as a table, for CSV."""
        columns = ("SEVERITY", "CODE", "GROUP", "TITLE", "EVIDENCE", "ADVICE")
        rows = [
            (
                Cell(each.severity.value, SEVERITY_STYLES[each.severity]),
                each.code.value,
                each.group or None,
                each.title,
                "; ".join(each.evidence),
                each.advice,
            )
            for each in self.shown_findings
        ]
        return [Table(columns=list(map(Column, columns)), rows=rows)]


def _take_snapshots(cluster: ClusterClient, choice: GroupSelection, seconds: float, every: float) -> list[Snapshot]:
    """Takes snapshots of the selected groups until the time is over. Only the last one reads record times."""
    names, unlisted = select_groups(cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything)
    snapshots: list[Snapshot] = []
    end: float | None = None
    with progress("looking at groups", round(seconds)) as bar:
        while True:
            at, now = time.time(), time.monotonic()
            end = now + seconds if end is None else end
            is_last = now >= end
            try:
                snapshots.append(
                    read_snapshot(cluster, names, at=at, with_times=is_last and len(names) <= MAX_GROUPS_WITH_TIMES)
                )
            except (ConnectionError, Refused) as error:
                if is_last or not snapshots:
                    raise
                echo_err(f"kcoord: {error}; looking again")
            if is_last:
                return [*snapshots[:-1], replace(snapshots[-1], refused=(*unlisted, *snapshots[-1].refused))]
            time.sleep(max(0.0, min(now + every, end) - time.monotonic()))
            bar.advance(round(time.monotonic() - now))


def _properties(path: Path) -> Mapping[str, str]:
    from kcoord.java_properties import read_properties_file

    return {each.name: each.value for each in read_properties_file(path)}


def _fails(findings: Sequence[Finding], fail_on: str) -> bool:
    if fail_on == NEVER:
        return False
    return any(_is_unexamined(finding) or finding.severity.is_at_least(Severity(fail_on)) for finding in findings)


def _is_unexamined(finding: Finding) -> bool:
    """Returns whether a group could not be examined. Notices with this code are about groups that were deleted
    meanwhile, or were refused only for a time."""
    return finding.code is Code.NOT_EXAMINED and finding.severity.is_at_least(Severity.WARNING)


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "group": finding.group or None,
        "title": finding.title,
        "evidence": list(finding.evidence),
        "advice": finding.advice,
        "facts": finding.facts,
    }
