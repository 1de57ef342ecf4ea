"""kafka-python as a member of a group."""

from collections.abc import Iterable

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import MemberState, OffsetAndMetadata

from tests.clients.group_members.member import Join, Membership, run_member

# Longer than the other clients poll. New metadata makes the leader rejoin without recording that it has to: if the poll
# ends before the join does, 3.0.12 forgets it, and waits for an assignment that has come already.
PATIENCE_MS = 3000

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember:
    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def join(self, request: Join) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=request.bootstrap,
            client_id=request.client_id,
            group_id=request.group,
            group_instance_id=request.instance_id,
            partition_assignment_strategy=[ASSIGNORS[request.assignor]],
            session_timeout_ms=request.session_timeout_ms,
            heartbeat_interval_ms=request.heartbeat_interval_ms,
            max_poll_interval_ms=request.max_poll_interval_ms,
            metadata_max_age_ms=request.metadata_max_age_ms,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe(request.topics, listener=Listener(self, self._membership))
        # Otherwise it may join before it knows any partition, assign nothing, and join once more.
        for topic in request.topics:
            self.consumer.partitions_for_topic(topic)

    def poll(self) -> None:
        for partition, records in self.consumer.poll(timeout_ms=PATIENCE_MS).items():
            offsets, values = [each.offset for each in records], [each.value for each in records]
            self._membership.read(_name(partition), offsets, values)

    def commit(self, offsets: dict[str, int]) -> None:
        self.consumer.commit(to_commit(offsets))

    def generation_without_callback(self) -> tuple[int, str] | None:
        """Returns the identity of a stable member: in a cooperative group there is a callback only if something
        changed."""
        is_stable = self.consumer.group_metadata().state == MemberState.STABLE
        return self.identity() if is_stable else None

    def identity(self) -> tuple[int, str]:
        metadata = self.consumer.group_metadata()
        return metadata.generation_id, metadata.member_id

    def close(self) -> None:
        self.consumer.close()


class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Forwards the callbacks. It is asynchronous, since only an asynchronous listener may commit."""

    def __init__(self, member: KafkaPythonMember, membership: Membership) -> None:
        self._member, self._membership = member, membership

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._membership.assigned(map(_name, assigned), self._member.identity())

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        names = [_name(each) for each in revoked]
        if offsets := self._membership.to_commit_before(names):
            with self._membership.committing(offsets):
                await self._member.consumer.commit_async(to_commit(offsets))
        self._membership.revoked(names, self._member.identity())

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._membership.lost(map(_name, lost), self._member.identity())


def to_commit(offsets: dict[str, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {_partition(name): OffsetAndMetadata(offset, "", -1) for name, offset in offsets.items()}


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


if __name__ == "__main__":
    membership = Membership()
    run_member(KafkaPythonMember(membership), membership)
