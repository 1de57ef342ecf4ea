"""A ledger of all replies and records of a simulated cluster, which checks the replies against the records.

| promise                                            | checked against                                             |
|----------------------------------------------------|-------------------------------------------------------------|
| a request is answered once, or is parked           | the tickets on the members                                  |
| a reply never leaves before its records            | the records that the journals had stored by then            |
| an acknowledged commit survives a crash            | a plain table of the stored records                         |
| at most one owner per partition and generation     | the assignments of all replies to SyncGroup                 |
| a fenced member never commits                      | the members; offsets that go back from one to the next      |
| generations only grow                              | the generations seen since the groups were loaded           |
| replaying the log gives the live state             | a second coordinator that only replays                      |
| so does the log as bytes, and the compacted log    | a third coordinator that reads them                         |
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.records import GroupDeleted, OffsetDeleted, OffsetsStored, Record, RepeatedCommit
from kcoord.groups.replies import (
    CommitReply,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    Reply,
    SyncReply,
)
from kcoord.groups.requests import Commit, DeleteOffsets, Heartbeat, Join, Sync
from kcoord.tickets import Ticket
from tests.simulation.link import Call
from tests.support.groups import invariants

INTRUDER: Final = "intruder"

GroupPartition = tuple[str, str, int]  # a group, a topic, a partition


class Ledger:
    """`group` returns the live state of a group; `replayed` is a coordinator that only replays stored records."""

    def __init__(self, group: Callable[[str], Group], replayed: Coordinator) -> None:
        self.committed: dict[GroupPartition, int] = {}  # offsets, as the journals took them
        self._replayed = replayed
        self._group = group
        self._waiting: dict[Ticket, Call] = {}
        self._asking: Call | None = None
        self._lives: Counter[str] = Counter()  # how often a group was deleted
        self._owners: dict[tuple[str, int, int], dict[str, str]] = {}
        self._committers: dict[GroupPartition, str] = {}
        self._generations: dict[str, int] = {}
        self._members: dict[str, frozenset[str]] = {}
        self._gone: set[tuple[str, str]] = set()

    # Requests and replies.

    def ask(self, ticket: Ticket, call: Call) -> None:
        self._waiting[ticket] = self._asking = call

    def answer(self, ticket: Ticket, reply: Reply) -> None:
        assert ticket in self._waiting, "a request is answered once"
        request = self._waiting.pop(ticket).request
        self._asking = None
        match request, reply:
            case Join(), JoinReply(error_code=ErrorCode.none):
                self._check_join(request, reply)
            case Sync(), SyncReply(error_code=ErrorCode.none):
                self._check_sync(request, reply)
            case Heartbeat(), HeartbeatReply(error_code=ErrorCode.none):
                self._check_member(request)
            case Commit(), CommitReply():
                self._check_commit(request, reply)
            case _, FetchOffsetsReply():
                self._check_fetch(reply)
            case DeleteOffsets(), DeleteOffsetsReply():
                self._check_delete_offsets(request, reply)
            case _, DeleteGroupsReply():
                deleted = [line.group_id for line in reply.results if line.error_code is ErrorCode.none]
                assert not self._replayed.groups.keys() & set(deleted), "what is deleted is gone after a crash too"
            case _:
                pass

    def _check_join(self, request: Join, reply: JoinReply) -> None:
        group = self._group(request.group_id)
        if group.state is State.STABLE and reply.generation_id == group.generation:
            durable = self._replayed.groups[request.group_id]
            assert reply.member_id in durable.members, "a member of a Stable group is known after a crash"

    def _check_sync(self, request: Sync, reply: SyncReply) -> None:
        self._check_member(request)
        durable = self._replayed.groups[request.group_id]
        assert durable.generation == request.generation, "no assignment leaves before its record"
        assert durable.members[request.member_id].assignment == reply.assignment, "an assignment is the recorded one"
        generation = (request.group_id, self._lives[request.group_id], request.generation)
        owners = self._owners.setdefault(generation, {})
        me = durable.members[request.member_id].instance_id or request.member_id
        for partition in reply.assignment.decode().split():
            owner = owners.setdefault(partition, me)
            assert owner == me, f"{partition} has two owners in generation {generation}: {owner} and {me}"

    def _check_member(self, request: Sync | Heartbeat | Commit) -> None:
        group = self._group(request.group_id)
        assert request.member_id in group.members, "who is no member is refused"
        assert (request.group_id, request.member_id) not in self._gone, "who is gone is refused"
        assert request.generation == group.generation, "another generation is refused"

    def _check_commit(self, request: Commit, reply: CommitReply) -> None:
        promised = [
            (topic.name or "", line.partition_index)
            for topic in reply.topics
            for line in topic.partitions
            if line.error_code is ErrorCode.none
        ]
        asked = {
            (topic.name or "", partition): offset
            for topic, offsets in request.by_topic()
            for partition, offset in zip(topic.partitions, offsets, strict=True)
        }
        for topic, partition in promised:
            key = (request.group_id, topic, partition)
            assert self.committed.get(key) == asked[topic, partition], "an acknowledged commit is kept"
        if promised and request.generation >= 0:
            self._check_member(request)

    def _check_fetch(self, reply: FetchOffsetsReply) -> None:
        for group in reply.groups:
            for topic in group.topics:
                for line in topic.partitions:
                    if line.error_code is ErrorCode.none and group.error_code is ErrorCode.none:
                        expected = self.committed.get((group.group_id, topic.name or "", line.partition_index), -1)
                        assert line.committed_offset == expected, "what is read is what was committed"

    def _check_delete_offsets(self, request: DeleteOffsets, reply: DeleteOffsetsReply) -> None:
        for topic in reply.topics:
            for line in topic.partitions:
                key = (request.group_id, topic.name or "", line.partition_index)
                assert line.error_code or key not in self.committed, "an offset that was deleted is gone"

    # Records.

    def append(self, records: Sequence[Record]) -> None:
        """Records that a journal has stored these."""
        for record in records:
            self._replayed.replay(record)
            match record:
                case OffsetsStored():
                    self._apply_offsets(record)
                case RepeatedCommit():
                    for stored in record.expand():
                        self._apply_offsets(stored)
                case OffsetDeleted():
                    self.committed.pop((record.group_id, record.topic, record.partition), None)
                case GroupDeleted():
                    left = [key for key in self.committed if key[0] == record.group_id]
                    assert not left, "offsets are deleted with their group"
                    self._lives[record.group_id] += 1
                    self._generations.pop(record.group_id, None)
                case _:
                    pass

    def _apply_offsets(self, record: OffsetsStored) -> None:
        asking = self._asking
        assert asking is not None, "offsets come from commits only"
        assert isinstance(asking.request, Commit), "offsets come from commits only"
        committer = INTRUDER if asking.who == INTRUDER else asking.request.member_id
        for partition, offset in zip(record.partitions, record.offsets, strict=True):
            key = (record.group_id, record.topic, partition)
            before, last = self.committed.get(key, -1), self._committers.get(key)
            # Intruders may guess an id and a generation, and then commit to partitions that they do not own.
            goes_on = offset >= before or last == committer or INTRUDER in (last, committer)
            assert goes_on, f"{committer} takes {key} back from {before}: {last} committed although it was fenced"
            self.committed[key] = offset
            self._committers[key] = committer

    # Steps.

    def forget(self, ticket: Ticket) -> None:
        """Drops a request: the server hung up instead of answering."""
        del self._waiting[ticket]

    def forget_waiting(self) -> None:
        """Drops all requests: the process crashed."""
        self._waiting.clear()

    def go_back(self) -> None:
        """Resets to the replayed state, because groups are loaded again from a journal."""
        groups = self._replayed.groups
        self._generations = {group_id: group.generation for group_id, group in groups.items()}
        self._members = {group_id: frozenset(group.members) for group_id, group in groups.items()}
        self._gone -= {(group_id, member_id) for group_id, group in groups.items() for member_id in group.members}

    def check(self, coordinators: Iterable[Coordinator]) -> None:
        """Checks the invariants that hold after each step."""
        parked: list[Ticket] = []
        live: dict[str, Group] = {}
        for coordinator in coordinators:
            parked += invariants.parked_tickets(coordinator)
            live |= coordinator.groups
            invariants.check_deadlines(coordinator, coordinator.groups.values())
            invariants.check_memory(coordinator)
        assert sorted(parked) == sorted(self._waiting), "who is not answered waits with a member"
        for group_id, group in live.items():
            invariants.check_group(group)
            assert group.generation >= self._generations.get(group_id, 0), "generations only grow"
            self._generations[group_id] = group.generation
        self._check_who_is_gone(live)
        self._check_offsets(live)
        invariants.check_replayed(live, self._replayed.groups)

    def check_log(self, read: Mapping[str, Group]) -> None:
        """Checks that groups read from the logs equal the replayed ones."""
        invariants.check_same(read, self._replayed.groups)

    def _check_who_is_gone(self, live: Mapping[str, Group]) -> None:
        members = {group_id: frozenset(group.members) for group_id, group in live.items()}
        for group_id, before in self._members.items():
            self._gone.update((group_id, member_id) for member_id in before - members.get(group_id, frozenset()))
        back = [(group_id, each) for group_id, now in members.items() for each in now if (group_id, each) in self._gone]
        assert not back, "who is gone does not come back under the same id"
        self._members = members

    def _check_offsets(self, live: Mapping[str, Group]) -> None:
        offsets = {
            (group_id, topic, partition): offset
            for group_id, group in live.items()
            for topic, partitions in group.offsets.items()
            for partition, (offset, *_) in partitions.items()
        }
        assert offsets == self.committed, "offsets are those that the journals took"
