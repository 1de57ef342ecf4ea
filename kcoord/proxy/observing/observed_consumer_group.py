"""One group of the newer consumer protocol (KIP-848) as its heartbeats tell of it. Pure.

There is no join and no leader here: members say what they want, and are told their epoch and what is theirs. A
rebalance is a higher epoch of the group; the first member that is told of it tells us.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from kcoord.groups.foreign_groups import OtherState
from kcoord.proxy.observing.observed_group import Began, Cause, Membership, Rebalanced, WatchedMember

_STATIC_LEAVES: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a ConsumerGroupHeartbeat says. Epoch 0 joins, a negative one leaves; no topics: the same as before.

    -2 is of a static member that means to come back: its place is kept for it until its session is over.
    """

    member: WatchedMember
    epoch: int
    topics: frozenset[str] | None


@dataclass(slots=True)
class WatchedConsumerGroup(Membership):
    generation: int = 0  # the highest epoch that a member was told
    protocol_type: str = "consumer"
    protocol: str = ""  # the coordinator's own
    _epochs: dict[str, int] = field(default_factory=dict)
    _began: Began | None = None

    @property
    def state(self) -> OtherState:
        if not self.members:
            return OtherState.EMPTY
        is_behind = any(epoch < self.generation for epoch in self._epochs.values())
        return OtherState.RECONCILING if is_behind else OtherState.STABLE

    def answered(self, ticket: object, beat: Beat, member_id: str, epoch: int, now: float) -> Rebalanced | None:
        """A heartbeat was answered well: the member has this id, and was told this epoch."""
        self._joining.pop(ticket, None)
        if beat.epoch == _STATIC_LEAVES:
            self._epochs.pop(member_id, None)
            return None
        if beat.epoch < 0:
            self.forgotten(member_id)
            return None
        self._replace_static(beat.member.instance_id, member_id)
        known = self.members.get(member_id)
        if beat.epoch == 0 and known is None:
            self._began = self._began or Began(Cause.JOINED)
        elif known and beat.topics is not None and beat.topics != known.topics:
            self._began = self._began or Began(Cause.NEW_SUBSCRIPTION)
        topics = beat.topics if beat.topics is not None else known.topics if known else frozenset()
        self.members[member_id] = replace(beat.member, member_id=member_id, topics=topics)
        self._heard_at[member_id] = now
        self._epochs[member_id] = epoch
        if epoch <= self.generation:
            return None
        is_younger = self.generation == 0 and beat.epoch > 0  # the proxy than the group
        self.generation = epoch
        return None if is_younger else self._rebalanced(now)

    def forgotten(self, member_id: str) -> None:
        """It left, or the coordinator does not know it any more."""
        if member_id in self.members:
            self._remove(member_id)
            self._began = self._began or Began(Cause.LEFT)

    def rebalances_since(self, instant: float) -> int:
        """With those to come of members on the way in: each new member is a new epoch."""
        return sum(at > instant for at in self.rebalanced_at) + len(self._new_on_the_way())

    def _replace_static(self, instance_id: str | None, member_id: str) -> None:
        """A static member that is back may have another id; the one that it had is nobody's."""
        if instance_id is None:
            return
        former = [each.member_id for each in self.members.values() if each.instance_id == instance_id]
        for each in former:
            if each != member_id:
                self.members[member_id] = self.members[each]
                self._remove(each)

    def _remove(self, member_id: str) -> None:
        del self.members[member_id], self._heard_at[member_id]
        self._epochs.pop(member_id, None)

    def _rebalanced(self, now: float) -> Rebalanced:
        self.rebalanced_at.append(now)
        alive = {member.member_id for member in self.alive(now)}
        silent = self.members.keys() - alive
        began = self._began or Began(Cause.SESSION_EXPIRED if silent else Cause.ELSEWHERE)
        self._began = None
        for member_id in silent:
            self._remove(member_id)
        return Rebalanced(
            group_id=self.group_id,
            generation=self.generation,
            cause=began.cause,
            members=len(self.members),
            protocol=self.protocol,
            reason=began.reason,
        )
