"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the differences between versions."""

from datetime import timedelta
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.support.conversation import Conversation, versions
from tests.support.groups.scene import Scene

NONE = ErrorCode.none
SESSION = timedelta(seconds=10)


def join(conversation: Conversation, version: int, **values: Any) -> Any:
    return conversation.ask(
        ApiKey.JOIN_GROUP,
        version,
        **{
            "group_id": "g",
            "session_timeout": SESSION,
            "rebalance_timeout": timedelta(seconds=60),
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"subscription"}],
            **values,
        },
    )


def member_ids(scene: Scene) -> list[str]:
    return [member.member_id for member in scene.describe().members]


# JoinGroup.


@pytest.mark.fact("J-008")
@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_join_that_is_refused_names_no_protocol(conversation: Conversation, version: int) -> None:
    response = join(conversation, version, member_id="stranger")
    assert response.error_code is ErrorCode.unknown_member_id
    assert (response.member_id, response.generation_id, response.leader) == ("stranger", -1, "")
    assert response.members == ()
    assert response.protocol_name == (None if version >= 7 else "")
    assert getattr(response, "protocol_type", None) is None


@pytest.mark.fact("J-012")
@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP, last=3))
def test_up_to_version_3_new_members_are_let_in_at_once(conversation: Conversation, version: int) -> None:
    response = join(conversation, version)
    assert (response.error_code, response.generation_id) == (NONE, 1)
    assert response.leader == response.member_id
    assert member_ids(conversation.scene) == [response.member_id]


@pytest.mark.fact("J-010")
@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP, first=4))
def test_from_version_4_on_new_members_are_given_an_id_first(conversation: Conversation, version: int) -> None:
    refused = join(conversation, version)
    assert refused.error_code is ErrorCode.member_id_required
    assert member_ids(conversation.scene) == []
    response = join(conversation, version, member_id=refused.member_id)
    assert (response.error_code, response.member_id) == (NONE, refused.member_id)


@pytest.mark.fact("J-013")
@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP, first=5))
def test_from_version_5_on_members_may_be_static(conversation: Conversation, version: int) -> None:
    response = join(conversation, version, group_instance_id="i0")
    assert response.error_code is NONE
    [shown] = conversation.scene.describe().members
    assert shown.group_instance_id == "i0"
    assert [member.group_instance_id for member in response.members] == ["i0"]


@pytest.mark.fact("J-014")
@pytest.mark.parametrize("version", [0, 1])
def test_version_0_has_no_rebalance_timeout_and_the_sessions_is_taken(conversation: Conversation, version: int) -> None:
    scene = conversation.scene
    stays = join(conversation, version).member_id
    scene.sync(stays, 1)
    newcomer = scene.join(rebalance_timeout=1.0, session_timeout=100.0)
    scene.pass_time(9)
    scene.heartbeat(stays, 1)  # its session goes on
    scene.pass_time(1)
    assert newcomer.is_parked == (version >= 1)  # up to 60 s there


@pytest.mark.fact("J-058")
@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP, first=8))
@pytest.mark.parametrize("reason", [None, "", "x" * 10_000])
def test_a_reason_changes_nothing(conversation: Conversation, version: int, reason: str | None) -> None:
    refused = join(conversation, version, reason=reason)
    response = join(conversation, version, member_id=refused.member_id, reason=reason)
    assert (response.error_code, response.generation_id) == (NONE, 1)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP, first=5))
def test_a_static_leader_that_comes_back_is_told_to_skip_its_plan_from_version_9_on(
    conversation: Conversation, version: int
) -> None:
    [old] = conversation.scene.stable_group(1, static=True)
    response = join(conversation, version, group_instance_id="i0")
    assert (response.error_code, response.generation_id) == (NONE, old.generation)
    if version >= 9:
        assert response.skip_assignment
        assert response.leader == response.member_id
    else:
        assert response.leader == old.member_id


# SyncGroup.


