"""Seeded cases for the libraries: those of Kafka's own assignors, as a library's leader reads them. And what counts as
the same plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias

from kcoord.assignors.libraries.table import LIBRARIES, LibraryStrategy
from kcoord.assignors.plan import AssignorFailed, Plan, Subscriber, Topics, list_partitions
from kcoord.protocol.consumer_protocol import write_subscription
from tests.assignors.cases import Case, make_case

Sets: TypeAlias = dict[str, dict[str, set[int]]]


class Verdict(StrEnum):
    """What comes out when our plan is compared with those of a library."""

    SAME = "the same plan, or none by both"
    AS_GOOD = "another plan that is as good, as the table of libraries says"
    NOT_COMPARED = "another plan, where the table of libraries promises nothing"
    OTHER = "another plan"


def make_library_case(library: str, strategy: str, seed: int) -> Case:
    """Makes a case whose members may be in one group: no two have the same instance id. Of kafka-python, every
    second member's sticky user data are as kafka-python writes them."""
    case = make_case(strategy, seed, as_clients_send=True)
    instances: set[str | None] = {None}
    members = []
    for index, each in enumerate(case.members):
        instance_id = None if each.instance_id in instances else each.instance_id
        instances.add(instance_id)
        subscription = each.subscription
        if library == "kafka-python" and strategy == "sticky" and index % 2:
            subscription = replace(subscription, user_data=_as_kafka_python_writes(subscription.user_data))
        members.append(replace(each, instance_id=instance_id, subscription=subscription))
    return replace(case, members=members)


def _as_kafka_python_writes(user_data: bytes | None) -> bytes:
    """Returns sticky user data after their version. A list that is null, which nobody writes, makes kafka-python
    fail."""
    return b"" if user_data is None or user_data.startswith(b"\xff" * 4) else b"\0\1" + user_data


def subscription_bytes(case: Case) -> list[tuple[str, str | None, bytes]]:
    """Returns the members of a case as they are in the JoinGroup response: id, instance id, subscription."""
    return [
        (each.member_id, each.instance_id, write_subscription(each.subscription, version=each.version))
        for each in case.members
    ]


def subscribers(strategy: LibraryStrategy, case: Case) -> list[Subscriber]:
    """Returns the members as the library's leader reads them."""
    return [
        strategy.subscriber(member_id, content, instance_id=instance_id)
        for member_id, instance_id, content in subscription_bytes(case)
    ]


def plan_of(library: str, case: Case) -> Sets | str:
    """Returns our plan of a case, or why there is none."""
    strategy = LIBRARIES[library].strategies[case.strategy]
    try:
        plan = strategy.assign(subscribers(strategy, case), Topics(counts=case.counts))
    except AssignorFailed as failed:
        return str(failed)
    return as_sets(plan)


def as_sets(plan: Plan) -> Sets:
    """Returns a plan without the order of partitions."""
    return {member: {topic: set(numbers) for topic, numbers in held.items()} for member, held in plan.items()}


def sizes(plan: Mapping[str, Mapping[str, set[int]]]) -> list[int]:
    """Returns the sizes of the shares, the smallest first."""
    return sorted(sum(map(len, held.values())) for held in plan.values())


def count_retained(plan: Mapping[str, Mapping[str, set[int]]], members: Sequence[Subscriber]) -> int:
    """Counts the partitions that stay with a member that claims them."""
    return sum(
        number in plan[each.member_id].get(topic, ())
        for each in members
        for topic, number in list_partitions(each.owned)
    )


def is_claimed_twice(members: Sequence[Subscriber]) -> bool:
    """Whether two members claim the same partition."""
    claims = [partition for each in members for partition in list_partitions(each.owned)]
    return len(set(claims)) < len(claims)


def has_same_topics(members: Sequence[Subscriber]) -> bool:
    """Whether all members are subscribed to the same topics."""
    return len({frozenset(each.topics) for each in members}) < 2


def compare(
    library: str, strategy: str, members: Sequence[Subscriber], ours: Sets | str, theirs: Sequence[Sets] | str
) -> Verdict:
    """Compares our plan with the plans that the library has made of the same group; a text says why there is none."""
    if isinstance(theirs, str) or isinstance(ours, str):
        return Verdict.SAME if isinstance(theirs, str) and isinstance(ours, str) else Verdict.OTHER
    if ours in theirs:
        return Verdict.SAME
    if LIBRARIES[library].strategies[strategy].is_exact:
        return Verdict.OTHER
    if not _is_promised(library, strategy, members):
        return Verdict.NOT_COMPARED
    measured = _measures(strategy, ours, members)
    is_as_good = library != "kafka-python" and all(_measures(strategy, each, members) == measured for each in theirs)
    return Verdict.AS_GOOD if is_as_good else Verdict.OTHER


def _is_promised(library: str, strategy: str, members: Sequence[Subscriber]) -> bool:
    """Whether all plans of the library have something in common."""
    if is_claimed_twice(members):
        return False
    if library == "franz-go":
        is_unsure = any(each.owned and each.generation is None for each in members)
        return strategy != "cooperative-sticky" or not is_unsure
    return has_same_topics(members)


def _measures(strategy: str, plan: Sets, members: Sequence[Subscriber]) -> tuple[list[int], int]:
    """Returns the sizes of the shares, and how many partitions stay where they are; of a cooperative plan the sum of
    the sizes, as which share lacks what others give up first differs from plan to plan."""
    shares = sizes(plan)
    return [sum(shares)] if strategy == "cooperative-sticky" else shares, count_retained(plan, members)
