"""Removes members from a group, and reports the result for each."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.interruption import NEVER, Stop
from kcoord.admin.model import Group, Member, MemberToRemove, Refusal, Resource
from kcoord.errors import ErrorCode
from kcoord.exceptions import InvalidInput

MEMBERS_AT_ONCE: Final = 50  # in one batch; a stop takes effect between batches


class NotAMember(InvalidInput, RuntimeError):
    """An error: the group does not have a member that was named."""


def chosen_members(
    group: Group, *, member_ids: Collection[str], instance_ids: Collection[str], everyone: bool
) -> tuple[Member, ...]:
    """Returns the members with these ids, or everyone, in the group's order. Raises NotAMember for one that does not
    exist."""
    absent = [
        *(f"member {each}" for each in member_ids if each not in {member.member_id for member in group.members}),
        *(f"instance {each}" for each in instance_ids if each not in {member.instance_id for member in group.members}),
    ]
    if absent:
        raise NotAMember(f"group {group.name} has no {', no '.join(absent)}: see `kcoord groups describe {group.name}`")
    if not group.members:
        raise NotAMember(f"group {group.name} has no members")
    return tuple(
        member
        for member in group.members
        if everyone or member.member_id in member_ids or (member.instance_id and member.instance_id in instance_ids)
    )


def member_to_remove(member: Member) -> MemberToRemove:
    """Returns the ids by which a member is removed, both of them: a static member that has rejoined has a new member
    id, and must not be removed."""
    return MemberToRemove(member_id=member.member_id, instance_id=member.instance_id)


@dataclass(slots=True, kw_only=True)
class Removed:
    """The result of removing members: the broker's error code for each. It is consistent at any moment of an interrupt.

    A member in `begun` without an error code had no response; a member in neither was not tried.
    """

    errors: dict[MemberToRemove, ErrorCode] = field(default_factory=dict)
    begun: list[MemberToRemove] = field(default_factory=list)
    refused: tuple[Refusal, ...] = ()
    was_stopped: bool = False


def remove(
    cluster: ClusterClient, group: str, members: Collection[MemberToRemove], *, reason: str, stop: Stop = NEVER
) -> Removed:
    """Removes these members from a group in batches. No further batch begins after `stop` was requested. A
    KeyboardInterrupt leaves the members of the batch in flight without an error code."""
    removed = Removed()
    waiting = list(members)
    stop.begin()
    try:
        while waiting and not stop.is_asked():
            batch, waiting = waiting[:MEMBERS_AT_ONCE], waiting[MEMBERS_AT_ONCE:]
            removed.begun += batch
            answers = cluster.remove_members(group, batch, reason=reason)
            removed.errors |= answers.found
            removed.refused += answers.refused
    except KeyboardInterrupt:
        removed.was_stopped = True
    except ConnectionError as error:  # the members that were removed before are still reported
        why = Refusal(kind=Resource.GROUP, name=group, error=ErrorCode.network_exception, message=str(error))
        removed.refused += (why,)
    removed.was_stopped = removed.was_stopped or stop.is_asked()
    return removed
