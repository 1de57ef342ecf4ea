"""The state of one KIP-848 consumer group, derived from its heartbeats. Pure.

This protocol has no join phase and no leader: members send their subscription, and get their epoch and assignment. A
rebalance is a higher group epoch, observed in the first response that carries it.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from kcoord.groups.foreign_groups import ForeignGroupState
from kcoord.proxy.observing.observed_group import Cause, Membership, ObservedMember, Rebalanced, RebalanceStart

_STATIC_LEAVE_EPOCH: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The observed fields of a ConsumerGroupHeartbeat request (KIP-848). Epoch 0 joins, a negative one leaves; topics
    None means unchanged.

    Epoch -2 is sent by a static member that means to return: it stays a member until its session expires.
    """

    member: ObservedMember
    epoch: int
    topics: frozenset[str] | None


@dataclass(slots=True)
class ObservedConsumerGroup(Membership):
    """The state of a KIP-848 consumer group, as far as heartbeats through this proxy show it."""

    generation: int = 0  # the highest epoch in any response
    protocol_type: str = "consumer"
    protocol: str = ""  # unknown: the coordinator chooses the assignor
    _epochs: dict[str, int] = field(default_factory=dict)
    _began: RebalanceStart | None = None

    @property
    def state(self) -> ForeignGroupState:
        """Whether the group is empty, stable, or has members that are behind its epoch (reconciling)."""
        if not self.members:
            return ForeignGroupState.EMPTY
        is_behind = any(epoch < self.generation for epoch in self._epochs.values())
        return ForeignGroupState.RECONCILING if is_behind else ForeignGroupState.STABLE

    def on_heartbeat_answered(
        self, ticket: object, heartbeat: Heartbeat, member_id: str, epoch: int, now: float
    ) -> Rebalanced | None:
        """Applies a successful heartbeat response, with the member's id and its epoch; returns the rebalance that it
        shows, if any. `ticket` is that of its pending join.
        """
        self._pending_joins.pop(ticket, None)
        if heartbeat.epoch == _STATIC_LEAVE_EPOCH:
            self._epochs.pop(member_id, None)
            return None
        if heartbeat.epoch < 0:
            self.on_unknown_member(member_id)
            return None
        self._replace_static(heartbeat.member.instance_id, member_id)
        known = self.members.get(member_id)
        if heartbeat.epoch == 0 and known is None:
            self._began = self._began or RebalanceStart(Cause.JOINED)
        elif known and heartbeat.topics is not None and heartbeat.topics != known.topics:
            self._began = self._began or RebalanceStart(Cause.NEW_SUBSCRIPTION)
        topics = heartbeat.topics if heartbeat.topics is not None else known.topics if known else frozenset()
        self.members[member_id] = replace(heartbeat.member, member_id=member_id, topics=topics)
        self._last_seen_at[member_id] = now
        self._epochs[member_id] = epoch
        if epoch <= self.generation:
            return None
        is_proxy_younger = self.generation == 0 and heartbeat.epoch > 0  # the group's epoch began before the proxy did
        self.generation = epoch
        return None if is_proxy_younger else self._complete_rebalance(now)

    def on_unknown_member(self, member_id: str) -> None:
        """Removes a member that left, or that the coordinator no longer knows."""
        if member_id in self.members:
            self._remove(member_id)
            self._began = self._began or RebalanceStart(Cause.LEFT)

    def rebalances_since(self, instant: float) -> int:
        """Returns how many rebalances there were since this instant, including one for each pending new member: every
        new member causes a new epoch.
        """
        return sum(at > instant for at in self.rebalanced_at) + len(self._pending_new_members())

    def _replace_static(self, instance_id: str | None, member_id: str) -> None:
        """Moves a static member that returned with a new id; its old id is void."""
        if instance_id is None:
            return
        former = [each.member_id for each in self.members.values() if each.instance_id == instance_id]
        for each in former:
            if each != member_id:
                self.members[member_id] = self.members[each]
                self._remove(each)

    def _remove(self, member_id: str) -> None:
        del self.members[member_id], self._last_seen_at[member_id]
        self._epochs.pop(member_id, None)

    def _complete_rebalance(self, now: float) -> Rebalanced:
        self.rebalanced_at.append(now)
        alive = {member.member_id for member in self.alive(now)}
        expired = self.members.keys() - alive
        began = self._began or RebalanceStart(Cause.SESSION_EXPIRED if expired else Cause.ELSEWHERE)
        self._began = None
        for member_id in expired:
            self._remove(member_id)
        return Rebalanced(
            group_id=self.group_id,
            generation=self.generation,
            cause=began.cause,
            members=len(self.members),
            protocol=self.protocol,
            reason=began.reason,
        )
