"""What assignors are told of the members of a live group."""

from dataclasses import replace

from kcoord.admin.groups.subscribers import subscribers_of
from kcoord.admin.model import Member, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MEMBER = Member(
    member_id="m", instance_id="i", client_id="c", host="h", assignment=(A0, A1), subscription=("a",), rack="r"
)


def test_a_member_owns_its_assignment_since_the_latest_generation() -> None:
    (subscriber,) = subscribers_of([MEMBER]) or ()
    assert (subscriber.member_id, subscriber.instance_id, subscriber.rack) == ("m", "i", "r")
    assert subscriber.owned == {"a": [0, 1]}
    assert subscriber.generation is not None
    assert subscriber.generation == subscriber.field_generation


def test_a_member_that_reconciles_owns_what_its_coordinator_plans_from() -> None:
    (subscriber,) = subscribers_of([replace(MEMBER, target=(A0, B0))]) or ()
    assert subscriber.owned == {"a": [0], "b": [0]}


def test_members_with_one_pattern_are_subscribed_to_what_any_of_them_has() -> None:
    first = replace(MEMBER, member_id="x", subscription=(), subscribed_regex="[ab]", assignment=(A0,))
    second = replace(first, member_id="y", assignment=(B0,))
    other = replace(first, member_id="z", subscribed_regex="c", assignment=())
    found = {each.member_id: each.topics for each in subscribers_of([first, second, other]) or ()}
    assert found == {"x": ("a", "b"), "y": ("a", "b"), "z": ()}


def test_nothing_is_said_of_a_group_of_which_one_member_is_unknown() -> None:
    assert subscribers_of([]) is None
    assert subscribers_of([MEMBER, replace(MEMBER, subscription=None)]) is None
    assert subscribers_of([MEMBER, replace(MEMBER, assignment=None)]) is None