@pytest.mark.fact("S-010", "S-018")
@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_from_version_5_on_a_sync_names_the_protocol_and_so_does_the_answer(
    conversation: Conversation, version: int
) -> None:
    [member] = conversation.scene.completing_group(1)
    response = conversation.ask(
        ApiKey.SYNC_GROUP,
        version,
        group_id="g",
        generation_id=member.generation,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member.member_id, "assignment": b"all"}],
    )
    assert (response.error_code, response.assignment) == (NONE, b"all")
    if version >= 5:
        assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


@pytest.mark.fact("S-019")
@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_a_sync_that_is_refused_names_no_protocol_and_assigns_nothing(conversation: Conversation, version: int) -> None:
    conversation.scene.stable_group(1)
    response = conversation.ask(
        ApiKey.SYNC_GROUP,
        version,
        group_id="g",
        generation_id=1,
        member_id="stranger",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    assert (response.error_code, response.assignment) == (ErrorCode.unknown_member_id, b"")
    if version >= 5:
        assert (response.protocol_type, response.protocol_name) == (None, None)


# Heartbeat.


@pytest.mark.fact("H-011")
@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_from_version_3_on_a_heartbeat_has_an_instance_id(conversation: Conversation, version: int) -> None:
    _, other = conversation.scene.stable_group(2, static=True)
    response = conversation.ask(
        ApiKey.HEARTBEAT,
        version,
        group_id="g",
        generation_id=other.generation,
        member_id=other.member_id,
        group_instance_id="i0",
    )
    assert response.error_code is (ErrorCode.fenced_instance_id if version >= 3 else NONE)


# LeaveGroup.


@pytest.mark.fact("L-002", "L-020")
@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP, last=2))
@pytest.mark.parametrize("is_there", [False, True])
def test_up_to_version_2_one_member_leaves_and_its_error_is_that_of_the_answer(
    conversation: Conversation, version: int, is_there: bool
) -> None:
    scene = conversation.scene
    members = scene.stable_group(2) if is_there else []
    response = conversation.ask(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="stranger")
    assert response.error_code is ErrorCode.unknown_member_id
    for member in members:
        response = conversation.ask(ApiKey.LEAVE_GROUP, version, group_id="g", member_id=member.member_id)
        assert response.error_code is NONE
    assert (scene.state() == "Empty") == is_there


@pytest.mark.fact("L-002", "L-020")
@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP, first=3))
def test_from_version_3_on_each_member_has_an_error_of_its_own(conversation: Conversation, version: int) -> None:
    leaving = [{"member_id": "m", "group_instance_id": None}, {"member_id": "", "group_instance_id": "i"}]
    response = conversation.ask(ApiKey.LEAVE_GROUP, version, group_id="g", members=leaving)
    assert response.error_code is NONE
    assert [(member.member_id, member.group_instance_id, member.error_code) for member in response.members] == [
        ("m", None, ErrorCode.unknown_member_id),
        ("", "i", ErrorCode.unknown_member_id),
    ]


@pytest.mark.fact("L-001")
@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_what_is_wrong_with_the_group_is_the_error_of_the_answer_in_every_version(
    conversation: Conversation, version: int
) -> None:
    members = [{"member_id": "m", "group_instance_id": None}]
    response = conversation.ask(ApiKey.LEAVE_GROUP, version, group_id="", member_id="m", members=members)
    assert response.error_code is ErrorCode.invalid_group_id
    assert getattr(response, "members", ()) == ()


@pytest.mark.fact("L-030")
def test_from_version_5_on_a_reason_may_be_given(conversation: Conversation) -> None:
    [member] = conversation.scene.stable_group(1)
    leaving = [{"member_id": member.member_id, "group_instance_id": None, "reason": "x" * 10_000}]
    response = conversation.ask(ApiKey.LEAVE_GROUP, 5, group_id="g", members=leaving)
    assert [line.error_code for line in response.members] == [NONE]
