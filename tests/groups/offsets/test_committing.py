"""OffsetCommit: who may commit, and which partitions are accepted."""

from uuid import UUID

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.records import GroupStored, OffsetsStored
from kcoord.groups.replies import CommitReply
from tests.support.groups.commits import CommittedTopic, Line
from tests.support.groups.scene import WALL_START_MS, Joined, Scene

NONE = ErrorCode.none
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
UNKNOWN_ID = UUID(int=99)


def lines(reply: CommitReply) -> list[tuple[str | UUID | None, list[tuple[int, ErrorCode]]]]:
    """Returns the results of the answer, in order."""
    return [
        (topic.name or topic.topic_id, [(line.partition_index, line.error_code) for line in topic.partitions])
        for topic in reply.topics
    ]


def error(reply: CommitReply) -> ErrorCode:
    [(_, [(_, only)])] = lines(reply)
    return only


def commit_as(
    scene: Scene,
    member: Joined,
    *,
    member_id: str | None = None,
    instance_id: str | None = None,
    generation: int | None = None,
) -> ErrorCode:
    """Commits to t-0 as a member, with some of its fields replaced."""
    return error(
        scene.commit(
            {("t", 0): 7},
            member_id=member.member_id if member_id is None else member_id,
            instance_id=member.instance_id if instance_id is None else instance_id,
            generation=member.generation if generation is None else generation,
        )
    )


def topic(name: str | UUID, *partitions: int) -> CommittedTopic:
    return name, [Line(partition, 5) for partition in partitions]


def group_ids(scene: Scene) -> list[str]:
    return [group.group_id for group in scene.list_groups().groups]


# Consumers without a group, and admin clients.


@pytest.mark.fact("O-002")
@pytest.mark.parametrize("generation", [-1, -5])
def test_a_commit_without_generation_makes_a_group_that_only_keeps_offsets(scene: Scene, generation: int) -> None:
    assert error(scene.commit({("t", 0): 7}, generation=generation)) is NONE
    [group] = scene.list_groups().groups
    assert (group.group_state, group.protocol_type, group.group_type) == ("Empty", "", "classic")
    assert scene.offset().committed_offset == 7


