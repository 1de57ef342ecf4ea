"""A classic group: its members, its state and its offsets.

How members and offsets come and go, and what is counted of them, is written here and nowhere else.

What is decided of it is in joining, syncing and the other files named after a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcoord.groups.classic import protocols
from kcoord.groups.classic.member import Holder, Member, Protocols
from kcoord.groups.classic.state import MAY_FOLLOW, State
from kcoord.groups.deadlines import Deadline, Deadlines, Purpose
from kcoord.groups.instant import Instant
from kcoord.groups.offsets.committed_offsets import Kept, KeptOffsets
from kcoord.groups.records import GroupStored, StoredMember
from kcoord.groups.usage import NOBODY, Census, bytes_of, bytes_of_group
from kcoord.tickets import Ticket

_GROUP_BYTES: Final = 28  # in a record, beside names and members: versions, lengths, the generation and a time
_MEMBER_BYTES: Final = 24  # beside names, subscription and assignment: lengths and times


@dataclass(slots=True, kw_only=True)
class InitialDelay:
    """How long a group that was empty still waits for more members (KIP-134)."""

    delay: float
    remaining: float
    has_newcomers: bool = False


class Group:
    __slots__ = (
        "_census",
        "_held_bytes",
        "_is_counted",
        "_name_bytes",
        "_subscribed_topics",
        "_subscription_bytes",
        "_subscriptions",
        "awaiting_sync",
        "deadlines",
        "generation",
        "group_id",
        "initial_delay",
        "join_phase",
        "kept",
        "leader_id",
        "member_ids_by_instance",
        "members",
        "owner",
        "parked_joins",
        "pending",
        "pending_holders",
        "plan_bytes",
        "protocol",
        "protocol_type",
        "since_ms",
        "state",
        "supporters",
        "sync_phase",
    )

    def __init__(
        self, group_id: str, deadlines: Deadlines, census: Census, *, since_ms: int | None, owner: Holder = NOBODY
    ) -> None:
        self.deadlines = deadlines
        self._census = census
        self._is_counted = False
        self._held_bytes = 0
        self.group_id = group_id
        self.owner = owner
        self.plan_bytes = 0  # of the assignments that members have
        self.state = State.EMPTY
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.member_ids_by_instance: dict[str, str] = {}
        self.pending: dict[str, Deadline] = {}  # ids that were given out and not used yet (KIP-394)
        self.pending_holders: dict[str, Holder] = {}
        self.parked_joins = 0
        self.supporters: dict[str, int] = {}  # of each protocol: how many members
        self.awaiting_sync: set[str] = set()
        self._name_bytes = 0  # of members, in a record
        self._subscription_bytes = 0  # of the members that a generation began with, in its record
        self._subscriptions: list[bytes] | None = None  # of a generation, as long as its topics are not asked for
        self._subscribed_topics: set[str] | None = None
        self.initial_delay: InitialDelay | None = None
        self.join_phase = Deadline(Purpose.JOIN, group_id)
        self.sync_phase = Deadline(Purpose.SYNC, group_id)
        self.kept = KeptOffsets()

    # State.

    def move_to(self, state: State, wall_ms: int) -> None:
        assert state in MAY_FOLLOW[self.state], f"{state} cannot follow {self.state}"
        self.state = state
        self.since_ms = wall_ms

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def rebalance_timeout(self) -> float:
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def have_all_joined(self) -> bool:
        return self.parked_joins == len(self.members) and not self.pending

    def begin_generation(self, wall_ms: int) -> None:
        """The join phase is over: with members there is a plan to be made, without the group is empty."""
        self.generation += 1
        self.awaiting_sync.clear()
        self.protocol = self.favourite_protocol() if self.members else None
        self.note_subscriptions()
        self.move_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, wall_ms)

    def favourite_protocol(self) -> str:
        """What the members vote for."""
        return protocols.chosen(self.members.values(), self.supporters)

    def note_subscriptions(self) -> None:
        """What members bring to this generation, whatever they bring to the next one."""
        is_read = self.protocol_type == protocols.CONSUMER
        subscriptions = [member.subscription(self.protocol) for member in self.members.values()]
        self._subscription_bytes = sum(map(len, subscriptions))
        self._subscriptions = subscriptions if is_read else None
        self._subscribed_topics = None

    @property
    def subscribed_topics(self) -> set[str] | None:
        """None if that is not known. Read when it is asked for: that is seldom, and generations may be many."""
        if self._subscriptions is not None:
            self._subscribed_topics = protocols.subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def subscribes_to(self, topic: str) -> bool:
        """Topics that are not known count as subscribed to: what may be in use is not deleted."""
        if self.subscribed_topics is None:
            return self.protocol_type == protocols.CONSUMER
        return topic in self.subscribed_topics

    # Members.

    def is_leader(self, member_id: str) -> bool:
        return member_id == self.leader_id

    def supports(self, protocol_type: str, offered: Protocols) -> bool:
        """Whether a member of that type with these protocols can be one of them."""
        if self.is_empty:
            return bool(protocol_type) and bool(offered)
        if protocol_type != self.protocol_type:
            return False
        for name, _ in offered:  # noqa: SIM110 - all joins of a rebalance pass here, and `any` takes three times as long
            if self.supporters.get(name, 0) == len(self.members):
                return True
        return False

    def add(self, member: Member, protocol_type: str) -> None:
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
        self._census.members.add(member.holder, 1)
        self._count_bytes(member, bytes_of(member))
        self.forget_pending(member.member_id)
        self._count(member.protocols, 1)
        self.parked_joins += member.join_ticket is not None

    def remove(self, member: Member) -> None:
        """Take it out. Its tickets are the caller's to answer."""
        del self.members[member.member_id]
        self._name_bytes -= _name_bytes(member)
        self._census.members.add(member.holder, -1)
        self._count_bytes(member, 0)
        if member.assignment:
            self.count_plan(self.plan_bytes - len(member.assignment))
        self._count(member.protocols, -1)
        self.parked_joins -= member.join_ticket is not None
        self.awaiting_sync.discard(member.member_id)
        self.deadlines.clear(member.session)
        if member.instance_id is not None:
            del self.member_ids_by_instance[member.instance_id]
        if self.is_leader(member.member_id):
            self.leader_id = next(iter(self.members), None)

    def replace(self, old: Member, member_id: str) -> Member:
        """The same static member under a new id; its tickets are the caller's to answer first."""
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
        # It takes the other's place in the order of members.
        self.members = {
            new.member_id if known is old else known_id: new if known is old else known
            for known_id, known in self.members.items()
        }
        self._name_bytes += _name_bytes(new) - _name_bytes(old)
        self._count_bytes(old, 0)
        self._count_bytes(new, bytes_of(new))
        self.member_ids_by_instance[old.instance_id] = member_id
        self.awaiting_sync.discard(old.member_id)
        if self.is_leader(old.member_id):
            self.leader_id = member_id
        return new

    def offer(self, member: Member, offered: Protocols) -> None:
        """The member comes with these protocols from now on."""
        if not protocols.are_named_alike(offered, member.protocols):
            self._count(member.protocols, -1)
            self._count(offered, 1)
        member.protocols = offered
        self._count_bytes(member, bytes_of(member))

    def await_use_of(self, member_id: str, holder: Holder, deadline: float) -> None:
        """An id was given out; it is forgotten if nobody has joined with it by then."""
        self.pending[member_id] = Deadline(Purpose.SESSION, self.group_id, member_id)
        self.pending_holders[member_id] = holder
        self._census.members.add(holder, 1)
        self.deadlines.set(self.pending[member_id], deadline)

    def forget_pending(self, member_id: str) -> None:
        deadline = self.pending.pop(member_id, None)
        if deadline:
            self.deadlines.clear(deadline)
            self._census.members.add(self.pending_holders.pop(member_id), -1)

    # What it counts for.

    def count(self) -> None:
        """Count the group, or count it anew after what it holds has changed."""
        if not self._is_counted:
            self._is_counted = True
            self._census.groups.add(self.owner, 1)
        held_bytes = bytes_of_group(self.group_id) + self.plan_bytes + self.kept.held_bytes
        self._census.bytes.add(self.owner, held_bytes - self._held_bytes)
        self._held_bytes = held_bytes

    def adopt(self, holder: Holder) -> None:
        """Let the group count for this client if nobody is known to hold it, as after a restart."""
        if self.owner == NOBODY and self._is_counted:
            self._census.groups.add(NOBODY, -1)
            self._census.groups.add(holder, 1)
            self._census.bytes.add(NOBODY, -self._held_bytes)
            self._census.bytes.add(holder, self._held_bytes)
            self.owner = holder

    def count_no_longer(self) -> None:
        """The group is gone, or another takes its place: what it and its members held is given back."""
        for member in self.members.values():
            self._census.members.add(member.holder, -1)
            self._count_bytes(member, 0)
        for holder in self.pending_holders.values():
            self._census.members.add(holder, -1)
        if self._is_counted:
            self._is_counted = False
            self._census.groups.add(self.owner, -1)
            self._census.bytes.add(self.owner, -self._held_bytes)
            self._held_bytes = 0

    def plan_bytes_of(self, plan: Mapping[str, bytes]) -> int:
        """The bytes of a plan that are kept: those of its members."""
        return sum(len(assignment) for member_id, assignment in plan.items() if member_id in self.members)

    def count_plan(self, plan_bytes: int) -> None:
        """The assignments of its members have so many bytes from now on."""
        self.plan_bytes = plan_bytes
        self.count()

    def _count_bytes(self, member: Member, held_bytes: int) -> None:
        self._census.bytes.add(member.holder, held_bytes - member.held_bytes)
        member.held_bytes = held_bytes

    def elect(self, member_id: str) -> None:
        assert member_id in self.members
        self.leader_id = member_id

    def park_join(self, member: Member, ticket: Ticket) -> None:
        assert member.join_ticket is None
        member.join_ticket = ticket
        self.parked_joins += 1

    def take_join(self, member: Member) -> Ticket | None:
        """The ticket of the join that waits, to be answered now."""
        ticket, member.join_ticket = member.join_ticket, None
        self.parked_joins -= ticket is not None
        return ticket

    def take_joins(self) -> dict[str, Ticket]:
        """The tickets of all joins that wait, by member id, to be answered now."""
        waiting = {}
        for member_id, member in self.members.items():
            if member.join_ticket is not None:
                waiting[member_id] = member.join_ticket
                member.join_ticket = None
        self.parked_joins = 0
        return waiting

    def has_synced(self, member: Member) -> None:
        """It is not waited for any more; when nobody is, the sync phase is over."""
        self.awaiting_sync.discard(member.member_id)
        if not self.awaiting_sync:
            self.end_sync_phase()

    @property
    def offsets(self) -> Mapping[str, Mapping[int, Kept]]:
        """The last that was committed, by topic and partition."""
        return self.kept.by_topic()

    # Deadlines.

    def renew_session(self, member: Member, now: float) -> None:
        self.deadlines.set(member.session, now + member.session_timeout)

    def limit_session(self, member: Member, deadline: float) -> None:
        self.deadlines.set(member.session, deadline)

    def limit_join_phase(self, deadline: float) -> None:
        self.deadlines.set(self.join_phase, deadline)

    def limit_sync_phase(self, deadline: float) -> None:
        self.deadlines.set(self.sync_phase, deadline)

    def end_join_phase(self) -> None:
        self.initial_delay = None
        self.deadlines.clear(self.join_phase)

    def end_sync_phase(self) -> None:
        self.awaiting_sync.clear()
        self.deadlines.clear(self.sync_phase)

    def die(self, at: Instant) -> None:
        """Nothing more will happen here."""
        self.move_to(State.DEAD, at.wall_ms)
        waiting = [member.session for member in self.members.values()] + list(self.pending.values())
        for deadline in (*waiting, self.join_phase, self.sync_phase):
            self.deadlines.clear(deadline)

    # Records.

    def stored(self) -> GroupStored:
        """The record of what the group is now."""
        return GroupStored(
            group_id=self.group_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader_id=self.leader_id,
            since_ms=self.since_ms,
            members=tuple([_stored(member, self.protocol) for member in self.members.values()]),
        )

    def record_size(self, plan: Mapping[str, bytes]) -> int:
        """The bytes of its record with these assignments, key and value."""
        size = self._bytes_beside()
        for member_id, member in self.members.items():
            size += len(member.subscription(self.protocol)) + len(plan.get(member_id, b""))
        return size

    def can_keep(self, plan: Mapping[str, bytes], most: int) -> bool:
        """Whether the record of a plan that was waited for has at most so many bytes. Unless it is close, that is clear
        without a look at each member."""
        no_more_than = self._bytes_beside() + self._subscription_bytes + sum(map(len, plan.values()))
        return no_more_than <= most or self.record_size(plan) <= most

    def _bytes_beside(self) -> int:
        """In its record, beside subscriptions and assignments."""
        names = (self.group_id, self.protocol_type or "", self.protocol or "", self.leader_id or "")
        return _GROUP_BYTES + len("".join(names).encode()) + self._name_bytes

    def _count(self, offered: Protocols, change: int) -> None:
        for name in set(protocols.names(offered)):
            count = self.supporters.get(name, 0) + change
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]


def _name_bytes(member: Member) -> int:
    """In a record, with what else is said of each: the lengths and times."""
    names = (member.member_id, member.instance_id or "", member.client_id, member.client_host)
    return _MEMBER_BYTES + len("".join(names).encode())


def _stored(member: Member, protocol: str | None) -> StoredMember:
    return StoredMember(  # by place: a large group has thousands made at once
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout,
        member.rebalance_timeout,
        member.subscription(protocol),
        member.assignment,
    )


def replayed(record: GroupStored, deadlines: Deadlines, census: Census) -> Group:
    """The group that a record tells of. Its sessions begin when the coordinator resumes."""
    group = Group(record.group_id, deadlines, census, since_ms=record.since_ms)
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
    group.note_subscriptions()
    return group
