"""Repeated commits to the same partitions get the identical reply object, but only while it is correct."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.replies import CommitReply
from tests.support.groups.scene import Joined, Scene

NONE = ErrorCode.none


@pytest.fixture
def member(scene: Scene) -> Joined:
    scene.topics.partitions |= {"t": 3, "u": 3}
    (only,) = scene.stable_group(1)
    return only


def commit(scene: Scene, member: Joined, *partitions: tuple[str, int], offset: int = 7, text: str = "") -> CommitReply:
    return scene.commit(
        dict.fromkeys(partitions, offset), member_id=member.member_id, generation=member.generation, metadata=text
    )


def results_of(reply: CommitReply) -> list[tuple[str | None, int, ErrorCode]]:
    return [(topic.name, line.partition_index, line.error_code) for topic in reply.topics for line in topic.partitions]


def test_the_same_partitions_get_the_same_reply_and_their_offsets_are_kept(scene: Scene, member: Joined) -> None:
    first = commit(scene, member, ("t", 0), ("u", 1), offset=7)
    assert commit(scene, member, ("t", 0), ("u", 1), offset=8) is first
    assert results_of(first) == [("t", 0, NONE), ("u", 1, NONE)]
    assert [scene.offset("t", 0).committed_offset, scene.offset("u", 1).committed_offset] == [8, 8]


def test_other_partitions_get_a_reply_of_their_own(scene: Scene, member: Joined) -> None:
    commits = [(("t", 0),), (("t", 1),), (("u", 0),), (("t", 0), ("t", 1)), (("t", 1), ("t", 0)), (("t", 0), ("u", 0))]
    for partitions in commits:
        assert results_of(commit(scene, member, *partitions)) == [(*partition, NONE) for partition in partitions]


def test_what_is_refused_meanwhile_is_said(scene: Scene, member: Joined) -> None:
    accepted = commit(scene, member, ("t", 0), ("t", 2))
    scene.topics.partitions["t"] = 1
    partly = commit(scene, member, ("t", 0), ("t", 2))
    assert results_of(partly) == [("t", 2, ErrorCode.unknown_topic_or_partition), ("t", 0, NONE)]
    scene.topics.partitions["t"] = 3
    too_long = commit(scene, member, ("t", 0), ("t", 2), text="x" * 5000)
    assert {error for _, _, error in results_of(too_long)} == {ErrorCode.offset_metadata_too_large}
    scene.join(member.member_id, protocols=(("range", b"news"),))
    assert results_of(commit(scene, member, ("t", 0))) == [("t", 0, ErrorCode.illegal_generation)]
    assert {error for _, _, error in results_of(accepted)} == {NONE}


def test_a_topic_that_was_made_anew_is_answered_under_its_new_id(scene: Scene, member: Joined) -> None:
    before = commit(scene, member, ("t", 0)).topics[0].topic_id
    scene.topics.made += 1
    after = commit(scene, member, ("t", 0)).topics[0].topic_id
    assert after == scene.topics.topic_id("t") != before


def test_a_reply_with_very_many_lines_is_not_kept(scene: Scene, member: Joined) -> None:
    scene.topics.partitions["large"] = 2000
    partitions = [("large", number) for number in range(1001)]
    assert commit(scene, member, *partitions) is not commit(scene, member, *partitions)
