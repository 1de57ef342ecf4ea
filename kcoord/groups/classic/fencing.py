"""Fencing: the checks that every request of a member passes first, in Kafka's order."""

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.state import State


def fence_identity(group: Group, member_id: str, instance_id: str | None) -> ErrorCode | None:
    """Returns UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless the member exists and holds the instance id that it names,
    else None (ClassicGroup.validateMember)."""
    if instance_id is not None:
        known = group.member_ids_by_instance.get(instance_id)
        if known is None:
            return ErrorCode.unknown_member_id
        if known != member_id:
            return ErrorCode.fenced_instance_id
    return None if member_id in group.members else ErrorCode.unknown_member_id


def fence(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
    """Returns an error unless the member exists, holds the instance id that it names, and is in the current generation,
    else None."""
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    if instance_id is not None or member_id not in group.members:
        error = fence_identity(group, member_id, instance_id)
        if error is not None:
            return error
    return None if generation == group.generation else ErrorCode.illegal_generation
