"""Range and round robin over members in an order that the library chooses."""

from collections.abc import Iterable, Sequence

from kcoord.assignors.plan import AssignorFailed, Plan, group_by_topic


def cut_range(plan: Plan, topic: str, count: int, members: Sequence[str]) -> None:
    """Adds adjacent ranges of one topic to the plan: the first members get one partition more."""
    least, remainder = divmod(count, len(members))
    first = 0
    for rank, member_id in enumerate(members):
        end = first + least + (rank < remainder)
        if end > first:
            plan[member_id][topic] = range(first, end)
        first = end


def deal_in_circle(
    plan: Plan, partitions: Iterable[tuple[str, int]], members: Sequence[tuple[str, frozenset[str]]]
) -> None:
    """Deals partitions out one by one to members with their topics. Each goes to the next member that is subscribed to
    its topic, and the circle goes on from there."""
    dealt: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id, _ in members}
    position = -1
    for topic, number in partitions:
        for _ in members:
            position = (position + 1) % len(members)
            if topic in members[position][1]:
                break
        else:
            raise AssignorFailed(f"no member is subscribed to {topic}")
        dealt[members[position][0]].append((topic, number))
    for member_id, given in dealt.items():
        plan[member_id] = group_by_topic(given)
