"""What a member may ask again without being looked at anew, as long as its group stays as it is.

A member sends the same heartbeat every few seconds, and commits to the same partitions. Once that went well, it stands:
as long as the group is Stable, in the same generation, and the member is still in it, all that would be looked at is as
it was, so that the reply is the same too. What else there is to do, to renew the session and to keep the offsets, is
done here. As soon as it does not hold, the request is decided as any other.

Nothing needs to be told when a group can no longer be asked for: who closes it lets go of it first, and it is Dead.
"""

from kcoord.groups.committing import UsualCommit, keep_again
from kcoord.groups.group import Group
from kcoord.groups.instant import Instant
from kcoord.groups.member import Member
from kcoord.groups.records import StoredAgain
from kcoord.groups.state import State
from kcoord.groups.topics import Topics


class StandingHeartbeat:
    __slots__ = ("_deadlines", "_generation", "_group", "_session", "_timeout")

    def __init__(self, group: Group, member: Member) -> None:
        self._group = group
        self._generation = group.generation
        self._deadlines = group.deadlines
        self._session = member.session
        self._timeout = member.session_timeout

    def beat(self, now: float) -> bool:
        """Whether all is well with the member; its session is renewed then. Of one that is gone it has no end."""
        group = self._group
        if group.state is not State.STABLE or group.generation != self._generation or self._session.at is None:
            return False
        self._deadlines.set(self._session, now + self._timeout)
        return True


class StandingCommit(StandingHeartbeat):
    __slots__ = ("_topics", "usual")

    def __init__(self, group: Group, member: Member, usual: UsualCommit, topics: Topics) -> None:
        super().__init__(group, member)
        self.usual = usual
        self._topics = topics

    def commit(self, offsets: tuple[int, ...], at: Instant) -> StoredAgain | None:
        """What is to be recorded of a commit of these offsets; None if it is to be decided."""
        if self.usual.losses != self._topics.losses or not self.beat(at.now):
            return None
        return keep_again(self._group, self.usual, offsets, at)
