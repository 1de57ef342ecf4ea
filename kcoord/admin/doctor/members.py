"""Checks for members that are idle, that differ from the others, or that are missing."""

from collections import defaultdict
from collections.abc import Iterable

from kcoord.admin.doctor.case import Case, member_facts
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.formatting import first_few, format_count, format_member
from kcoord.admin.model import GroupType, Member


def idle_members(case: Case) -> Iterable[Finding]:
    """Finds members without partitions, if no assignment could give them one. If one could, the assignment is uneven
    instead."""
    idle = [member for member in case.group.members if member.assignment == ()]
    if not idle or case.even_plan is None or case.partition_counts is None or all(case.even_plan.values()):
        return
    members, partitions = len(case.group.members), sum(case.partition_counts.values())
    yield case.finding(
        Severity.WARNING,
        Code.IDLE_MEMBERS,
        f"{len(idle)} of {format_count(members, 'member')} without anything to do",
        evidence=[
            f"{format_count(members, 'member')} for {format_count(partitions, 'partition')}"
            f" of {format_count(len(case.partition_counts), 'topic')}",
            *first_few([f"idle: {format_member(member)}" for member in idle]),
        ],
        advice=(
            f"Stop {format_count(len(idle), 'member')}, or give the topics more partitions (records of a key then go to"
            " another partition than before). As stand-ins for members that fail they do no harm."
        ),
        members=members,
        partitions=partitions,
        idle=[member_facts(member) for member in idle],
    )


def mixed_subscriptions(case: Case) -> Iterable[Finding]:
    """Finds different subscriptions in one group: often two applications that share a group id by mistake."""
    by_subscription: dict[tuple[tuple[str, ...], str | None], list[Member]] = defaultdict(list)
    for member in case.group.members:
        if member.subscription is not None:
            by_subscription[member.subscription, member.subscribed_regex].append(member)
    if len(by_subscription) < 2:
        return
    most_first = sorted(by_subscription.items(), key=lambda entry: -len(entry[1]))
    yield case.finding(
        Severity.WARNING,
        Code.MIXED_SUBSCRIPTIONS,
        f"members subscribe to different topics, in {len(by_subscription)} ways",
        evidence=first_few([_subscription_line(topics, regex, who) for (topics, regex), who in most_first]),
        advice=(
            "If these are two applications, give each its own group.id: in one group they interrupt each other whenever"
            " one of them rebalances. If it is one application in two versions, finish the deployment."
        ),
        subscriptions=[
            {"topics": list(topics), "regex": regex, "members": [member_facts(member) for member in who]}
            for (topics, regex), who in most_first
        ],
    )


def mixed_protocols(case: Case) -> Iterable[Finding]:
    """Finds groups with members of the classic and of the KIP-848 protocol: a migration that has begun and not
    ended."""
    if case.group.type is not GroupType.CONSUMER:
        return
    classic = [member for member in case.group.members if member.is_classic]
    if not classic:
        return
    yield case.finding(
        Severity.WARNING,
        Code.MIXED_PROTOCOLS,
        f"still of the classic protocol: {len(classic)} of {format_count(len(case.group.members), 'member')}",
        evidence=first_few([f"classic: {format_member(member)}" for member in classic]),
        advice="Set group.protocol=consumer on these members too and restart them, to finish the migration to KIP-848.",
        classic=[member_facts(member) for member in classic],
    )


def mixed_static_members(case: Case) -> Iterable[Finding]:
    """Finds groups with static and dynamic members: a restart of a dynamic one still rebalances the group."""
    static = [member for member in case.group.members if member.instance_id is not None]
    dynamic = [member for member in case.group.members if member.instance_id is None]
    if not static or not dynamic:
        return
    yield case.finding(
        Severity.NOTICE,
        Code.MIXED_STATIC_MEMBERS,
        f"without a group.instance.id, beside others with one: {len(dynamic)} of {len(case.group.members)} members",
        evidence=first_few([f"without: {format_member(member)}" for member in dynamic]),
        advice="Give every member its own group.instance.id: a restart of one without it still rebalances the group.",
        static=[member_facts(member) for member in static],
        dynamic=[member_facts(member) for member in dynamic],
    )


def static_member_missing(case: Case) -> Iterable[Finding]:
    """Finds static members that were in the group in an earlier snapshot, and are gone. Such a member stays in its
    group until its session expires, so it was away for longer."""
    here = {member.instance_id for member in case.group.members}
    gone: dict[str, tuple[float, Member]] = {}
    for observation in case.observations:
        for member in observation.seen.group.members:
            if member.instance_id is not None and member.instance_id not in here:
                gone[member.instance_id] = observation.at, member
    if not gone:
        return
    yield case.finding(
        Severity.WARNING,
        Code.STATIC_MEMBER_MISSING,
        f"{format_count(len(gone), 'static member')} went missing",
        evidence=first_few(
            [f"{format_member(member)}, last seen {case.last.at - at:.0f} s ago" for at, member in gone.values()]
        ),
        advice=(
            "See whether these instances run. They did not come back within their session.timeout.ms, so their"
            " partitions went to others; if they are gone for good, this is the one rebalance that it takes."
        ),
        missing=[member_facts(member, last_seen_at=at) for at, member in gone.values()],
    )


def _subscription_line(topics: tuple[str, ...], regex: str | None, members: list[Member]) -> str:
    wanted = [*first_few(topics, limit=4), *([f"pattern {regex}"] if regex else [])]
    subscribers = first_few([format_member(member) for member in members], limit=3)
    return f"{', '.join(wanted) or 'nothing'}: {', '.join(subscribers)}"
