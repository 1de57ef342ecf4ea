"""ListGroups, DescribeGroups, DeleteGroups and FindCoordinator in every version."""

from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from tests.differential.conftest import NewGroupPair
from tests.differential.groups.support.group_pair import GroupPair, parked
from tests.differential.groups.support.group_requests import (
    VERSIONS,
    Group,
    MemberId,
    Profile,
    committed,
    leave_of,
    subscription,
)
from tests.differential.groups.support.group_sequences import TOPICS

STABLE, SIMPLE, EMPTY, JOINING, SYNCING, GIVEN_AN_ID, ABSENT = (Group(number) for number in range(7))
ACTORS = [
    Profile(instance_id="instance", protocols=[("range", subscription("a")), ("sticky", b"")]),
    Profile(protocols=[("range", subscription("b", "c"))]),
    Profile(group=2, protocol_type="connect"),
    Profile(group=3),
    Profile(group=3),
    Profile(group=4),
    Profile(group=5),
]


@pytest.fixture
def groups(new_groups: NewGroupPair) -> GroupPair:
    """Groups in each state, one of each."""
    pair = new_groups(*ACTORS)
    pair.make_stable(0, 1)
    topics = [committed(TOPICS[0], {0: 7})]
    pair.ask(0, ApiKey.OFFSET_COMMIT, 8, group_id=SIMPLE, generation_id_or_member_epoch=-1, topics=topics)
    pair.make_stable(2)
    pair.ask(2, ApiKey.LEAVE_GROUP, 5, **leave_of(EMPTY, (MemberId(2), None)))
    pair.make_stable(3, 4)
    assert pair.join(3, 9, MemberId(3)) is parked
    pair.join(5, 3)
    pair.join(6, 9)
    return pair


FILTERS: list[dict[str, Any]] = [
    {},
    {"states_filter": ["Stable"]},
    {"states_filter": ["stable", " EMPTY "]},
    {"states_filter": ["PreparingRebalance"]},
    {"states_filter": ["completingrebalance", "Dead"]},
    {"states_filter": ["Unheard of"]},
    {"states_filter": ["Unheard of", "Empty"]},
    {"states_filter": [""]},
    {"types_filter": ["classic"]},
    {"types_filter": ["CLASSIC", "share"]},
    {"types_filter": [" classic "]},
    {"types_filter": ["consumer"]},
    {"types_filter": ["unheard of"]},
    {"types_filter": ["unheard of", "classic"]},
    {"types_filter": [""]},
    {"types_filter": ["classic"], "states_filter": ["Empty"]},
    {"types_filter": ["consumer"], "states_filter": ["Empty"]},
]


def test_groups_are_listed_by_state_and_type(groups: GroupPair) -> None:
    for version in VERSIONS[ApiKey.LIST_GROUPS]:
        for wanted in FILTERS:
            groups.ask(0, ApiKey.LIST_GROUPS, version, **wanted)
    assert len(groups.ask(0, ApiKey.LIST_GROUPS, 5)["groups"]) == 6
    assert len(groups.ask(0, ApiKey.LIST_GROUPS, 5, states_filter=["empty"])["groups"]) == 3


@pytest.mark.parametrize("version", VERSIONS[ApiKey.DESCRIBE_GROUPS])
def test_groups_are_described(groups: GroupPair, version: int) -> None:
    everything = [STABLE, SIMPLE, EMPTY, JOINING, SYNCING, GIVEN_AN_ID, ABSENT, ""]
    for wanted in (everything, [STABLE, STABLE], [ABSENT, ABSENT], []):
        for with_operations in (True, False):
            answer = groups.ask(
                0, ApiKey.DESCRIBE_GROUPS, version, groups=wanted, include_authorized_operations=with_operations
            )
            assert len(answer["groups"]) == len(wanted)
    described = groups.ask(0, ApiKey.DESCRIBE_GROUPS, version, groups=[STABLE])["groups"][0]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    assert {member["client_host"] for member in described["members"]} == {"/127.0.0.1"}


@pytest.mark.parametrize("version", VERSIONS[ApiKey.DELETE_GROUPS])
def test_groups_without_members_are_deleted(groups: GroupPair, version: int) -> None:
    wanted = [STABLE, SIMPLE, EMPTY, JOINING, SYNCING, GIVEN_AN_ID, ABSENT, "", SIMPLE]
    answer = groups.ask(0, ApiKey.DELETE_GROUPS, version, groups_names=wanted)
    errors = {line["group_id"]: line["error_code"] for line in answer["results"]}
    assert errors["group 0"] == errors["group 3"] == errors["group 4"] == "non_empty_group"
    assert errors["group 1"] == errors["group 2"] == "none"
    assert errors["group 6"] == "group_id_not_found"
    groups.ask(0, ApiKey.DELETE_GROUPS, version, groups_names=wanted)
    groups.ask(0, ApiKey.DELETE_GROUPS, version, groups_names=[])
    groups.ask(0, ApiKey.LIST_GROUPS, 5)
    assert groups.join(6, 9, MemberId(6))["error_code"] == "unknown_member_id"
    assert groups.join(2, 3)["generation_id"] == 1


@pytest.mark.parametrize("version", VERSIONS[ApiKey.FIND_COORDINATOR])
def test_every_group_has_a_coordinator(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    for key in (Group(), "", "\x1b[31m ü", "x" * 1000):
        pair.ask(0, ApiKey.FIND_COORDINATOR, version, key=key, key_type=0, coordinator_keys=[key, Group(1)])
    for key_type in (3, -1, 127):
        pair.ask(0, ApiKey.FIND_COORDINATOR, version, key=Group(), key_type=key_type, coordinator_keys=[Group()])
    pair.ask(0, ApiKey.FIND_COORDINATOR, version, key=Group(), key_type=0, coordinator_keys=[])
    pair.ask(0, ApiKey.FIND_COORDINATOR, version, key=Group(), key_type=0, coordinator_keys=[Group(), Group()])
