"""The server-side uniform assignor of consumer groups (KIP-848): as even as possible, then as sticky as possible."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from kcoord.assignors.dealing import Numbers
from kcoord.assignors.left_over import LeftOver
from kcoord.assignors.plan import AssignorFailed, MemberPlan, Plan, Subscriber, Topics, count_partitions
from kcoord.assignors.server_side.served_group import ServedGroup
from kcoord.assignors.server_side.uniform_mixed_topics import assign_uniform_mixed_topics
from kcoord.java_hashing import hash_set_order


def assign_uniform(members: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the target assignment of each member by Kafka's uniform assignor. `owned` of a member is its present
    target assignment. Where the choice is free, Kafka decides by the hashes of the topic ids."""
    group = ServedGroup.of(members, topics)
    if not group.counts:
        return {each.member_id: {} for each in group.members}
    return _assign_same_topics(group) if group.is_homogeneous else assign_uniform_mixed_topics(group)


def _assign_same_topics(group: ServedGroup) -> Plan:
    """Returns the target assignment where all members are subscribed to the same topics, as
    UniformHomogeneousAssignmentBuilder makes it: members keep what they have up to their quota, and those below it get
    what is left over in one piece each."""
    topics = group.in_set_order(group.topics_of(group.members[0]))
    runs = _unowned(group, topics)
    least, extras = divmod(sum(group.counts.values()), len(group.members))
    plan: Plan = {}
    unfilled: list[tuple[str, int]] = []
    for index, each in enumerate(group.members):
        quota = least + (extras > 0)
        has_extra = extras > 0
        plan[each.member_id], revoked = _retain(group, each, quota)
        runs += revoked
        room = quota - count_partitions(plan[each.member_id])
        if room > 0 and has_extra and len(group.members) - index > extras:
            # Another member may take the extra partition: this one is not among the last, which must.
            room -= 1
            has_extra = False
        if room > 0:
            unfilled.append((each.member_id, room))
        extras -= has_extra
    left_over = LeftOver.in_runs(runs)
    position = 0
    for member_id, room in unfilled:
        end = min(position + room, len(left_over))
        _add(plan[member_id], left_over.between(position, end))
        position = end
    if position < len(left_over):
        raise AssignorFailed("Partitions were left unassigned")
    return plan


def _unowned(group: ServedGroup, topics: Sequence[str]) -> list[tuple[str, Numbers]]:
    """Returns the partitions of these topics that no member has."""
    owned: defaultdict[str, list[int]] = defaultdict(list)
    for each in group.members:
        for topic, numbers in each.owned.items():
            owned[topic] += numbers
    everything = ((topic, range(group.counts[topic])) for topic in topics)
    return [
        (topic, sorted(set(numbers).difference(owned[topic])) if topic in owned else numbers)
        for topic, numbers in everything
    ]


def _retain(group: ServedGroup, member: Subscriber, quota: int) -> tuple[MemberPlan, list[tuple[str, Numbers]]]:
    """Returns what the member keeps of what it has, and what it must give up."""
    retained: MemberPlan = {}
    revoked: list[tuple[str, Numbers]] = []
    # A topic that is gone still is in the map, and counts for its size.
    for topic in group.in_map_order(member.owned):
        if topic not in group.counts:
            continue
        numbers = list(member.owned[topic])
        if len(numbers) > quota:
            numbers = hash_set_order(numbers, int)
            revoked.append((topic, numbers[quota:]))
            numbers = numbers[:quota]
        quota -= len(numbers)
        if numbers:
            retained[topic] = numbers
    return retained, revoked


def _add(held: MemberPlan, partitions: Iterable[tuple[str, Numbers]]) -> None:
    for topic, numbers in partitions:
        held[topic] = [*held[topic], *numbers] if topic in held else numbers
