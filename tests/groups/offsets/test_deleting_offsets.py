"""OffsetDelete: offsets of topics that no member uses are deleted."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.replies import DeleteOffsetsReply
from tests.support.groups.scene import Scene, subscription

NONE = ErrorCode.none
IN_USE = ErrorCode.group_subscribed_to_topic
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
OF_T = (("range", subscription("t")),)


def lines(reply: DeleteOffsetsReply) -> list[tuple[str | None, list[tuple[int, ErrorCode]]]]:
    assert reply.error_code is NONE
    return [
        (topic.name, [(line.partition_index, line.error_code) for line in topic.partitions]) for topic in reply.topics
    ]


def commit_everywhere(scene: Scene) -> None:
    """Commits to all partitions before any member joins."""
    scene.commit({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})


# The group.


@pytest.mark.fact("O-201", "O-207")
def test_offsets_of_a_group_without_a_name_cannot_be_deleted(scene: Scene) -> None:
    commit_everywhere(scene)
    reply = scene.delete_offsets({"t": [0]}, group_id="")
    assert (reply.error_code, reply.topics) == (ErrorCode.invalid_group_id, ())


@pytest.mark.fact("O-202", "O-207", "O-210")
@pytest.mark.parametrize("topic", ["t", "nope"])
def test_that_there_is_no_such_group_is_said_before_anything_else(scene: Scene, topic: str) -> None:
    reply = scene.delete_offsets({topic: [0]})
    assert (reply.error_code, reply.topics) == (ErrorCode.group_id_not_found, ())
    assert not scene.list_groups().groups


@pytest.mark.fact("O-202", "O-207")
def test_a_dead_group_is_not_there(scene: Scene) -> None:
    commit_everywhere(scene)
    scene.kill_group()
    reply = scene.delete_offsets({"t": [0]})
    assert (reply.error_code, reply.topics) == (ErrorCode.group_id_not_found, ())


@pytest.mark.fact("O-205", "O-207", "O-210")
@pytest.mark.parametrize("topic", ["t", "nope"])
def test_of_members_that_are_no_consumers_nobody_knows_what_they_use(scene: Scene, topic: str) -> None:
    commit_everywhere(scene)
    scene.stable_group(1, protocol_type="connect", protocols=OF_T)
    reply = scene.delete_offsets({topic: [0]})
    assert (reply.error_code, reply.topics) == (ErrorCode.non_empty_group, ())
    assert scene.offset().committed_offset == 1


@pytest.mark.fact("O-205")
def test_once_they_have_left_their_offsets_can_be_deleted(scene: Scene) -> None:
    commit_everywhere(scene)
    [member] = scene.stable_group(1, protocol_type="connect")
    scene.leave(member.member_id)
    assert lines(scene.delete_offsets({"t": [0]})) == [("t", [(0, NONE)])]
    assert scene.offset().committed_offset == -1


def test_offsets_of_a_group_of_another_node_are_not_deleted_here() -> None:
    scene = Scene(owns=lambda group_id: False)
    reply = scene.delete_offsets({"t": [0], "nope": [0]})
    assert (reply.error_code, reply.topics) == (ErrorCode.not_coordinator, ())


# Its topics.


@pytest.mark.fact("O-204")
def test_consumers_keep_the_offsets_of_topics_that_they_subscribe_to(scene: Scene) -> None:
    commit_everywhere(scene)
    scene.stable_group(1, protocols=OF_T)
    reply = scene.delete_offsets({"t": [0, 1], "u": [0]})
    assert lines(reply) == [("t", [(0, IN_USE), (1, IN_USE)]), ("u", [(0, NONE)])]
    assert [scene.offset(*where).committed_offset for where in (("t", 0), ("t", 1), ("u", 0))] == [1, 2, -1]


@pytest.mark.fact("O-204")
def test_a_topic_is_in_use_if_one_of_many_members_subscribes_to_it(scene: Scene) -> None:
    commit_everywhere(scene)
    leader = scene.join(protocols=(("range", subscription("u")),)).reply.member_id
    scene.join(protocols=OF_T)
    scene.join(leader, protocols=(("range", subscription("u")),))
    assert scene.state() == "CompletingRebalance"
    assert lines(scene.delete_offsets({"t": [0], "u": [0]})) == [("t", [(0, IN_USE)]), ("u", [(0, IN_USE)])]


@pytest.mark.fact("O-204")
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_that_holds_while_members_rebalance(scene: Scene, state: str) -> None:
    commit_everywhere(scene)
    if state == "CompletingRebalance":
        scene.join(protocols=OF_T)
    else:
        scene.stable_group(1, protocols=OF_T)
    if state == "PreparingRebalance":
        scene.join(protocols=(("range", subscription("u")),))  # counts from the next generation on
    assert scene.state() == state
    assert lines(scene.delete_offsets({"t": [0], "u": [0]})) == [("t", [(0, IN_USE)]), ("u", [(0, NONE)])]


@pytest.mark.fact("O-204")
@pytest.mark.parametrize(
    "bytes_of_a_member",
    [
        b"",
        b"\0",
        b"no subscription at all",
        subscription("u")[:-1],
        b"\0\0" + b"\x7f\xff\xff\xff" + b"\0\1t",
        b"\0\0" + b"\xff\xff\xff\xff",
        b"\0\0" + b"\0\0\0\1" + b"\xff\xff",
    ],
)
def test_of_consumers_whose_subscription_cannot_be_read_every_topic_is_in_use(
    scene: Scene, bytes_of_a_member: bytes
) -> None:
    commit_everywhere(scene)
    scene.stable_group(1, protocols=(("range", bytes_of_a_member),))
    assert lines(scene.delete_offsets({"t": [0], "u": [0]})) == [("t", [(0, IN_USE)]), ("u", [(0, IN_USE)])]
    assert scene.offset().committed_offset == 1


@pytest.mark.fact("O-204")
def test_once_the_consumers_have_left_no_topic_is_in_use(scene: Scene) -> None:
    commit_everywhere(scene)
    [member] = scene.stable_group(1, protocols=OF_T)
    scene.leave(member.member_id)
    assert lines(scene.delete_offsets({"t": [0]})) == [("t", [(0, NONE)])]
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("O-206")
def test_partitions_that_are_missing_are_said_first_and_do_not_hinder_the_others(scene: Scene) -> None:
    commit_everywhere(scene)
    reply = scene.delete_offsets({"t": [0], "nope": [3], "u": [0, 2, -1]})
    assert lines(reply) == [
        ("nope", [(3, UNKNOWN_PARTITION)]),
        ("u", [(2, UNKNOWN_PARTITION), (-1, UNKNOWN_PARTITION), (0, NONE)]),
        ("t", [(0, NONE)]),
    ]
    assert [scene.offset(*where).committed_offset for where in (("t", 0), ("t", 1), ("u", 0))] == [-1, 2, -1]


@pytest.mark.fact("O-206")
def test_a_missing_partition_of_a_topic_in_use_is_missing(scene: Scene) -> None:
    scene.stable_group(1, protocols=OF_T)
    assert lines(scene.delete_offsets({"t": [0, 9]})) == [("t", [(9, UNKNOWN_PARTITION), (0, IN_USE)])]


def test_what_was_never_committed_is_deleted_without_a_record(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    records = len(scene.records)
    assert lines(scene.delete_offsets({"t": [1], "u": [0]})) == [("t", [(1, NONE)]), ("u", [(0, NONE)])]
    assert scene.records[records:] == []


def test_what_is_named_twice_is_answered_twice_and_deleted_once(scene: Scene) -> None:
    commit_everywhere(scene)
    records = len(scene.records)
    assert lines(scene.delete_offsets({"t": [0, 0]})) == [("t", [(0, NONE), (0, NONE)])]
    assert len(scene.records[records:]) == 1


@pytest.mark.fact("O-213")
def test_a_group_whose_last_offset_is_deleted_stays(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    scene.delete_offsets({"t": [0]})
    assert scene.fetch(None).groups[0].topics == ()
    assert [group.group_id for group in scene.list_groups().groups] == ["g"]


def test_deleted_offsets_stay_deleted_after_a_restart(scene: Scene) -> None:
    commit_everywhere(scene)
    scene.delete_offsets({"t": [0]})
    scene.restart()
    assert [scene.offset("t", partition).committed_offset for partition in (0, 1)] == [-1, 2]
