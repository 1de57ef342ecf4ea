"""A classic group: its members, its state and its offsets.

All changes of members and offsets, and of the counters derived from them, are made here. The decisions that lead to
them are in joining, syncing and the other files named after a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcoord.groups.classic import protocols
from kcoord.groups.classic.member import Holder, Member, Protocols
from kcoord.groups.classic.state import MAY_FOLLOW, State
from kcoord.groups.deadlines import Deadline, Deadlines, Purpose
from kcoord.groups.instant import Instant
from kcoord.groups.offsets.committed_offsets import CommittedOffsets, OffsetAndMetadata
from kcoord.groups.records import GroupStored, StoredMember
from kcoord.groups.usage import NOBODY, Usage, group_bytes, member_bytes
from kcoord.tickets import Ticket

_GROUP_BYTES: Final = 28  # in a record, besides names and members: versions, lengths, the generation and a time
_MEMBER_BYTES: Final = 24  # besides names, subscription and assignment: lengths and times


@dataclass(slots=True, kw_only=True)
class InitialDelay:
    """The time that a formerly empty group still waits for more members to join (KIP-134), in seconds: the delay that
    is running and how much of it may follow. `has_newcomers` says whether a member joined during it, which extends
    it."""

    delay: float
    remaining: float
    has_newcomers: bool = False


class Group:
    """A classic group (of consumers, Connect workers and the like) in memory: its members, state, generation,
    assignments, committed offsets and deadlines. Each change of them is a method here; which change a request makes is
    decided in the modules named after requests."""

    __slots__ = (
        "_held_bytes",
        "_is_counted",
        "_name_bytes",
        "_subscribed_topics",
        "_subscription_bytes",
        "_subscriptions",
        "_usage",
        "awaiting_sync",
        "committed_offsets",
        "deadlines",
        "generation",
        "group_id",
        "initial_delay",
        "join_phase",
        "leader_id",
        "member_ids_by_instance",
        "members",
        "owner",
        "parked_joins",
        "pending",
        "pending_holders",
        "plan_bytes",
        "protocol",
        "protocol_support",
        "protocol_type",
        "since_ms",
        "state",
        "sync_phase",
    )

    def __init__(
        self, group_id: str, deadlines: Deadlines, usage: Usage, *, since_ms: int | None, owner: Holder = NOBODY
    ) -> None:
        self.deadlines = deadlines
        self._usage = usage
        self._is_counted = False
        self._held_bytes = 0
        self.group_id = group_id
        self.owner = owner
        self.plan_bytes = 0  # size of all current assignments
        self.state = State.EMPTY
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.member_ids_by_instance: dict[str, str] = {}
        self.pending: dict[str, Deadline] = {}  # member ids that were issued and not used yet (KIP-394)
        self.pending_holders: dict[str, Holder] = {}
        self.parked_joins = 0
        self.protocol_support: dict[str, int] = {}  # number of members that support each protocol
        self.awaiting_sync: set[str] = set()
        self._name_bytes = 0  # size of the members' names in the group's record
        self._subscription_bytes = 0  # size, in the record, of the subscriptions that this generation began with
        self._subscriptions: list[bytes] | None = None  # of this generation, until its topics are parsed on first use
        self._subscribed_topics: set[str] | None = None
        self.initial_delay: InitialDelay | None = None
        self.join_phase = Deadline(Purpose.JOIN, group_id)
        self.sync_phase = Deadline(Purpose.SYNC, group_id)
        self.committed_offsets = CommittedOffsets()

    # State.

    def move_to(self, state: State, wall_ms: int) -> None:
        """Changes the group's state, and remembers since when. Asserts that Kafka allows the transition."""
        assert state in MAY_FOLLOW[self.state], f"{state} cannot follow {self.state}"
        self.state = state
        self.since_ms = wall_ms

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of the members, in seconds; 0 without members."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def have_all_joined(self) -> bool:
        """Whether every member has a parked JoinGroup, and no issued member id is unused, so that the join phase can
        end."""
        return self.parked_joins == len(self.members) and not self.pending

    def begin_generation(self, wall_ms: int) -> None:
        """Ends the join phase with the next generation: a group with members goes on to CompletingRebalance, one
        without becomes Empty."""
        self.generation += 1
        self.awaiting_sync.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.snapshot_subscriptions()
        self.move_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, wall_ms)

    def select_protocol(self) -> str:
        """Returns the protocol (such as "range") that the members vote for (ClassicGroup.selectProtocol)."""
        return protocols.select_protocol(self.members.values(), self.protocol_support)

    def snapshot_subscriptions(self) -> None:
        """Remembers the subscriptions with which this generation begins, for `subscribed_topics`; members may change
        theirs for the next one."""
        is_read = self.protocol_type == protocols.CONSUMER
        subscriptions = [member.subscription(self.protocol) for member in self.members.values()]
        self._subscription_bytes = sum(map(len, subscriptions))
        self._subscriptions = subscriptions if is_read else None
        self._subscribed_topics = None

    @property
    def subscribed_topics(self) -> set[str] | None:
        """The topics that the members of this generation subscribe to, or None if the subscriptions cannot be parsed.

        They are parsed on first use: few callers ask, and there may be many generations.
        """
        if self._subscriptions is not None:
            self._subscribed_topics = protocols.subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def subscribes_to(self, topic: str) -> bool:
        """Returns whether the topic is in use by the group. A consumer group whose topics are not known counts as
        subscribed to all of them."""
        if self.subscribed_topics is None:
            return self.protocol_type == protocols.CONSUMER
        return topic in self.subscribed_topics

    # Members.

    def is_leader(self, member_id: str) -> bool:
        return member_id == self.leader_id

    def supports(self, protocol_type: str, offered: Protocols) -> bool:
        """Returns whether a client with this protocol type and these protocols can join the group: it must share a
        protocol with all members."""
        if self.is_empty:
            return bool(protocol_type) and bool(offered)
        if protocol_type != self.protocol_type:
            return False
        for name, _ in offered:  # noqa: SIM110 - all joins of a rebalance pass here, and `any` takes three times as long
            if self.protocol_support.get(name, 0) == len(self.members):
                return True
        return False

    def add(self, member: Member, protocol_type: str) -> None:
        """Adds a member; the first one becomes the leader."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            assert member.instance_id not in self.member_ids_by_instance, "a known instance is replaced, not added"
            self.member_ids_by_instance[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._name_bytes += _name_bytes(member)
        self._usage.members.add(member.holder, 1)
        self._set_held_bytes(member, member_bytes(member))
        self.forget_pending(member.member_id)
        self._adjust_protocol_support(member.protocols, 1)
        self.parked_joins += member.join_ticket is not None

    def remove(self, member: Member) -> None:
        """Removes a member; the leader is succeeded by the next one. The caller answers the member's parked
        requests."""
        del self.members[member.member_id]
        self._name_bytes -= _name_bytes(member)
        self._usage.members.add(member.holder, -1)
        self._set_held_bytes(member, 0)
        if member.assignment:
            self.set_plan_bytes(self.plan_bytes - len(member.assignment))
        self._adjust_protocol_support(member.protocols, -1)
        self.parked_joins -= member.join_ticket is not None
        self.awaiting_sync.discard(member.member_id)
        self.deadlines.clear(member.session)
        if member.instance_id is not None:
            del self.member_ids_by_instance[member.instance_id]
        if self.is_leader(member.member_id):
            self.leader_id = next(iter(self.members), None)

    def replace(self, old: Member, member_id: str) -> Member:
        """Replaces a static member that has returned by a copy of it under a new member id, which is returned
        (KIP-345). The caller must have answered the parked requests of the old one."""
        assert old.instance_id is not None
        assert not old.is_parked
        self.deadlines.clear(old.session)
        new = Member(
            member_id=member_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            session_timeout=old.session_timeout,
            rebalance_timeout=old.rebalance_timeout,
            protocols=old.protocols,
            session=Deadline(Purpose.SESSION, self.group_id, member_id),
            assignment=old.assignment,
            principal=old.principal,
        )
        # The new member keeps the old one's position in the order of members.
        self.members = {
            new.member_id if known is old else known_id: new if known is old else known
            for known_id, known in self.members.items()
        }
        self._name_bytes += _name_bytes(new) - _name_bytes(old)
        self._set_held_bytes(old, 0)
        self._set_held_bytes(new, member_bytes(new))
        self.member_ids_by_instance[old.instance_id] = member_id
        self.awaiting_sync.discard(old.member_id)
        if self.is_leader(old.member_id):
            self.leader_id = member_id
        return new

    def update_protocols(self, member: Member, offered: Protocols) -> None:
        """Replaces the member's protocols and subscriptions by those of its new JoinGroup."""
        if not protocols.have_same_names(offered, member.protocols):
            self._adjust_protocol_support(member.protocols, -1)
            self._adjust_protocol_support(offered, 1)
        member.protocols = offered
        self._set_held_bytes(member, member_bytes(member))

    def add_pending(self, member_id: str, holder: Holder, deadline: float) -> None:
        """Adds a member id that was issued to a client that has to join again with it (KIP-394). It expires at the
        deadline, in monotonic seconds, if nobody has."""
        self.pending[member_id] = Deadline(Purpose.SESSION, self.group_id, member_id)
        self.pending_holders[member_id] = holder
        self._usage.members.add(holder, 1)
        self.deadlines.set(self.pending[member_id], deadline)

    def forget_pending(self, member_id: str) -> None:
        """Removes a member id that was issued (KIP-394), if nobody has joined with it yet."""
        deadline = self.pending.pop(member_id, None)
        if deadline:
            self.deadlines.clear(deadline)
            self._usage.members.add(self.pending_holders.pop(member_id), -1)

    # Usage: what the group and its members hold, as limits count it.

    def update_usage(self) -> None:
        """Counts the group in its owner's usage of groups and bytes, or updates the count after the bytes that it holds
        have changed."""
        if not self._is_counted:
            self._is_counted = True
            self._usage.groups.add(self.owner, 1)
        held_bytes = group_bytes(self.group_id) + self.plan_bytes + self.committed_offsets.held_bytes
        self._usage.bytes.add(self.owner, held_bytes - self._held_bytes)
        self._held_bytes = held_bytes

    def adopt(self, holder: Holder) -> None:
        """Makes this client the one that the group is counted for, if none is known, as after a restart."""
        if self.owner == NOBODY and self._is_counted:
            self._usage.groups.add(NOBODY, -1)
            self._usage.groups.add(holder, 1)
            self._usage.bytes.add(NOBODY, -self._held_bytes)
            self._usage.bytes.add(holder, self._held_bytes)
            self.owner = holder

    def release_usage(self) -> None:
        """Stops counting the group and its members in the usage of clients, because the group was removed or
        replaced."""
        for member in self.members.values():
            self._usage.members.add(member.holder, -1)
            self._set_held_bytes(member, 0)
        for holder in self.pending_holders.values():
            self._usage.members.add(holder, -1)
        if self._is_counted:
            self._is_counted = False
            self._usage.groups.add(self.owner, -1)
            self._usage.bytes.add(self.owner, -self._held_bytes)
            self._held_bytes = 0

    def plan_bytes_of(self, plan: Mapping[str, bytes]) -> int:
        """Returns the size in bytes of the leader's assignments that will be stored, which are those of known
        members."""
        return sum(len(assignment) for member_id, assignment in plan.items() if member_id in self.members)

    def set_plan_bytes(self, plan_bytes: int) -> None:
        """Sets the total size of the members' assignments, in bytes, which is counted in the group's usage."""
        self.plan_bytes = plan_bytes
        self.update_usage()

    def _set_held_bytes(self, member: Member, held_bytes: int) -> None:
        self._usage.bytes.add(member.holder, held_bytes - member.held_bytes)
        member.held_bytes = held_bytes

    def elect(self, member_id: str) -> None:
        """Makes this member the leader."""
        assert member_id in self.members
        self.leader_id = member_id

    def park_join(self, member: Member, ticket: Ticket) -> None:
        """Parks the member's JoinGroup: its ticket, the handle of the request, stays with the member until the join
        phase ends."""
        assert member.join_ticket is None
        member.join_ticket = ticket
        self.parked_joins += 1

    def take_join(self, member: Member) -> Ticket | None:
        """Takes the ticket of the member's parked JoinGroup, which the caller answers now, or None if none is
        parked."""
        ticket, member.join_ticket = member.join_ticket, None
        self.parked_joins -= ticket is not None
        return ticket

    def take_joins(self) -> dict[str, Ticket]:
        """Takes the tickets of all parked JoinGroup requests, by member id; the caller answers them now."""
        waiting = {}
        for member_id, member in self.members.items():
            if member.join_ticket is not None:
                waiting[member_id] = member.join_ticket
                member.join_ticket = None
        self.parked_joins = 0
        return waiting

    def mark_synced(self, member: Member) -> None:
        """Marks the member as having sent its SyncGroup, and clears the deadline of the sync phase once all members
        have."""
        self.awaiting_sync.discard(member.member_id)
        if not self.awaiting_sync:
            self.end_sync_phase()

    @property
    def offsets(self) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """The last committed offset of each partition, by topic and partition."""
        return self.committed_offsets.by_topic()

    # Deadlines.

    def renew_session(self, member: Member, now: float) -> None:
        """Moves the end of the member's session to its session timeout after `now`, in monotonic seconds."""
        self.deadlines.set(member.session, now + member.session_timeout)

    def limit_session(self, member: Member, deadline: float) -> None:
        """Sets the end of the member's session to this monotonic instant, in seconds."""
        self.deadlines.set(member.session, deadline)

    def limit_join_phase(self, deadline: float) -> None:
        """Sets the monotonic instant, in seconds, at which the join phase ends without the members that are missing
        then."""
        self.deadlines.set(self.join_phase, deadline)

    def limit_sync_phase(self, deadline: float) -> None:
        """Sets the monotonic instant, in seconds, at which members that have not sent their SyncGroup are removed."""
        self.deadlines.set(self.sync_phase, deadline)

    def end_join_phase(self) -> None:
        """Clears the deadline of the join phase and the initial delay."""
        self.initial_delay = None
        self.deadlines.clear(self.join_phase)

    def end_sync_phase(self) -> None:
        """Clears the deadline of the sync phase, and the set of members whose SyncGroup is missing."""
        self.awaiting_sync.clear()
        self.deadlines.clear(self.sync_phase)

    def mark_dead(self, at: Instant) -> None:
        """Moves the group to Dead and clears all its deadlines, when it is unloaded."""
        self.move_to(State.DEAD, at.wall_ms)
        waiting = [member.session for member in self.members.values()] + list(self.pending.values())
        for deadline in (*waiting, self.join_phase, self.sync_phase):
            self.deadlines.clear(deadline)

    # Records.

    def to_record(self) -> GroupStored:
        """Returns the record of the group's current state, as it is written to `__consumer_offsets`."""
        return GroupStored(
            group_id=self.group_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader_id=self.leader_id,
            since_ms=self.since_ms,
            members=tuple([_to_stored_member(member, self.protocol) for member in self.members.values()]),
        )

    def record_size(self, plan: Mapping[str, bytes]) -> int:
        """Returns how many bytes the group's record, key and value, takes with these assignments by member id."""
        size = self._record_overhead()
        for member_id, member in self.members.items():
            size += len(member.subscription(self.protocol)) + len(plan.get(member_id, b""))
        return size

    def record_fits(self, plan: Mapping[str, bytes], max_bytes: int) -> bool:
        """Returns whether the group's record with these assignments by member id has at most `max_bytes` bytes.

        A cheap upper bound decides unless it is close; only then are all members visited.
        """
        upper_bound = self._record_overhead() + self._subscription_bytes + sum(map(len, plan.values()))
        return upper_bound <= max_bytes or self.record_size(plan) <= max_bytes

    def _record_overhead(self) -> int:
        """Returns the size of the group's record without subscriptions and assignments."""
        names = (self.group_id, self.protocol_type or "", self.protocol or "", self.leader_id or "")
        return _GROUP_BYTES + len("".join(names).encode()) + self._name_bytes

    def _adjust_protocol_support(self, offered: Protocols, change: int) -> None:
        for name in set(protocols.names(offered)):
            count = self.protocol_support.get(name, 0) + change
            if count:
                self.protocol_support[name] = count
            else:
                del self.protocol_support[name]


