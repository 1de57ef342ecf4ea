"""aiokafka as a member of a group.

Its loop runs on a thread of its own: the member rebalances and heartbeats there while the program works or waits. It
takes a commit that comes in the middle of a join for a reason to join once more, so none is sent then.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.clients.group_members.member import POLL_SECONDS, Join, Membership, run_member

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}

T = TypeVar("T")


class AiokafkaMember:
    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self.committing = asyncio.Lock()
        self.is_joining = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def join(self, request: Join) -> None:
        self._wait(self._start(request))

    def poll(self) -> None:
        self._wait(self._read())

    def commit(self, offsets: dict[str, int]) -> None:
        self._wait(self._commit(offsets))

    def generation_without_callback(self) -> None:
        """Returns nothing: aiokafka calls back in every generation."""

    def identity(self) -> tuple[int, str]:
        """Reads private attributes, since there is no public name for them."""
        coordinator = self.consumer._coordinator
        return coordinator.generation, coordinator.member_id

    def close(self) -> None:
        self._wait(self.consumer.stop())

    async def _start(self, request: Join) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=request.bootstrap,
            client_id=request.client_id,
            group_id=request.group,
            group_instance_id=request.instance_id,
            partition_assignment_strategy=[ASSIGNORS[request.assignor]],
            session_timeout_ms=request.session_timeout_ms,
            heartbeat_interval_ms=request.heartbeat_interval_ms,
            max_poll_interval_ms=request.max_poll_interval_ms,
            rebalance_timeout_ms=request.max_poll_interval_ms,
            metadata_max_age_ms=request.metadata_max_age_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe(request.topics, listener=Listener(self, self._membership))
        await self.consumer.start()

    async def _read(self) -> None:
        """Reports records on the loop, so that no callback comes between the records and their report."""
        for partition, records in (await self.consumer.getmany(timeout_ms=int(1000 * POLL_SECONDS))).items():
            offsets, values = [each.offset for each in records], [each.value for each in records]
            self._membership.read(_name(partition), offsets, values)

    async def _commit(self, offsets: dict[str, int]) -> None:
        async with self.committing:
            if self.is_joining:
                raise RuntimeError("the member joins just now")
            await self.consumer.commit(to_commit(offsets))

    def _wait(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's types are not shipped
    """Forwards the callbacks. aiokafka has no callback for lost partitions: it reports them as revoked, too."""

    def __init__(self, member: AiokafkaMember, membership: Membership) -> None:
        self._member, self._membership = member, membership

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.is_joining = False
        self._membership.assigned(map(_name, assigned), self._member.identity())

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        names = [_name(each) for each in revoked]
        async with self._member.committing:
            self._member.is_joining = True
        if offsets := self._membership.to_commit_before(names):
            with self._membership.committing(offsets):
                await self._member.consumer.commit(to_commit(offsets))
        self._membership.revoked(names, self._member.identity())


def to_commit(offsets: dict[str, int]) -> dict[TopicPartition, int]:
    return {_partition(name): offset for name, offset in offsets.items()}


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


if __name__ == "__main__":
    membership = Membership()
    run_member(AiokafkaMember(membership), membership)
