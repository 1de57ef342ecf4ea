"""DescribeGroups: a missing group is an error from version 6 on (KIP-1043), and the state Dead before."""

from dataclasses import replace
from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import OPERATIONS_NOT_ASKED_FOR, DescribedGroup, DescribeGroupsReply
from kcoord.groups.requests import DescribeGroups


def to_request(entity: Any, caller: Caller) -> DescribeGroups:
    """Converts kio's DescribeGroups request of any version to the version-free one."""
    include_operations = getattr(entity, "include_authorized_operations", False)
    return DescribeGroups(group_ids=entity.groups, include_operations=include_operations)


def to_response(reply: DescribeGroupsReply, version: int) -> DescribeGroupsReply:
    """Adapts the reply to a version: a missing group is an error from version 6 on, and the state Dead before."""
    convert = _with_error if version >= 6 else _without_error
    return DescribeGroupsReply(groups=tuple(map(convert, reply.groups)))


def _with_error(group: DescribedGroup) -> DescribedGroup:
    """Omits the authorized operations of a missing group, since errors come without them."""
    is_missing = group.error_code is ErrorCode.group_id_not_found
    return replace(group, authorized_operations=OPERATIONS_NOT_ASKED_FOR) if is_missing else group


def _without_error(group: DescribedGroup) -> DescribedGroup:
    is_missing = group.error_code is ErrorCode.group_id_not_found
    return replace(group, error_code=ErrorCode.none) if is_missing else group


API = group_api(to_request=to_request, decide=Coordinator.describe_groups, to_response=to_response)
