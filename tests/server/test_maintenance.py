"""Maintenance tasks go on after a failure."""

import asyncio
from collections.abc import Set
from itertools import count
from typing import Any, Final
from uuid import UUID

import pytest

from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.broker.log.storage import EphemeralStorage, MemoryStore
from kcoord.broker.offsets_topic import make_offsets_topic
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.instant import Instant
from kcoord.groups.requests import FetchOffsets, RequestedGroup
from kcoord.server import maintenance
from kcoord.server.connection.connection import Connection
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.server.maintenance import Maintenance
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.support.groups.commits import Line, commit_of

_NODE: Final = NodeId(1)


class FailingStore(MemoryStore):
    """A store whose reads fail while there are faults left."""

    faults: list[Exception]

    def __init__(self, faults: list[Exception]) -> None:
        super().__init__()
        self.faults = faults

    def read(self, position: int, size: int) -> bytes:
        if self.faults:
            raise self.faults.pop()
        return super().read(position, size)


class FakeTarget:
    """A cluster whose groups are not loaded, in which "g" has committed 7. Its clock advances with each reading."""

    connections: Set[Connection] = frozenset()

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.drain_faults: list[Exception] = []
        self._is_read = asyncio.Event()
        self._seconds = count(1000)
        ids = count(1)
        self.cluster = Cluster(
            cluster_id="c",
            nodes=[Node(node_id=_NODE, host="host", port=1)],
            settings=Settings(offsets_topic_num_partitions=1),
            fresh_id=lambda: UUID(int=next(ids)),
            storage=EphemeralStorage(lambda: FailingStore(self.faults)),
        )
        self.cluster.create_topic("t", [(_NODE,)], {}, self.now().wall_ms)
        make_offsets_topic(self.cluster, self.now().wall_ms)
        before = GroupRuntime(self.cluster, lambda: "id")
        commit: Any = Coordinator.commit
        before.decide(_NODE, commit, commit_of([("t", [Line(0, 7)])], group_id="g"), Ticket(1), self.now())
        assert before.flush(self.now())
        self.groups: GroupRuntime | None = GroupRuntime(self.cluster, lambda: "id")

    def now(self) -> Instant:
        second = next(self._seconds)
        return Instant(float(second), 1_700_000_000_000 + second * 1000)

    def drain_parked(self) -> None:
        if self.drain_faults:
            raise self.drain_faults.pop()
        if self.groups and not self.groups.to_load:
            self._is_read.set()

    def read(self) -> list[int]:
        """Loads all groups and returns the offsets of "g"."""
        groups = self.groups
        assert groups

        async def main() -> None:
            tasks = Maintenance(self)
            tasks.load_groups(groups)
            async with asyncio.timeout(60):
                await self._is_read.wait()
            await tasks.stop()

        asyncio.run(main())
        asked = FetchOffsets(groups=(RequestedGroup(group_id="g", topics=None),), is_by_id=False)
        fetch_offsets: Any = Coordinator.fetch_offsets
        reply: Any = groups.decide(_NODE, fetch_offsets, asked, Ticket(1), self.now())
        assert reply.groups[0].error_code is ErrorCode.none
        return [line.committed_offset for topic in reply.groups[0].topics for line in topic.partitions]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> FakeTarget:
    monkeypatch.setattr(maintenance, "IDLE_INTERVAL", 0.001)
    return FakeTarget()


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), RuntimeError("a fault of ours")])
def test_groups_that_could_not_be_read_are_read_all_the_same(
    target: FakeTarget, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    target.faults += [fault] * 3
    assert target.read() == [7]
    assert ["partition=0: its groups" in message for message in caplog.messages] == [True] * 3
    assert target.faults == []


def test_reading_goes_on_when_what_follows_it_has_failed(target: FakeTarget, caplog: pytest.LogCaptureFixture) -> None:
    """First a read fails, then draining the parked requests fails."""
    target.faults.append(OSError(5, "Input/output error"))
    target.drain_faults.append(RuntimeError("a fault of ours"))
    assert target.read() == [7]
    assert "bug: groups are not read retry_in=0.001s" in caplog.messages
