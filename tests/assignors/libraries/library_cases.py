"""Seeded cases for the libraries: those of Kafka's own assignors, as a library's leader reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from kcoord.assignors.libraries.table import LIBRARIES, LibraryStrategy
from kcoord.assignors.plan import AssignorFailed, Plan, Subscriber, Topics, list_partitions
from kcoord.protocol.consumer_protocol import write_subscription
from tests.assignors.cases import Case

Sets: TypeAlias = dict[str, dict[str, set[int]]]


def with_user_data_of_kafka_python(case: Case) -> Case:
    """Returns the case with every second member's user data as kafka-python writes them: its version first."""
    members = [
        replace(each, subscription=replace(each.subscription, user_data=b"\0\1" + (each.subscription.user_data or b"")))
        if index % 2
        else each
        for index, each in enumerate(case.members)
    ]
    return replace(case, members=members)


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


def count_kept(plan: Mapping[str, Mapping[str, set[int]]], members: Sequence[Subscriber]) -> int:
    """Counts the partitions that stay with a member that claims them."""
    return sum(
        number in plan[each.member_id].get(topic, ())
        for each in members
        for topic, number in list_partitions(each.owned)
    )
