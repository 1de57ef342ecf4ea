"""OffsetFetch: reading committed offsets."""

from uuid import UUID

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.replies import OffsetGroup, OffsetLine
from kcoord.groups.requests import RequestedGroup, TopicPartitions
from kcoord.groups.topics import RecreatedTopic
from tests.support.groups.commits import Line, stored
from tests.support.groups.scene import WALL_START_MS, Scene

UNKNOWN_ID = UUID(int=99)


def nothing(partition: int) -> OffsetLine:
    """Returns the result for partitions without a committed offset."""
    return OffsetLine(
        partition_index=partition,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=ErrorCode.none,
    )


def lines(group: OffsetGroup) -> list[tuple[str | UUID | None, list[tuple[int, int]]]]:
    """Returns partitions and offsets in the order of the answer."""
    return [
        (topic.name or topic.topic_id, [(line.partition_index, line.committed_offset) for line in topic.partitions])
        for topic in group.topics
    ]


def topic_id(scene: Scene, name: str) -> UUID:
    found = scene.topics.topic_id(name)
    assert found is not None
    return found


# By name.


@pytest.mark.fact("O-101", "O-116")
def test_a_group_that_is_not_there_has_no_offsets_and_is_not_made(scene: Scene) -> None:
    [group] = scene.fetch({"t": [0, 3], "nope": [1]}).groups
    assert group.error_code is ErrorCode.none
    assert [topic.name for topic in group.topics] == ["t", "nope"]
    assert group.topics[0].partitions == (nothing(0), nothing(3))
    assert group.topics[1].partitions == (nothing(1),)
    assert not scene.list_groups().groups


