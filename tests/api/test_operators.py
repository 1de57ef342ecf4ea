"""ListGroups, DescribeGroups and DeleteGroups: the differences between versions, and the served versions."""

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.support.conversation import Conversation, versions

NONE = ErrorCode.none
NOT_ASKED_FOR = -(2**31)


def test_the_apis_of_classic_groups_are_served_in_the_versions_of_kafka() -> None:
    """O-026 names these versions; it also names APIs that are not served yet."""
    ranges = {
        "OffsetCommit": (2, 10),
        "OffsetFetch": (1, 10),
        "FindCoordinator": (0, 6),
        "JoinGroup": (0, 9),
        "Heartbeat": (0, 4),
        "LeaveGroup": (0, 5),
        "SyncGroup": (0, 5),
        "DescribeGroups": (0, 6),
        "ListGroups": (0, 5),
        "DeleteGroups": (0, 2),
        "OffsetDelete": (0, 0),
    }
    served = {api.name: (api.versions[0], api.versions[-1]) for api in SERVED.values() if api.name in ranges}
    assert served == ranges


# ListGroups.


@pytest.mark.fact("A-002", "A-004")
@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_filtered_by_state_from_version_4_on_and_by_type_from_5_on(
    conversation: Conversation, version: int
) -> None:
    conversation.scene.commit({("t", 0): 1}, group_id="simple")
    conversation.scene.stable_group(1, group_id="stable")

    def listed(**filters: list[str]) -> set[str]:
        response = conversation.ask(ApiKey.LIST_GROUPS, version, **{"states_filter": [], "types_filter": [], **filters})
        assert response.error_code is NONE
        return {group.group_id for group in response.groups}

    both = {"simple", "stable"}
    assert listed() == both
    assert listed(states_filter=[" STABLE "]) == ({"stable"} if version >= 4 else both)
    assert listed(types_filter=["Classic"]) == both
    assert listed(types_filter=["consumer"]) == (set() if version >= 5 else both)


@pytest.mark.fact("A-006")
@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_the_state_is_listed_from_version_4_on_and_the_type_from_5_on(conversation: Conversation, version: int) -> None:
    conversation.scene.commit({("t", 0): 1})
    [group] = conversation.ask(ApiKey.LIST_GROUPS, version, states_filter=[], types_filter=[]).groups
    assert (group.group_id, group.protocol_type) == ("g", "")
    assert getattr(group, "group_state", None) == ("Empty" if version >= 4 else None)
    assert getattr(group, "group_type", None) == ("classic" if version >= 5 else None)


# DescribeGroups.


@pytest.mark.fact("A-101", "A-102")
@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
@pytest.mark.parametrize("group_id", ["x", ""])
def test_that_a_group_is_not_there_is_an_error_from_version_6_on(
    conversation: Conversation, version: int, group_id: str
) -> None:
    [group] = conversation.ask(ApiKey.DESCRIBE_GROUPS, version, groups=[group_id]).groups
    assert (group.group_id, group.group_state, group.members) == (group_id, "Dead", ())
    if version >= 6:
        assert group.error_code is ErrorCode.group_id_not_found
        assert group.error_message == f"Group {group_id} not found."
    else:
        assert group.error_code is NONE


@pytest.mark.fact("A-103")
@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_a_stable_group_is_described_in_every_version(conversation: Conversation, version: int) -> None:
    [member] = conversation.scene.stable_group(1, static=True)
    [group] = conversation.ask(ApiKey.DESCRIBE_GROUPS, version, groups=["g"]).groups
    assert (group.error_code, group.group_state) == (NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    [shown] = group.members
    assert (shown.member_id, shown.client_id) == (member.member_id, "client")
    assert (shown.member_metadata, shown.member_assignment) == (b"subscription", b"assignment of 0")
    assert getattr(shown, "group_instance_id", None) == ("i0" if version >= 4 else None)


@pytest.mark.fact("A-107")
@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS, first=3))
def test_what_may_be_done_is_told_if_asked_for_and_never_along_with_an_error(
    conversation: Conversation, version: int
) -> None:
    conversation.scene.stable_group(1)
    for is_asked in (False, True):
        response = conversation.ask(
            ApiKey.DESCRIBE_GROUPS, version, groups=["g", "nope"], include_authorized_operations=is_asked
        )
        there, missing = (group.authorized_operations for group in response.groups)
        assert (there == NOT_ASKED_FOR) == (not is_asked)
        assert (missing == NOT_ASKED_FOR) == (not is_asked or version >= 6)


# DeleteGroups.


@pytest.mark.fact("A-209")
@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_each_group_has_a_result_in_every_version(conversation: Conversation, version: int) -> None:
    conversation.scene.commit({("t", 0): 1}, group_id="good")
    conversation.scene.stable_group(1, group_id="busy")
    response = conversation.ask(ApiKey.DELETE_GROUPS, version, groups_names=["busy", "good", "nope", "good"])
    assert {result.group_id: result.error_code for result in response.results} == {
        "busy": ErrorCode.non_empty_group,
        "good": NONE,
        "nope": ErrorCode.group_id_not_found,
    }
    assert len(response.results) == 3
