"""The members of a described group as assignors take them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kcoord.admin.model import Member
from kcoord.assignors.plan import Subscriber, group_by_topic, with_owned


def subscribers_of(members: Iterable[Member]) -> tuple[Subscriber, ...] | None:
    """Returns the members of a group with their subscribed topics and with what they own, or None if those of some
    member are unknown.

    A member of a KIP-848 group owns its target assignment, from which its coordinator plans. Which topics a pattern
    matches shows only in assignments: all members with the same pattern are subscribed to what any of them has.
    """
    known = list(members)
    if not known or any(each.assignment is None or each.subscription is None for each in known):
        return None
    matched = _matched_topics(known)
    return tuple(
        with_owned(
            Subscriber(
                member_id=each.member_id,
                instance_id=each.instance_id,
                topics=tuple(sorted({*(each.subscription or ()), *matched.get(each.subscribed_regex or "", ())})),
                rack=each.rack,
            ),
            group_by_topic(each.assignment or () if each.target is None else each.target),
        )
        for each in known
    )


def _matched_topics(members: Iterable[Member]) -> Mapping[str, set[str]]:
    """Returns the topics that members with a pattern have, by pattern."""
    matched: dict[str, set[str]] = defaultdict(set)
    for each in members:
        if each.subscribed_regex:
            matched[each.subscribed_regex].update(tp.topic for tp in (*(each.assignment or ()), *(each.target or ())))
    return matched