def _name_bytes(member: Member) -> int:
    """Returns the size in a record of a member's names, lengths and times."""
    names = (member.member_id, member.instance_id or "", member.client_id, member.client_host)
    return _MEMBER_BYTES + len("".join(names).encode())


def _to_stored_member(member: Member, protocol: str | None) -> StoredMember:
    return StoredMember(  # positional arguments are faster: a large group makes thousands at once
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout,
        member.rebalance_timeout,
        member.subscription(protocol),
        member.assignment,
    )


def group_from_record(record: GroupStored, deadlines: Deadlines, usage: Usage) -> Group:
    """Rebuilds a group from its record in `__consumer_offsets`. Its members' sessions begin when the coordinator
    resumes."""
    group = Group(record.group_id, deadlines, usage, since_ms=record.since_ms)
    group.generation = record.generation
    for stored in record.members:
        member = Member(
            member_id=stored.member_id,
            instance_id=stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout=stored.session_timeout,
            rebalance_timeout=stored.rebalance_timeout,
            protocols=((record.protocol or "", stored.subscription),),
            session=Deadline(Purpose.SESSION, record.group_id, stored.member_id),
            assignment=stored.assignment,
        )
        group.add(member, record.protocol_type or "")
    group.protocol_type = record.protocol_type
    group.protocol = record.protocol
    if record.leader_id in group.members:
        group.leader_id = record.leader_id
    group.state = State.STABLE if record.members else State.EMPTY
    group.plan_bytes = sum(len(stored.assignment) for stored in record.members)
    group.snapshot_subscriptions()
    return group
