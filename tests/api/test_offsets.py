"""OffsetCommit, OffsetFetch and OffsetDelete: the differences between versions."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.groups.records import OffsetsStored
from tests.support.conversation import Conversation, versions
from tests.support.groups.scene import WALL_START_MS, Scene

NONE = ErrorCode.none
UNKNOWN_ID = UUID(int=99)


def commit(conversation: Conversation, version: int, topic: str | UUID = "t", /, **values: Any) -> Any:
    line = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": 3,
        "committed_metadata": values.pop("metadata", "text"),
    }
    named = {"name": topic, "topic_id": _id_of(conversation.scene, topic), "partitions": [line]}
    response = conversation.ask(
        ApiKey.OFFSET_COMMIT,
        version,
        **{
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "retention_time": timedelta(milliseconds=-1),
            "topics": [named],
            **values,
        },
    )
    [answered] = response.topics
    assert (answered.topic_id if version >= 10 else answered.name) == (named["topic_id"] if version >= 10 else topic)
    [only] = answered.partitions
    return only.error_code


def _id_of(scene: Scene, topic: str | UUID) -> UUID:
    return topic if isinstance(topic, UUID) else scene.topics.topic_id(topic) or UNKNOWN_ID


# OffsetCommit.


@pytest.mark.fact("O-003")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_that_there_is_no_such_group_is_said_from_version_9_on(conversation: Conversation, version: int) -> None:
    error = commit(conversation, version, generation_id_or_member_epoch=1, member_id="m")
    assert error is (ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation)
    assert not conversation.scene.list_groups().groups


@pytest.mark.fact("O-012", "O-022")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_an_offset_is_kept_with_its_epoch_from_version_6_on(conversation: Conversation, version: int) -> None:
    assert commit(conversation, version) is NONE
    committed = conversation.scene.offset()
    assert (committed.committed_offset, committed.metadata) == (7, "text")
    assert committed.committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.fact("O-016")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_no_text_is_the_empty_text(conversation: Conversation, version: int) -> None:
    assert commit(conversation, version, metadata=None) is NONE
    assert conversation.scene.offset().metadata == ""


@pytest.mark.fact("O-017")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_topics_are_named_up_to_version_9_and_told_by_their_id_from_10_on(
    conversation: Conversation, version: int
) -> None:
    unknown = ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
    assert commit(conversation, version, UNKNOWN_ID if version >= 10 else "nope") is unknown
    assert not conversation.scene.list_groups().groups


@pytest.mark.fact("O-023")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_how_long_an_offset_is_kept_can_be_said_up_to_version_4(conversation: Conversation, version: int) -> None:
    commit(conversation, version, retention_time=timedelta(seconds=60))
    [record] = conversation.scene.records
    assert isinstance(record, OffsetsStored)
    assert record.expires_at_ms == (WALL_START_MS + 60_000 if version <= 4 else None)


@pytest.mark.fact("O-023")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT, last=4))
def test_a_client_of_old_may_leave_open_how_long_an_offset_is_kept(conversation: Conversation, version: int) -> None:
    commit(conversation, version)
    [record] = conversation.scene.records
    assert isinstance(record, OffsetsStored)
    assert record.expires_at_ms is None


@pytest.mark.fact("O-009")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_from_version_7_on_a_commit_has_an_instance_id(conversation: Conversation, version: int) -> None:
    _, other = conversation.scene.stable_group(2, static=True)
    error = commit(
        conversation,
        version,
        generation_id_or_member_epoch=other.generation,
        member_id=other.member_id,
        group_instance_id="i0",
    )
    assert error is (ErrorCode.fenced_instance_id if version >= 7 else NONE)


# OffsetFetch.


@pytest.mark.fact("O-104")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, last=7))
def test_up_to_version_7_one_group_is_asked_for(conversation: Conversation, version: int) -> None:
    conversation.scene.commit({("t", 0): 7}, leader_epoch=3, metadata="text")
    response = conversation.ask(
        ApiKey.OFFSET_FETCH,
        version,
        group_id="g",
        topics=[{"name": "t", "partition_indexes": [0, 1]}],
        require_stable=True,
    )
    [topic] = response.topics
    assert topic.name == "t"
    assert [(line.committed_offset, line.metadata, line.error_code) for line in topic.partitions] == [
        (7, "text", NONE),
        (-1, "", NONE),
    ]
    if version >= 5:
        assert [line.committed_leader_epoch for line in topic.partitions] == [3, -1]
    if version >= 2:
        assert response.error_code is NONE


@pytest.mark.fact("O-103")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, first=2))
def test_from_version_2_on_all_offsets_can_be_asked_for(conversation: Conversation, version: int) -> None:
    scene = conversation.scene
    scene.commit({("t", 0): 7, ("u", 1): 8})
    asked = [{"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}]
    response = conversation.ask(
        ApiKey.OFFSET_FETCH, version, group_id="g", topics=None, groups=asked, require_stable=False
    )
    topics = response.groups[0].topics if version >= 8 else response.topics
    names = [scene.topics.topic_name(topic.topic_id) if version >= 10 else topic.name for topic in topics]
    assert names == ["t", "u"]
    assert [[line.committed_offset for line in topic.partitions] for topic in topics] == [[7], [8]]


@pytest.mark.fact("O-104")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, last=7))
def test_an_error_of_the_group_is_that_of_the_answer_from_version_2_on(version: int) -> None:
    conversation = Conversation(Scene(owns=lambda group_id: False))
    asked = [{"name": "t", "partition_indexes": [0, 1]}]
    response = conversation.ask(ApiKey.OFFSET_FETCH, version, group_id="g", topics=asked, require_stable=False)
    not_coordinator = ErrorCode.not_coordinator
    if version == 1:
        [topic] = response.topics
        assert [line.error_code for line in topic.partitions] == [not_coordinator] * 2
    else:
        assert (response.error_code, response.topics) == (not_coordinator, ())


@pytest.mark.fact("O-104", "O-108")
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, first=8))
def test_from_version_8_on_each_of_many_groups_has_an_error_of_its_own(version: int) -> None:
    scene = Scene(owns=lambda group_id: group_id != "elsewhere")
    scene.commit({("t", 0): 7})
    topic_id = scene.topics.topic_id("t")
    topics = [{"name": "t", "topic_id": topic_id, "partition_indexes": [0]}]
    group_ids = ["nobody's", "elsewhere", "g"]
    groups = [{"group_id": group_id, "topics": topics, "member_id": None, "member_epoch": -1} for group_id in group_ids]
    response = Conversation(scene).ask(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=True)
    assert [group.group_id for group in response.groups] == group_ids
    assert [group.error_code for group in response.groups] == [NONE, ErrorCode.not_coordinator, NONE]
    offsets = [
        [line.committed_offset for topic in group.topics for line in topic.partitions] for group in response.groups
    ]
    assert offsets == [[-1], [], [7]]


@pytest.mark.fact("O-111")
def test_in_version_10_a_topic_id_that_is_unknown_is_an_error_of_its_partitions(conversation: Conversation) -> None:
    conversation.scene.commit({("t", 0): 7})
    topic_id = conversation.scene.topics.topic_id("t")
    topics = [{"topic_id": topic_id, "partition_indexes": [0]}, {"topic_id": UNKNOWN_ID, "partition_indexes": [0]}]
    groups = [{"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}]
    [group] = conversation.ask(ApiKey.OFFSET_FETCH, 10, groups=groups, require_stable=False).groups
    assert group.error_code is NONE
    lines = [
        (topic.topic_id, line.committed_offset, line.error_code) for topic in group.topics for line in topic.partitions
    ]
    assert lines == [(topic_id, 7, NONE), (UNKNOWN_ID, -1, ErrorCode.unknown_topic_id)]


# OffsetDelete.


@pytest.mark.fact("O-201", "O-206", "O-207")
def test_offsets_are_deleted_and_an_error_of_the_group_names_no_topic(conversation: Conversation) -> None:
    conversation.scene.commit({("t", 0): 7})
    topics = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
    response = conversation.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert response.error_code is NONE
    assert [(line.partition_index, line.error_code) for line in response.topics[0].partitions] == [
        (9, ErrorCode.unknown_topic_or_partition),
        (0, NONE),
    ]
    response = conversation.ask(ApiKey.OFFSET_DELETE, 0, group_id="", topics=topics)
    assert (response.error_code, response.topics) == (ErrorCode.invalid_group_id, ())
