"""What each strategy would make of a group as it is in one generation: of its assignment, not of its history."""

from collections.abc import Mapping

from kcoord.assignors.comparison import Outcome, play
from kcoord.assignors.plan import Topics
from kcoord.assignors.replaying.recording import Generation
from kcoord.assignors.strategies import STRATEGIES


def outcomes_of(generation: Generation, counts: Mapping[str, int]) -> dict[str, Outcome]:
    """Returns what each strategy would make of a generation's members, who have what it assigned to them, by the
    strategy's name. `counts` are the numbers of partitions of topics."""
    subscribers = [each.as_subscriber(each.assigned, generation.number) for each in generation.members]
    now = {each.member_id: each.assigned for each in generation.members}
    topics = Topics(counts=counts)
    return {name: play(each.assign, each.style, subscribers, topics, now) for name, each in STRATEGIES.items()}
