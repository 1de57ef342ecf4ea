"""Removing members from a group: who is meant, and what became of each."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from kcoord.admin.cluster_client import LiveCluster
from kcoord.admin.interruption import NEVER, Stop
from kcoord.admin.model import Group, LeavingMember, Member, Refusal
from kcoord.errors import ErrorCode

MEMBERS_AT_ONCE: Final = 50  # leave together; after each such batch it may be stopped


class NotAMember(RuntimeError):
    """A member was named that the group does not have."""


def chosen_members(
    group: Group, *, member_ids: Collection[str], instance_ids: Collection[str], everyone: bool
) -> tuple[Member, ...]:
    """The members that are named, in the group's order. Raises NotAMember for one that is not there."""
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


def leaving(member: Member) -> LeavingMember:
    """With both ids: a static member that has come back meanwhile has a new member id, and is not meant."""
    return LeavingMember(member_id=member.member_id, instance_id=member.instance_id)


@dataclass(slots=True, kw_only=True)
class Removed:
    """What the broker said of each member that it was asked to remove: right at any moment of an interrupt.

    A member that was `begun` and has no error had no answer; one that is in neither was not tried.
    """

    errors: dict[LeavingMember, ErrorCode] = field(default_factory=dict)
    begun: list[LeavingMember] = field(default_factory=list)
    refused: tuple[Refusal, ...] = ()
    was_stopped: bool = False


def remove(
    cluster: LiveCluster, group: str, members: Collection[LeavingMember], *, reason: str, stop: Stop = NEVER
) -> Removed:
    """Remove these members, some at a time. No further ones are begun after `stop` was asked for, and a
    KeyboardInterrupt leaves those without an answer that are on the way."""
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
    except ConnectionError as error:  # what was removed before is told all the same
        removed.refused += (Refusal(what=f"group {group}", error=ErrorCode.network_exception, message=str(error)),)
    removed.was_stopped = removed.was_stopped or stop.is_asked()
    return removed
