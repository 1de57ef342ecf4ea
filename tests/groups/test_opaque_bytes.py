"""Subscriptions and assignments are opaque: bytes that cannot be parsed never stop a group.

Kafka 4.3.1 parses the subscriptions when a join phase ends. With those below that hold an impossible count or length,
it never answers the join, and the group is unusable from then on.
"""

from datetime import timedelta

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.groups.classic.protocols import topics_of
from tests.support.conversation import Conversation
from tests.support.groups.scene import Scene, subscription

_NO_USER_DATA = (-1).to_bytes(4, signed=True)


def _listing(count: int, *lengths_and_names: tuple[int, bytes], end: bytes = _NO_USER_DATA, version: int = 0) -> bytes:
    names = b"".join(length.to_bytes(2, signed=True) + name for length, name in lengths_and_names)
    return version.to_bytes(2, signed=True) + count.to_bytes(4, signed=True) + names + end


UNREADABLE = {
    "nothing": b"",
    "half a version": b"\0",
    "a version only": b"\0\0",
    "half a count": b"\0\0\0\0",
    "a negative count": _listing(-1),
    "a count of more than there are": _listing(2, (1, b"t")),
    "the largest count": _listing(2**31 - 1, (1, b"t")),
    "no name": _listing(1, (-1, b"")),
    "a name that is cut off": _listing(1, (100, b"t")),
    "the longest name": _listing(1, (2**15 - 1, b"t")),
    "no user data": _listing(1, (1, b"t"), end=b""),
    "user data that is cut off": _listing(1, (1, b"t"), end=(100).to_bytes(4)),
    "text": b"range, please",
    "all ones": b"\xff" * 64,
}

READABLE = {
    "no topics": (_listing(0), set()),
    "one topic": (subscription("t"), {"t"}),
    "the same topic twice": (subscription("t", "t"), {"t"}),
    "a name of no letters": (_listing(1, (0, b"")), {""}),
    "a later version with more behind": (_listing(1, (1, b"t"), version=3) + b"more", {"t"}),
    "a negative version": (_listing(1, (1, b"t"), version=-3), {"t"}),
    "user data": (_listing(1, (1, b"t"), end=(4).to_bytes(4) + b"data"), {"t"}),
    "user data of less than nothing": (_listing(1, (1, b"t"), end=(-5).to_bytes(4, signed=True)), {"t"}),
    "a name that is not UTF-8": (_listing(1, (2, b"\xff\xfe")), {"��"}),
}


@pytest.mark.parametrize("name", READABLE)
def test_the_topics_of_a_subscription_are_read(name: str) -> None:
    content, topics = READABLE[name]
    assert topics_of(content) == topics


@pytest.mark.parametrize("name", UNREADABLE)
def test_topics_that_cannot_be_read_are_not_known(name: str) -> None:
    assert topics_of(UNREADABLE[name]) is None


def test_no_beginning_of_a_subscription_is_taken_for_all_of_it() -> None:
    whole = subscription("orders", "returns")
    assert [topics_of(whole[:length]) for length in range(len(whole))] == [None] * len(whole)
    assert topics_of(whole) == {"orders", "returns"}


@pytest.mark.parametrize("name", UNREADABLE)
def test_members_with_unreadable_subscriptions_rebalance_like_any_other(scene: Scene, name: str) -> None:
    protocols = (("range", UNREADABLE[name]),)
    leader = scene.join(protocols=protocols).reply
    assert (leader.error_code, leader.generation_id) == (ErrorCode.none, 1)
    second = scene.join(protocols=(("range", subscription("t")),))
    again = scene.join(leader.member_id, protocols=protocols).reply
    assert {member.metadata for member in again.members} == {UNREADABLE[name], subscription("t")}
    waiting = scene.sync(second.reply.member_id, 2)
    assert scene.sync(leader.member_id, 2, {second.reply.member_id: b"all"}).reply.error_code is ErrorCode.none
    assert waiting.reply.assignment == b"all"
    scene.restart()
    assert scene.state() == "Stable"
    scene.leave(leader.member_id)
    assert scene.join(second.reply.member_id).reply.generation_id == 3


@pytest.mark.parametrize("name", UNREADABLE)
def test_topics_that_are_not_known_count_as_subscribed_to(scene: Scene, name: str) -> None:
    (member,) = scene.stable_group(1, protocols=(("range", UNREADABLE[name]),))
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    (line,) = scene.delete_offsets({"t": [0]}).topics[0].partitions
    assert line.error_code is ErrorCode.group_subscribed_to_topic
    assert scene.offset().committed_offset == 1


def test_the_subscription_of_the_chosen_protocol_is_the_one_that_is_read(scene: Scene) -> None:
    readable, unreadable = ("range", subscription("t")), ("sticky", b"")
    (member,) = scene.stable_group(1, protocols=(readable, unreadable))
    assert scene.coordinator.groups["g"].subscribed_topics == {"t"}
    scene.join(member.member_id, protocols=(unreadable, readable))
    assert scene.coordinator.groups["g"].subscribed_topics is None


def test_the_topics_of_a_generation_are_those_that_its_members_joined_it_with(scene: Scene) -> None:
    before, after = (("range", subscription("t")),), (("range", subscription("another")),)
    leader, follower = scene.stable_group(2, protocols=before)
    group = scene.coordinator.groups["g"]
    assert scene.join(follower.member_id, protocols=after).is_parked
    assert scene.state() == "PreparingRebalance"
    assert (group.subscribes_to("t"), group.subscribes_to("another")) == (True, False)
    scene.join(leader.member_id, protocols=after)
    assert (group.subscribes_to("t"), group.subscribes_to("another")) == (False, True)


@pytest.mark.parametrize("name", UNREADABLE)
def test_assignments_are_handed_out_as_they_are(scene: Scene, name: str) -> None:
    leader, other = scene.completing_group(2)
    plan = {leader.member_id: UNREADABLE[name], other.member_id: b"?"}
    assert scene.sync(leader.member_id, 2, plan).reply.assignment == UNREADABLE[name]
    scene.restart()
    assert scene.sync(leader.member_id, 2).reply.assignment == UNREADABLE[name]
    assert scene.sync(other.member_id, 2).reply.assignment == b"?"


def test_the_name_of_a_protocol_may_be_empty(scene: Scene) -> None:
    both = (("", b"1"), ("range", b"2"))
    leader = scene.join(protocols=both).reply
    assert (leader.protocol_name, leader.members[0].metadata) == ("", b"1")
    second = scene.join()
    assert scene.join(leader.member_id, protocols=both).reply.protocol_name == "range"
    assert second.reply.protocol_name == "range"


def test_a_protocol_that_a_member_names_twice_is_one_vote_and_the_first_counts(scene: Scene) -> None:
    """Kafka counts it as if two members supported it, finds none that all do, and never answers."""
    response = Conversation(scene).ask(
        ApiKey.JOIN_GROUP,
        3,
        group_id="g",
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=60),
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"first"}, {"name": "range", "metadata": b"second"}],
    )
    assert (response.error_code, response.protocol_name) == (ErrorCode.none, "range")
    assert [member.metadata for member in response.members] == [b"first"]
    second = scene.join()
    assert scene.join(response.member_id, protocols=(("range", b"first"),)).reply.generation_id == 2
    assert second.reply.protocol_name == "range"