@pytest.mark.fact("O-102")
def test_a_partition_that_was_never_committed_has_no_offset_and_that_is_no_error(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    [group] = scene.fetch({"t": [0, 1, 99], "nope": [0]}).groups
    assert group.error_code is ErrorCode.none
    assert group.topics[0].partitions[0].committed_offset == 7
    assert group.topics[0].partitions[1:] == (nothing(1), nothing(99))
    assert group.topics[1].partitions == (nothing(0),)


@pytest.mark.fact("O-103")
def test_all_offsets_of_a_group_are_answered_if_no_topics_are_named(scene: Scene) -> None:
    scene.commit({("t", 0): 1, ("t", 3): 2, ("u", 1): 3})
    [group] = scene.fetch(None).groups
    assert lines(group) == [("t", [(0, 1), (3, 2)]), ("u", [(1, 3)])]


@pytest.mark.fact("O-103", "O-116")
def test_of_a_group_that_is_not_there_nothing_is_all(scene: Scene) -> None:
    [group] = scene.fetch(None).groups
    assert (group.topics, group.error_code) == ((), ErrorCode.none)
    assert not scene.list_groups().groups


@pytest.mark.fact("O-103")
def test_an_empty_list_of_topics_asks_for_nothing(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    assert scene.fetch({}).groups[0].topics == ()


def test_topics_and_partitions_are_answered_as_they_were_asked_for(scene: Scene) -> None:
    scene.commit({("t", 0): 1, ("u", 1): 2})
    asked = tuple(
        TopicPartitions(name=name, topic_id=None, partitions=partitions)
        for name, partitions in (("u", (1, 0, 1)), ("t", ()), ("u", (1,)))
    )
    [group] = scene.fetch_groups(RequestedGroup(group_id="g", topics=asked)).groups
    assert lines(group) == [("u", [(1, 2), (0, -1), (1, 2)]), ("t", []), ("u", [(1, 2)])]


@pytest.mark.fact("O-107")
def test_a_dead_group_is_like_one_that_is_not_there(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    scene.kill_group()
    assert scene.offset() == nothing(0)
    assert scene.fetch(None).groups[0].topics == ()


@pytest.mark.fact("O-108")
def test_groups_are_answered_in_their_order_and_each_for_itself() -> None:
    scene = Scene(owns=lambda group_id: group_id != "elsewhere")
    scene.commit({("t", 0): 1}, group_id="a")
    scene.commit({("u", 1): 2}, group_id="b")
    asked = (TopicPartitions(name="t", topic_id=None, partitions=(0,)),)
    reply = scene.fetch_groups(
        RequestedGroup(group_id="b", topics=None),
        RequestedGroup(group_id="elsewhere", topics=asked),
        RequestedGroup(group_id="a", topics=asked),
        RequestedGroup(group_id="nobody's", topics=asked),
        RequestedGroup(group_id="b", topics=asked),
    )
    assert [group.group_id for group in reply.groups] == ["b", "elsewhere", "a", "nobody's", "b"]
    not_coordinator = ErrorCode.not_coordinator
    assert [group.error_code for group in reply.groups] == [0, not_coordinator, 0, 0, 0]
    b, _, a, nobodys, b_again = reply.groups
    assert lines(b) == [("u", [(1, 2)])]
    assert lines(a) == [("t", [(0, 1)])]
    assert lines(nobodys) == lines(b_again) == [("t", [(0, -1)])]


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_offsets_are_read_in_every_state(scene: Scene, state: str) -> None:
    scene.commit({("t", 0): 7})
    if state == "CompletingRebalance":
        scene.completing_group(1)
    elif state != "Empty":
        scene.stable_group(1)
    if state == "PreparingRebalance":
        scene.join()
    assert scene.state() == state
    assert scene.offset().committed_offset == 7


# By topic id.


@pytest.mark.fact("O-111")
def test_offsets_are_read_by_topic_id_and_ids_of_no_topic_come_last(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    t, u = topic_id(scene, "t"), topic_id(scene, "u")
    [group] = scene.fetch({UNKNOWN_ID: [0, 1], t: [0, 1], u: [9]}, is_by_id=True).groups
    assert group.error_code is ErrorCode.none
    assert [topic.topic_id for topic in group.topics] == [t, u, UNKNOWN_ID]
    assert [line.committed_offset for line in group.topics[0].partitions] == [7, -1]
    assert group.topics[1].partitions == (nothing(9),)
    unknown = ErrorCode.unknown_topic_id
    assert group.topics[2].partitions == tuple(
        OffsetLine(partition_index=partition, error_code=unknown) for partition in (0, 1)
    )


def test_no_topic_id_is_the_id_of_no_topic(scene: Scene) -> None:
    asked = TopicPartitions(name=None, topic_id=None, partitions=(0,))
    [group] = scene.fetch_groups(RequestedGroup(group_id="g", topics=(asked,))).groups
    assert group.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


@pytest.mark.fact("O-112")
def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_one_of_this(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    scene.topics.made += 1  # the topics are recreated, and the coordinator does not know it yet
    [group] = scene.fetch({topic_id(scene, "t"): [0]}, is_by_id=True).groups
    assert group.topics[0].partitions == (nothing(0),)
    assert scene.offset().committed_offset == 7  # a request by name does not distinguish the two
    scene.commit({("t", 0): 1})
    [group] = scene.fetch({topic_id(scene, "t"): [0]}, is_by_id=True).groups
    assert group.topics[0].partitions[0].committed_offset == 1


def test_an_offset_of_old_that_came_without_a_topic_id_is_one_of_this_topic(scene: Scene) -> None:
    scene.coordinator.replay(stored("g", "t", [Line(0, 7)], WALL_START_MS))
    [group] = scene.fetch({topic_id(scene, "t"): [0]}, is_by_id=True).groups
    assert group.topics[0].partitions[0].committed_offset == 7


@pytest.mark.fact("O-113")
def test_all_offsets_by_topic_id_leave_out_topics_that_have_none(scene: Scene) -> None:
    scene.commit({("t", 0): 1, ("u", 0): 2})
    del scene.topics.partitions["u"]  # deleted, and the coordinator does not know it yet
    [group] = scene.fetch(None, is_by_id=True).groups
    assert [topic.topic_id for topic in group.topics] == [topic_id(scene, "t")]
    assert lines(scene.fetch(None).groups[0]) == [("t", [(0, 1)]), ("u", [(0, 2)])]


# Topics that are deleted.


@pytest.mark.fact("T-028")
def test_the_offsets_of_a_topic_go_with_it_in_all_groups(scene: Scene) -> None:
    for group_id in ("a", "b"):
        scene.commit({("t", 0): 1, ("u", 0): 2}, group_id=group_id)
    [member] = scene.stable_group(1, group_id="c")
    scene.commit({("t", 1): 3}, member_id=member.member_id, generation=member.generation, group_id="c")
    scene.delete_topic("t")
    for group_id in ("a", "b"):
        assert lines(scene.fetch(None, group_id=group_id).groups[0]) == [("u", [(0, 2)])]
    assert scene.fetch(None, group_id="c").groups[0].topics == ()
    scene.restart()
    assert scene.offset("t", 0, group_id="a") == nothing(0)


@pytest.mark.fact("T-028")
def test_a_group_stays_when_its_last_offset_goes_with_the_topic(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    scene.delete_topic("t")
    assert scene.state() == "Empty"


@pytest.mark.fact("T-028")
def test_offsets_of_a_topic_that_was_made_anew_stay_when_the_earlier_one_is_gone(scene: Scene) -> None:
    earlier = topic_id(scene, "t")
    scene.commit({("t", 0): 7})
    scene.topics.made += 1
    scene.commit({("t", 1): 1})
    scene.take(scene.coordinator.topic_deleted("t", earlier))
    assert lines(scene.fetch(None).groups[0]) == [("t", [(1, 1)])]


def test_what_may_have_been_meant_for_the_heir_of_a_deleted_topic_is_the_heir_s(scene: Scene) -> None:
    earlier = topic_id(scene, "t")
    scene.commit({("t", 0): 7, ("t", 1): 7})
    scene.pass_time(60)
    since_ms = scene.at().wall_ms
    scene.commit({("t", 1): 1}, metadata="note", leader_epoch=3)
    scene.topics.made += 1
    recreated = RecreatedTopic(topic_id(scene, "t"), since_ms)

    scene.take(scene.coordinator.topic_deleted("t", earlier, recreated=recreated))

    assert lines(scene.fetch({recreated.topic_id: [0, 1]}).groups[0]) == [("t", [(0, -1), (1, 1)])]
    before = scene.coordinator.groups["g"].offsets
    scene.restart()
    assert scene.coordinator.groups["g"].offsets == before
    scene.take(scene.coordinator.topic_deleted("t", earlier))
    assert scene.offset("t", 1).metadata == "note", "the earlier topic has nothing to do with it any more"


@pytest.mark.fact("T-028")
def test_offsets_of_old_that_came_without_a_topic_id_go_with_the_name(scene: Scene) -> None:
    scene.coordinator.replay(stored("g", "t", [Line(0, 7)], WALL_START_MS))
    scene.delete_topic("t")
    assert scene.offset() == nothing(0)
