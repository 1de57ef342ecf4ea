"""Checks for rebalances that do not end, and for rebalances that come again and again.

No API reports when a group rebalanced, or the generation of a classic group. The check counts what successive snapshots
show: a group that left Stable, and one whose members, assignment or epoch changed while it seemed Stable. Short
rebalances between two snapshots that change nothing are invisible, so there may be more than are counted, never fewer.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from kcoord.admin.doctor.case import Case, Observation, member_facts
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import first_few, format_count, format_member
from kcoord.admin.groups.snapshot_changes import ChangeKind, GroupChange, changes
from kcoord.admin.model import GroupType, Member

REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_MIN_REBALANCES: Final = 3
_EVIDENCE_KINDS: Final = (ChangeKind.STATE, ChangeKind.EPOCH, ChangeKind.MEMBER_JOINED, ChangeKind.MEMBER_LEFT)


def stuck_rebalance(case: Case) -> Iterable[Finding]:
    """Finds a rebalance that does not end: the group rebalances in every snapshot. With one snapshot it is only a
    reason to check again."""
    states = [observation.seen.group.state for observation in case.observations]
    if not set(states) <= REBALANCING:
        return
    lasting = case.is_observed_long_enough and _rebalances(case) < _MIN_REBALANCES
    if case.is_observed_long_enough and not lasting:
        return  # `frequent_rebalances` reports one rebalance after the other
    behind = [member for member in case.group.members if _is_behind(case, member)]
    title = (
        f"the rebalance has not ended in {format_duration(case.span)}: {case.group.state}"
        if lasting
        else f"the group is rebalancing: {case.group.state}"
    )
    yield case.finding(
        Severity.ERROR if lasting else Severity.NOTICE,
        Code.STUCK_REBALANCE,
        title,
        evidence=[
            f"in {format_count(len(states), 'look')}: {', '.join(dict.fromkeys(states))};"
            f" {format_count(len(case.group.members), 'member')}",
            *first_few([_behind_line(member) for member in behind]),
        ],
        advice=_stuck_advice(case) if lasting else "Look again over some time: `kcoord groups doctor --for 60s`.",
        states=list(dict.fromkeys(states)),
        seconds=case.span,
        behind=[member_facts(member, epoch=member.epoch) for member in behind],
    )


def frequent_rebalances(case: Case) -> Iterable[Finding]:
    """Finds groups that rebalance again and again, with the members that cause it."""
    count = _rebalances(case)
    if count < _MIN_REBALANCES:
        return
    evidence_changes = [
        change
        for change in changes(case.snapshots)
        if change.group == case.group.name and change.kind in _EVIDENCE_KINDS
    ]
    returning = _returning(case)
    yield case.finding(
        Severity.WARNING,
        Code.FREQUENT_REBALANCES,
        f"at least {count} rebalances in {format_duration(case.span)}",
        evidence=[
            f"one in {format_duration(case.span / count)} in the mean",
            *first_few([f"{client}: came back under {ids} member ids" for client, ids in returning.items()], limit=5),
            *first_few([_change_line(change) for change in evidence_changes], limit=6),
        ],
        advice=_often_advice(case, returning),
        rebalances=count,
        seconds=case.span,
        member_ids_by_client=dict(returning),
        changes=[{"at": change.at, "kind": change.kind.value, "says": change.text} for change in evidence_changes],
    )


def _rebalances(case: Case) -> int:
    return sum(_count_between(before, after) for before, after in pairwise(case.observations))


def _count_between(before: Observation, after: Observation) -> int:
    """Returns how many rebalances began between two observations, as far as they show."""
    old, new = before.seen.group, after.seen.group
    if old.epoch is not None and new.epoch is not None:
        return max(0, new.epoch - old.epoch)
    if old.state not in REBALANCING and new.state in REBALANCING:
        return 1
    if {member.member_id for member in old.members} != {member.member_id for member in new.members}:
        return 1
    both_stable = old.state == new.state == "Stable"
    return int(both_stable and _plan(old.members) != _plan(new.members))


def _plan(members: Iterable[Member]) -> dict[str, object]:
    return {member.member_id: member.assignment for member in members}


def _returning(case: Case) -> Counter[str]:
    """Returns clients (by client id and host) that were seen with more member ids than they have at any one time."""
    ever: dict[str, set[str]] = {}
    most: Counter[str] = Counter()
    for observation in case.observations:
        here = Counter(_client(member) for member in observation.seen.group.members)
        most |= here
        for member in observation.seen.group.members:
            ever.setdefault(_client(member), set()).add(member.member_id)
    return Counter({client: len(ids) for client, ids in ever.items() if len(ids) > most[client]})


def _client(member: Member) -> str:
    return f"{member.client_id} {member.host.removeprefix('/')}"


def _is_behind(case: Case, member: Member) -> bool:
    """Whether a KIP-848 member has not reached its target yet, or not revoked what it must."""
    if case.group.type is not GroupType.CONSUMER:
        return False
    return member.target != member.assignment or (member.epoch or 0) < (case.group.assignment_epoch or 0)


def _behind_line(member: Member) -> str:
    return f"waits for {format_member(member)}, at epoch {member.epoch}"


def _change_line(change: GroupChange) -> str:
    return f"{datetime.fromtimestamp(change.at, UTC):%H:%M:%S} {change.text}"


def _stuck_advice(case: Case) -> str:
    match case.group.state:
        case "PreparingRebalance":
            return (
                "The coordinator waits for members that do not rejoin: they are busy between two polls. It goes on"
                " without them after their max.poll.interval.ms (five minutes unless set). Find the member whose work"
                " on one batch takes so long; take fewer records (max.poll.records) or a shorter interval."
            )
        case "CompletingRebalance":
            return (
                "The coordinator waits for the plan of the member that leads the group, or for members to fetch it: the"
                " leader may hang, or fail while it assigns. See its logs, and restart it if it does not recover."
            )
        case _:
            return (
                "The members named above have not given up or taken over their partitions. They may be busy between two"
                " polls, or in a rebalance listener; the coordinator waits until max.poll.interval.ms and then removes"
                " them. See their logs."
            )


def _often_advice(case: Case, returning: Counter[str]) -> str:
    if returning:
        return (
            "Members leave and come back: see their logs for why. If they were removed for not polling in time, raise"
            " max.poll.interval.ms or lower max.poll.records; if their sessions ran out, look for long pauses or raise"
            " session.timeout.ms; if they crash or are restarted, mend that, and give them group.instance.id so that a"
            " restart does not rebalance the group."
        )
    return (
        "See what changes: members that come and go (an autoscaler, a deployment), topics that are made or grow under a"
        " pattern. The cooperative sticky assignor, or group.protocol=consumer, keeps the others at work meanwhile."
    )
