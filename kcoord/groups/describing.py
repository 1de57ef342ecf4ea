"""ListGroups and DescribeGroups."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.state import State
from kcoord.groups.foreign_groups import ForeignGroup
from kcoord.groups.replies import (
    OPERATIONS_NOT_ASKED_FOR,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    ListGroupsReply,
)
from kcoord.groups.requests import ListGroups

CLASSIC: Final = "classic"
GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""All operations on a group as bits of Kafka's AclOperation: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
Nothing is forbidden here; authorization narrows the bits afterwards."""


def list_groups(
    groups: Iterable[Group], foreign_groups: Iterable[ForeignGroup], request: ListGroups
) -> ListGroupsReply:
    """Returns the reply to ListGroups: the groups that match the request's filters by state and type.

    Names of states and types are compared without case, states also without surrounding blanks; an unknown name matches
    no group.
    """
    states = {name.strip().lower() for name in request.states}
    types = {name.lower() for name in request.types}
    listed = [*map(_listed, groups), *map(_listed_foreign, foreign_groups)]
    wanted = [
        group
        for group in listed
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    ]
    return ListGroupsReply(groups=tuple(wanted))


def describe(group: Group, *, include_operations: bool) -> DescribedGroup:
    """Returns the entry of a classic group in the reply to DescribeGroups: its state, protocol and members.
    Subscriptions are included once it is Stable, since only then the protocol is certain. `include_operations` adds the
    ACL operations that the client may do."""
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=tuple(_described(member, group.protocol, is_stable) for member in group.members.values()),
        authorized_operations=GROUP_OPERATIONS if include_operations else OPERATIONS_NOT_ASKED_FOR,
    )


def not_found(group_id: str, *, include_operations: bool) -> DescribedGroup:
    """Returns the entry of a group that does not exist in the reply to DescribeGroups: state Dead,
    GROUP_ID_NOT_FOUND."""
    return DescribedGroup(
        group_id=group_id,
        group_state=State.DEAD,
        error_code=ErrorCode.group_id_not_found,
        error_message=f"Group {group_id} not found.",
        authorized_operations=GROUP_OPERATIONS if include_operations else OPERATIONS_NOT_ASKED_FOR,
    )


def not_classic(group_id: str, *, include_operations: bool) -> DescribedGroup:
    """Returns the entry of a group that is not classic, such as a consumer group of KIP-848, in the reply to
    DescribeGroups: it is reported as not found."""
    found = not_found(group_id, include_operations=include_operations)
    return replace(found, error_message=f"Group {group_id} is not a classic group.")


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id, protocol_type=group.protocol_type or "", group_state=group.state, group_type=CLASSIC
    )


def _listed_foreign(group: ForeignGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id, protocol_type=group.kind, group_state=group.state, group_type=group.kind
    )


def _described(member: Member, protocol: str | None, is_stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.subscription(protocol) if is_stable else b"",
        member_assignment=member.assignment,
    )
