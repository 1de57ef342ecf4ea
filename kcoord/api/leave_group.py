"""LeaveGroup: one member up to version 2, whose error is the response's; any number from 3 on (KIP-345)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import LeaveReply
from kcoord.groups.requests import Leave, LeavingMember


def to_request(entity: Any, caller: Caller) -> Leave:
    """Converts kio's LeaveGroup request of any version to the version-free one."""
    if entity.__version__ < 3:
        return Leave(group_id=entity.group_id, members=(LeavingMember(member_id=entity.member_id),))
    return Leave(
        group_id=entity.group_id,
        members=tuple(
            LeavingMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                reason=getattr(member, "reason", None),
            )
            for member in entity.members
        ),
    )


def to_response(reply: LeaveReply, version: int) -> LeaveReply:
    """Adapts the reply to a version: before version 3 the error of the one member is that of the response."""
    if version >= 3 or not reply.members:
        return reply
    return LeaveReply(error_code=reply.members[0].error_code)


API = group_api(to_request=to_request, decide=Coordinator.leave, to_response=to_response)