def test_the_group_of_a_commit_is_there_after_a_restart(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    scene.restart()
    assert group_ids(scene) == ["g"]
    assert scene.offset().committed_offset == 7


def test_a_group_may_be_called_nothing_if_it_only_keeps_offsets(scene: Scene) -> None:
    assert error(scene.commit({("t", 0): 7}, group_id="")) is NONE
    assert scene.offset(group_id="").committed_offset == 7


@pytest.mark.parametrize(
    ("member_id", "instance_id"), [("somebody", None), ("", "somewhere"), ("somebody", "somewhere")]
)
def test_in_a_group_of_nobody_it_does_not_matter_who_commits(
    scene: Scene, member_id: str, instance_id: str | None
) -> None:
    scene.commit({("t", 0): 1})
    assert error(scene.commit({("t", 0): 2}, member_id=member_id, instance_id=instance_id)) is NONE
    assert scene.offset().committed_offset == 2


def test_who_joins_a_group_that_only_kept_offsets_finds_them(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    [member] = scene.stable_group(1)
    assert member.generation == 1
    assert scene.offset().committed_offset == 7


def test_a_group_that_was_left_can_be_committed_to_without_generation(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.leave(member.member_id)
    assert error(scene.commit({("t", 0): 7})) is NONE


# Members.


@pytest.mark.fact("O-003")
@pytest.mark.parametrize("generation", [0, 1])
def test_a_commit_with_a_generation_makes_no_group(scene: Scene, generation: int) -> None:
    """Up to version 8 the error is called ILLEGAL_GENERATION: see the API."""
    assert error(scene.commit({("t", 0): 7}, member_id="m", generation=generation)) is ErrorCode.group_id_not_found
    assert group_ids(scene) == []
    assert scene.records == []


@pytest.mark.fact("O-005")
def test_nobody_commits_as_a_member_to_an_empty_group(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.leave(member.member_id)
    for generation in (0, member.generation, member.generation + 1):
        assert commit_as(scene, member, generation=generation) is ErrorCode.unknown_member_id


@pytest.mark.fact("O-006")
@pytest.mark.parametrize("generation", [-1, -5])
def test_offsets_of_a_group_in_use_cannot_be_set_from_outside(scene: Scene, generation: int) -> None:
    scene.stable_group(1)
    assert error(scene.commit({("t", 0): 7}, generation=generation)) is ErrorCode.unknown_member_id
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("O-007")
@pytest.mark.parametrize("generation", [-1, 0, 1, 2])
def test_a_stranger_cannot_commit(scene: Scene, generation: int) -> None:
    [member] = scene.stable_group(1)
    assert commit_as(scene, member, member_id="stranger", generation=generation) is ErrorCode.unknown_member_id


@pytest.mark.fact("O-008")
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_member_cannot_commit_for_another_generation(scene: Scene, generation: int) -> None:
    [member] = scene.stable_group(1)
    assert commit_as(scene, member, generation=generation) is ErrorCode.illegal_generation
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("O-009")
def test_a_commit_under_an_instance_id_is_that_of_its_member_only(scene: Scene) -> None:
    member, other = scene.stable_group(2, static=True)
    assert commit_as(scene, member, instance_id="nobody's") is ErrorCode.unknown_member_id
    assert commit_as(scene, other, instance_id="i0") is ErrorCode.fenced_instance_id
    assert commit_as(scene, member) is NONE


@pytest.mark.fact("O-009")
def test_a_static_member_that_came_back_fences_the_commits_of_its_old_id(scene: Scene) -> None:
    [old] = scene.stable_group(1, static=True)
    scene.join("", "i0")
    assert commit_as(scene, old) is ErrorCode.fenced_instance_id
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("O-010")
def test_offsets_of_the_old_generation_are_taken_while_members_join_again(scene: Scene) -> None:
    member, _ = scene.stable_group(2)
    scene.join()
    assert scene.state() == "PreparingRebalance"
    assert commit_as(scene, member) is NONE
    assert scene.offset().committed_offset == 7


def test_a_member_that_does_not_know_its_assignment_cannot_commit(scene: Scene) -> None:
    for member in scene.completing_group(2):
        assert commit_as(scene, member) is ErrorCode.rebalance_in_progress
        assert commit_as(scene, member, generation=member.generation - 1) is ErrorCode.illegal_generation
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("O-012")
def test_a_members_commit_is_read_at_once(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    for offset, member in enumerate((leader, follower, leader), start=1):
        reply = scene.commit({("t", 1): offset}, member_id=member.member_id, generation=member.generation)
        assert error(reply) is NONE
        assert scene.offset("t", 1).committed_offset == offset


@pytest.mark.fact("O-013")
def test_nobody_commits_to_a_dead_group(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.kill_group()
    assert commit_as(scene, member) is ErrorCode.coordinator_not_available
    assert error(scene.commit({("t", 0): 7})) is ErrorCode.coordinator_not_available


def test_a_group_of_another_node_is_not_committed_to_here() -> None:
    scene = Scene(owns=lambda group_id: False)
    reply = scene.commit({("t", 0): 7, ("t", 9): 7})
    assert lines(reply) == [("t", [(9, UNKNOWN_PARTITION), (0, ErrorCode.not_coordinator)])]
    assert group_ids(scene) == []


# Errors of partitions and errors of the member.


@pytest.mark.fact("O-017")
@pytest.mark.parametrize("generation", [-1, 1])
@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (topic("nope", 0), UNKNOWN_PARTITION),
        (topic("t", 4), UNKNOWN_PARTITION),
        (topic("t", -1), UNKNOWN_PARTITION),
        (topic(UNKNOWN_ID, 0), ErrorCode.unknown_topic_id),
    ],
)
def test_a_commit_to_nothing_asks_nothing_of_the_group(
    scene: Scene, asked: CommittedTopic, missing: ErrorCode, generation: int
) -> None:
    assert error(scene.commit_topics(asked, generation=generation)) is missing
    assert group_ids(scene) == []
    assert scene.records == []


@pytest.mark.fact("O-019")
def test_partitions_that_are_missing_do_not_hinder_the_others(scene: Scene) -> None:
    reply = scene.commit_topics(topic("u", 0), topic("t", 0, 9, 1), topic("nope", 0))
    assert lines(reply) == [
        ("t", [(9, UNKNOWN_PARTITION), (0, NONE), (1, NONE)]),
        ("nope", [(0, UNKNOWN_PARTITION)]),
        ("u", [(0, NONE)]),
    ]
    assert [scene.offset(*where).committed_offset for where in (("u", 0), ("t", 0), ("t", 1), ("t", 2))] == [
        5,
        5,
        5,
        -1,
    ]


@pytest.mark.fact("O-019", "O-020")
def test_what_is_wrong_with_the_member_is_said_of_every_partition_that_is_there(scene: Scene) -> None:
    scene.stable_group(1)
    refused = ErrorCode.unknown_member_id
    reply = scene.commit_topics(topic("t", 0, 9, 1), topic("u", 0))
    assert lines(reply) == [("t", [(9, UNKNOWN_PARTITION), (0, refused), (1, refused)]), ("u", [(0, refused)])]


def test_topics_that_are_named_twice_are_answered_twice_unless_something_is_missing(scene: Scene) -> None:
    reply = scene.commit_topics(topic("t", 0), topic("u", 0), topic("t", 1))
    assert lines(reply) == [("t", [(0, NONE)]), ("u", [(0, NONE)]), ("t", [(1, NONE)])]
    reply = scene.commit_topics(topic("t", 0), topic("u", 0), topic("t", 9), topic("t", 1))
    assert lines(reply) == [("t", [(9, UNKNOWN_PARTITION), (0, NONE), (1, NONE)]), ("u", [(0, NONE)])]


def test_of_topics_without_partitions_only_the_unknown_are_answered(scene: Scene) -> None:
    assert lines(scene.commit_topics(topic("t"))) == []
    assert lines(scene.commit_topics(topic("nope"), topic("nope"))) == [("nope", [])]
    assert lines(scene.commit_topics(topic("t"), topic("nope"), topic("u", 0))) == [("nope", []), ("u", [(0, NONE)])]


# Stored offsets.


@pytest.mark.fact("O-014")
def test_a_text_that_is_too_long_is_refused_and_the_other_partitions_are_kept(scene: Scene) -> None:
    texts = ("x" * 4096, "x" * 4097, "", "x")
    reply = scene.commit_topics(("t", [Line(partition, partition + 1, text) for partition, text in enumerate(texts)]))
    too_large = ErrorCode.offset_metadata_too_large
    assert lines(reply) == [("t", [(0, NONE), (1, too_large), (2, NONE), (3, NONE)])]
    assert [scene.offset("t", partition).committed_offset for partition in range(4)] == [1, -1, 3, 4]
    assert scene.offset("t", 0).metadata == "x" * 4096


@pytest.mark.fact("O-014")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("é" * 4096, NONE),  # twice as many bytes
        ("é" * 4097, ErrorCode.offset_metadata_too_large),
        ("\N{GRINNING FACE}" * 2048, NONE),  # Java counts each as two
        ("\N{GRINNING FACE}" * 2049, ErrorCode.offset_metadata_too_large),
    ],
)
def test_the_limit_of_a_text_is_its_length_as_java_counts_it(scene: Scene, text: str, expected: ErrorCode) -> None:
    assert error(scene.commit({("t", 0): 1}, metadata=text)) is expected


@pytest.mark.fact("O-014")
def test_the_longest_text_can_be_set() -> None:
    scene = Scene(offset_metadata_max_bytes=3)
    assert error(scene.commit({("t", 0): 1}, metadata="abc")) is NONE
    assert error(scene.commit({("t", 0): 1}, metadata="abcd")) is ErrorCode.offset_metadata_too_large


def test_a_commit_of_which_nothing_is_kept_makes_no_group(scene: Scene) -> None:
    scene.commit({("t", 0): 1}, metadata="x" * 5000)
    assert group_ids(scene) == []
    assert scene.records == []


@pytest.mark.fact("O-022")
def test_the_leader_epoch_is_kept_with_the_offset(scene: Scene) -> None:
    scene.commit({("t", 0): 1}, leader_epoch=5)
    scene.commit({("t", 1): 1})
    assert [scene.offset("t", partition).committed_leader_epoch for partition in (0, 1)] == [5, -1]
    scene.restart()
    assert scene.offset("t", 0).committed_leader_epoch == 5


@pytest.mark.parametrize("offset", [0, 2**63 - 1, -1, -7])
def test_any_offset_is_kept(scene: Scene, offset: int) -> None:
    scene.commit({("t", 0): offset})
    assert scene.offset().committed_offset == offset


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(scene: Scene) -> None:
    reply = scene.commit_topics(("t", [Line(0, offset) for offset in (3, 1, 2)]))
    assert lines(reply) == [("t", [(0, NONE)] * 3)]
    assert scene.offset().committed_offset == 2


@pytest.mark.fact("O-023")
@pytest.mark.parametrize(
    ("retention", "expires_at_ms"), [(None, None), (60.0, WALL_START_MS + 60_000), (0.0, WALL_START_MS)]
)
def test_a_client_of_old_says_when_its_offset_expires(
    scene: Scene, retention: float | None, expires_at_ms: int | None
) -> None:
    scene.commit({("t", 0): 1}, retention=retention)
    [record] = scene.records
    assert isinstance(record, OffsetsStored)
    assert (record.committed_at_ms, record.expires_at_ms) == (WALL_START_MS, expires_at_ms)


@pytest.mark.fact("O-023")
def test_the_time_that_a_client_of_old_gave_wins_over_the_usual_one() -> None:
    scene = Scene(offsets_retention_minutes=10)
    scene.commit({("t", 0): 1}, retention=60.0)
    scene.commit({("t", 1): 1}, retention=10_000.0)
    scene.commit({("t", 2): 1})
    scene.pass_time(61)
    scene.take(scene.coordinator.expire_offsets(scene.at()))
    assert [scene.offset("t", partition).committed_offset for partition in (0, 1, 2)] == [-1, 1, 1]
    scene.pass_time(600)
    scene.take(scene.coordinator.expire_offsets(scene.at()))
    assert [scene.offset("t", partition).committed_offset for partition in (0, 1, 2)] == [-1, 1, -1]


def test_a_commit_leaves_the_generation_and_the_state_alone(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    records = len(scene.records)
    commit_as(scene, member)
    assert not any(isinstance(record, GroupStored) for record in scene.records[records:])
    assert scene.state() == "Stable"


# Topics by id.


@pytest.mark.fact("O-017")
def test_a_commit_by_topic_id_is_one_to_the_topic_of_that_id(scene: Scene) -> None:
    known = scene.topics.topic_id("t")
    assert known is not None
    reply = scene.commit_topics(topic(known, 0, 9), topic(UNKNOWN_ID, 0, 1))
    assert [(each.topic_id, [line.error_code for line in each.partitions]) for each in reply.topics] == [
        (known, [UNKNOWN_PARTITION, NONE]),
        (UNKNOWN_ID, [ErrorCode.unknown_topic_id] * 2),
    ]
    assert scene.offset("t", 0).committed_offset == 5


@pytest.mark.parametrize("is_by_id", [False, True])
def test_the_topic_id_is_kept_with_the_offset_however_the_topic_was_named(scene: Scene, is_by_id: bool) -> None:
    topic_id = scene.topics.topic_id("t")
    assert topic_id is not None
    scene.commit({(topic_id if is_by_id else "t", 0): 1})
    [record] = scene.records
    assert isinstance(record, OffsetsStored)
    assert (record.topic, record.topic_id) == ("t", topic_id)
