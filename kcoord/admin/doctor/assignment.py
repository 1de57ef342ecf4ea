"""Checks for partitions that nobody owns, topics that do not exist, and shares that are more uneven than necessary."""

from collections.abc import Iterable
from typing import Any, Final

from kcoord.admin.doctor.case import Case, member_facts, partition_facts
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.formatting import first_few, format_count, format_member, format_partitions, format_shares
from kcoord.admin.model import GroupType
from kcoord.assignors.comparison import Outcome, play
from kcoord.assignors.plan import Plan, Topics, count_partitions, group_by_topic, shares, spread
from kcoord.assignors.range import assign_range
from kcoord.assignors.strategies import STRATEGIES, RebalanceStyle

_UNEVEN: Final = 2  # a difference of one partition between members is even


def unowned_partitions(case: Case) -> Iterable[Finding]:
    """Finds partitions that a stable group assigns to nobody: a topic has grown, or an assignor is wrong."""
    if not case.is_stable or any(member.assignment is None for member in case.group.members):
        return  # a member whose assignment is unreadable may own them
    owned = case.group.owners.keys()
    unowned = [
        tp
        for topic in sorted(case.subscribed & case.facts.topics.keys())
        for tp in case.facts.topics[topic].partitions
        if tp not in owned
    ]
    if not unowned:
        return
    yield case.finding(
        Severity.ERROR,
        Code.UNOWNED_PARTITIONS,
        f"nobody reads {format_count(len(unowned), 'partition')} that the group subscribes to",
        evidence=[f"without an owner: {format_partitions(unowned)}", f"the group is {case.group.state}"],
        advice=(
            "If partitions were added just now, members notice within metadata.max.age.ms (five minutes unless set) and"
            " rebalance by themselves; restart one member to have it at once. If this stays, the assignor"
            f" {case.group.protocol!r} leaves them out: see the logs of the member that leads the group."
        ),
        partitions=[partition_facts(tp) for tp in unowned],
    )


def subscribed_topic_missing(case: Case) -> Iterable[Finding]:
    """Finds topics that members subscribe to and that do not exist: they were deleted, or the name is mistyped."""
    owned = {tp.topic for tp in case.group.owners}
    missing = sorted((case.subscribed | owned) & case.facts.missing_topics)
    if not missing:
        return
    yield case.finding(
        Severity.WARNING,
        Code.SUBSCRIBED_TOPIC_MISSING,
        f"members read {format_count(len(missing), 'topic')} that the cluster does not have",
        evidence=first_few([f"there is no topic {topic}" for topic in missing]),
        advice=(
            "If the topic was deleted by mistake, make it again; committed offsets of the old one then lead nowhere:"
            " reset them. If it is gone for good or its name is mistyped, change what the members subscribe to."
        ),
        topics=missing,
    )


def uneven_assignment(case: Case) -> Iterable[Finding]:
    """Finds an assignment in which some members have more partitions than others, though an even one is possible."""
    now: Plan = {member.member_id: group_by_topic(member.assignment or ()) for member in case.group.members}
    even, subscribers, counts = case.even_plan, case.subscribers, case.partition_counts
    if even is None or subscribers is None or counts is None:
        return
    if spread(now) < _UNEVEN or spread(now) <= spread(even):
        return
    outcomes = {
        name: play(strategy.assign, strategy.style, subscribers, Topics(counts=counts), now)
        for name, strategy in STRATEGIES.items()
        if strategy.is_server_side == (case.group.type is GroupType.CONSUMER)
    }
    evidence = [f"now ({case.group.protocol}): {format_shares(shares(now))} partitions by member"]
    evidence += first_few(
        [
            _format_share(case, member_id, now)
            for member_id in sorted(now, key=lambda each: -count_partitions(now[each]))
        ]
    )
    as_range = assign_range(subscribers, Topics(counts=counts))
    if shares(as_range) == shares(now) and len(counts) > 1:
        evidence.append(
            f"so range shares out {len(counts)} topics: each by itself, the first members get one more each time"
        )
    evidence += [_format_outcome(name, outcome) for name, outcome in outcomes.items()]
    yield case.finding(
        Severity.WARNING,
        Code.UNEVEN_ASSIGNMENT,
        f"partitions are shared unevenly: one member has {shares(now)[0]}, another {shares(now)[-1]}",
        evidence=evidence,
        advice=_advice(case),
        assignor=case.group.protocol,
        members=[
            member_facts(
                case.member(member_id),
                partitions=count_partitions(now[member_id]),
                with_sticky=count_partitions(even[member_id]),
                with_range=count_partitions(as_range[member_id]),
            )
            for member_id in now
        ],
        strategies=[_outcome_facts(name, outcome) for name, outcome in outcomes.items()],
    )


def _format_outcome(name: str, outcome: Outcome) -> str:
    """Formats what a strategy would make of the group."""
    if outcome.failure is not None:
        return f"{name} would fail: {outcome.failure}"
    moved = format_count(len(outcome.moved | outcome.started), "partition")
    style = STRATEGIES[name].style
    pause = {
        RebalanceStyle.EAGER: f"; all {len(outcome.paused)} pause",
        RebalanceStyle.COOPERATIVE: f", which pause during {format_count(outcome.rebalances, 'rebalance')}",
        RebalanceStyle.INCREMENTAL: ", which pause one member at a time",
    }[style]
    return f"{name} would give {format_shares(shares(outcome.plan))}, moving {moved}{pause if outcome.paused else ''}"


def _outcome_facts(name: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "strategy": name,
        "shares": shares(outcome.plan),
        "moved": len(outcome.moved),
        "started": len(outcome.started),
        "paused": len(outcome.paused),
        "rebalances": outcome.rebalances,
        "failure": outcome.failure,
    }


def _advice(case: Case) -> str:
    if case.group.type is GroupType.CONSUMER:
        return (
            "Let the group use the assignor uniform: group.remote.assignor=uniform on its members. Keep range only if"
            " the application joins topics by partition number."
        )
    return (
        "Set partition.assignment.strategy to the cooperative sticky assignor on all members: in two rolling restarts,"
        " first beside the old one, then alone. Keep range only if the application joins topics by partition number."
    )


def _format_share(case: Case, member_id: str, now: Plan) -> str:
    return f"{count_partitions(now[member_id])}: {format_member(case.member(member_id))}"
