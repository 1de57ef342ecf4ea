"""The table of all checks, and the examination: it runs every check on every group, and sorts the worst findings
first."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kcoord.admin.doctor import assignment, lag, members, offsets, rebalances, settings
from kcoord.admin.doctor.case import Case, Facts, Observation
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import Refusal
from kcoord.errors import ErrorCode

Check = Callable[[Case], Iterable[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    rebalances.stuck_rebalance,
    rebalances.frequent_rebalances,
    assignment.unowned_partitions,
    assignment.subscribed_topic_missing,
    assignment.uneven_assignment,
    offsets.offset_before_log_start,
    offsets.offset_beyond_log_end,
    offsets.offset_near_retention,
    offsets.offset_of_missing_partition,
    lag.commits_stalled,
    lag.nothing_committed,
    lag.lag_growing,
    lag.no_members,
    lag.abandoned_topic,
    members.idle_members,
    members.mixed_subscriptions,
    members.mixed_protocols,
    members.mixed_static_members,
    members.static_member_missing,
    settings.group_settings,
)


def examine(snapshots: Sequence[Snapshot], facts: Facts, *, refused: Iterable[Refusal] = ()) -> tuple[Finding, ...]:
    """Runs all checks on the groups of these snapshots, the oldest first, and returns the problems that they find.
    `refused` are errors of groups that could not be read.

    Groups are sorted by their worst finding, then by name; so are the findings of one group. Those about no group come
    first among equally bad ones.
    """
    found = [finding for case in _cases(snapshots, facts) for check in CHECKS for finding in check(case)]
    found += _unexamined(snapshots, refused)
    if facts.consumer_config is not None:
        found += settings.consumer_settings(facts.consumer_config)
    worst: dict[str, int] = {}
    for finding in found:
        worst[finding.group] = min(finding.severity.rank, worst.get(finding.group, finding.severity.rank))
    return tuple(sorted(found, key=lambda finding: (worst[finding.group], finding.group, finding.severity.rank)))


def _cases(snapshots: Sequence[Snapshot], facts: Facts) -> Iterable[Case]:
    """Yields a case for each group of the last snapshot. A group that is gone, or can no longer be read, is in its
    refusals."""
    for name in snapshots[-1].groups if snapshots else ():
        observations = tuple(
            Observation(snapshot.at, snapshot.groups[name]) for snapshot in snapshots if name in snapshot.groups
        )
        yield Case(observations=observations, snapshots=tuple(snapshots), facts=facts)


def _unexamined(snapshots: Sequence[Snapshot], refused: Iterable[Refusal]) -> Iterable[Finding]:
    """Yields a finding for each refusal, once: a warning for one of the last snapshot, a notice for one that is over or
    a group that is gone.

    A topic that does not exist is skipped here: the check of offsets reports it.
    """
    at_the_end = dict.fromkeys((*(refusal for snapshot in snapshots[-1:] for refusal in snapshot.refused), *refused))
    before = dict.fromkeys(refusal for snapshot in snapshots for refusal in snapshot.refused)
    for refusal in {**at_the_end, **before}:
        if refusal.error is ErrorCode.unknown_topic_or_partition:
            continue
        group = refusal.group_name
        was_there = any(group in snapshot.groups for snapshot in snapshots)
        severity, title = Severity.WARNING, "could not be examined"
        if refusal not in at_the_end:
            severity, title = Severity.NOTICE, "was not told for a time"
        elif refusal.error is ErrorCode.group_id_not_found and was_there:
            severity, title = Severity.NOTICE, "was deleted meanwhile"
        yield Finding(
            severity=severity,
            code=Code.NOT_EXAMINED,
            group=group,
            title=f"{title}: {refusal}",
            evidence=(),
            advice=_ADVICE.get(refusal.error, "What depends on it is not in these findings: try again."),
            facts={"what": refusal.what, "error": refusal.error.name.upper(), "message": refusal.message},
        )


_ADVICE: Final = {
    ErrorCode.group_id_not_found: "There is no such group: see `kcoord groups list`.",
    ErrorCode.group_authorization_failed: "Ask for the rights DESCRIBE and DESCRIBE_CONFIGS on the group.",
    ErrorCode.topic_authorization_failed: "Ask for the rights DESCRIBE, DESCRIBE_CONFIGS and READ on the topic.",
    ErrorCode.cluster_authorization_failed: "Ask for the right DESCRIBE on the cluster.",
}
