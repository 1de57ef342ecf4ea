"""Nothing is answered before it is kept; and what happens when it cannot be."""

from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.instant import Instant
from kcoord.groups.records import OffsetsStored, Record
from kcoord.groups.requests import AskedGroup, FetchOffsets, Join, Sync
from kcoord.journal.journal import CannotAppend
from kcoord.journal.memory import MemoryJournal
from kcoord.server.group_runtime import GroupRuntime
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.groups.commits import Line, commit_of

NODE = NodeId(1)
AT = Instant(1000.0, 1_700_000_000_000)


class WatchedJournal(MemoryJournal):
    """Remembers what was given to it at once, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[Sequence[Record]] = []
        self.is_full = False

    def append(self, records: Sequence[Record]) -> None:
        if self.is_full:
            raise CannotAppend("no space left")
        super().append(records)
        self.appended.append(records)


class Stage:
    def __init__(self) -> None:
        self.journal = WatchedJournal()
        settings = Settings(group_initial_rebalance_delay_ms=0)
        ids = count(1)
        cluster = Cluster(
            cluster_id="c",
            nodes=[Node(node_id=NODE, host="host", port=1)],
            settings=settings,
            fresh_id=lambda: UUID(int=next(ids)),
        )
        cluster.create_topic("t", [(NODE,)] * 4, {}, AT.wall_ms)
        self.runtime = GroupRuntime(cluster, lambda: str(next(ids)), lambda node_id: self.journal)
        self._tickets = count(1)

    def ask(self, decide: Any, request: object) -> tuple[Ticket, Any]:
        """The request's ticket, and its reply if it is not parked."""
        ticket = Ticket(next(self._tickets))
        return ticket, self.runtime.decide(NODE, decide, request, ticket, AT)

    def commit(self, *partitions: int, offset: int = 7, group_id: str = "g") -> list[ErrorCode]:
        request = commit_of([("t", [Line(partition, offset) for partition in partitions])], group_id=group_id)
        _, reply = self.ask(Coordinator.commit, request)
        return [line.error_code for topic in reply.topics for line in topic.partitions]

    def offsets(self, group_id: str = "g") -> dict[int, int]:
        request = FetchOffsets(groups=(AskedGroup(group_id=group_id, topics=None),), is_by_id=False)
        _, reply = self.ask(Coordinator.fetch_offsets, request)
        [group] = reply.groups
        return {line.partition_index: line.committed_offset for topic in group.topics for line in topic.partitions}

    def join(self, member_id: str = "") -> tuple[Ticket, Any]:
        request = Join(
            group_id="g",
            member_id=member_id,
            instance_id=None,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=10.0,
            rebalance_timeout=60.0,
            protocol_type="consumer",
            protocols=(("range", b""),),
            needs_known_id=False,
        )
        return self.ask(Coordinator.join, request)

    def sync(self, member_id: str, generation: int) -> tuple[Ticket, Any]:
        request = Sync(
            group_id="g",
            member_id=member_id,
            instance_id=None,
            generation=generation,
            protocol_type=None,
            protocol=None,
            plan={},
        )
        return self.ask(Coordinator.sync, request)

    def replies(self) -> dict[Ticket, Any]:
        """To requests that were parked."""
        return dict(self.runtime.take_replies())

    def completing_group(self) -> tuple[str, str]:
        """A leader and a follower that have joined generation 2."""
        _, first = self.join()
        follower, _ = self.join()
        self.join(first.member_id)
        return first.member_id, self.replies()[follower].member_id


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.fact("O-025")
def test_all_offsets_of_a_commit_are_kept_at_once(stage: Stage) -> None:
    assert stage.commit(0, 1, 2, 3) == [ErrorCode.none] * 4
    [records] = stage.journal.appended
    kept = [partition for record in records if isinstance(record, OffsetsStored) for partition in record.partitions]
    assert kept == [0, 1, 2, 3]


@pytest.mark.fact("O-025")
def test_a_commit_that_cannot_be_kept_is_not_acknowledged_and_not_seen(stage: Stage) -> None:
    stage.commit(0, 1, offset=1)
    stage.journal.is_full = True
    assert stage.commit(0, 1, offset=2) == [ErrorCode.not_coordinator] * 2
    assert stage.offsets() == {0: 1, 1: 1}
    stage.journal.is_full = False
    assert stage.commit(0, offset=3) == [ErrorCode.none]
    assert stage.offsets() == {0: 3, 1: 1}


def test_other_groups_are_there_again_after_a_commit_that_could_not_be_kept(stage: Stage) -> None:
    stage.commit(0, offset=5, group_id="other")
    stage.journal.is_full = True
    stage.commit(0)
    assert stage.offsets("other") == {0: 5}


@pytest.mark.fact("S-013", "T-104")
def test_a_plan_is_handed_out_once_it_is_kept(stage: Stage) -> None:
    leader, follower = stage.completing_group()
    waiting, _ = stage.sync(follower, 2)
    kept = len(stage.journal.appended)
    assert stage.replies() == {}
    _, reply = stage.sync(leader, 2)
    assert reply.error_code is ErrorCode.none
    assert len(stage.journal.appended) == kept + 1
    assert {ticket: told.error_code for ticket, told in stage.replies().items()} == {waiting: ErrorCode.none}


def test_a_plan_that_cannot_be_kept_is_handed_out_to_nobody(stage: Stage) -> None:
    """And the group is as the journal knows it: here empty, so that all are to join anew (D5)."""
    leader, follower = stage.completing_group()
    waiting, _ = stage.sync(follower, 2)
    stage.journal.is_full = True
    _, reply = stage.sync(leader, 2)
    assert reply.error_code is ErrorCode.not_coordinator
    told = {ticket: reply.error_code for ticket, reply in stage.replies().items()}
    assert told == {waiting: ErrorCode.not_coordinator}
    stage.journal.is_full = False
    assert stage.sync(leader, 2)[1].error_code is ErrorCode.unknown_member_id
    assert stage.join()[1].error_code is ErrorCode.none
