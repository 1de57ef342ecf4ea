"""Who is meant when members are to be removed."""

from collections.abc import Collection

from kcoord.admin.model import Group, LeavingMember, Member


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
