"""The embedded cluster: its nodes, and the topics they share.

All nodes live in one process, so a partition has one log, whichever node leads it. Replicas are names only: a topic may
have as many replicas as there are nodes, all of them in sync.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NewType
from uuid import UUID

from kcoord.broker.log.storage import EphemeralStorage, Storage, StoredTopic
from kcoord.broker.names import unified
from kcoord.settings import Settings

if TYPE_CHECKING:
    from kcoord.broker.log.partition_log import PartitionLog

NodeId = NewType("NodeId", int)

PRODUCER_IDS_AT_ONCE: Final = 1000  # ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker (node) of the embedded cluster, under the address that clients use."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The circumstances of one request: the node that received it, and the time in milliseconds since the epoch."""

    node: Node
    now_ms: int


@dataclass(slots=True, kw_only=True)
class Partition:
    """A partition of a topic, with its log. `replicas` are node ids, the leader's first."""

    topic: str
    index: int
    replicas: tuple[NodeId, ...]
    log: "PartitionLog"

    @property
    def leader(self) -> NodeId:
        """The id of the node that leads the partition: its first replica."""
        return self.replicas[0]


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic of the embedded cluster. `overrides` are the settings that were given for this topic, by name,
    as text.
    """

    name: str
    topic_id: UUID
    partitions: list[Partition]
    overrides: dict[str, str] = field(default_factory=dict)

    def partition(self, index: int) -> Partition | None:
        """Returns the partition of this number, or None if the topic has no such partition."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def is_internal(self) -> bool:
        """Whether it is one of Kafka's internal topics, such as __consumer_offsets."""
        return self.name in INTERNAL_TOPICS


class Cluster:
    """The embedded Kafka cluster: its nodes, topics and partition logs. Only this class changes topics. `fresh_id`
    makes the ids of new topics, `storage` persists topics and logs.

    Every change is persisted before it is applied: an OSError means that nothing has changed.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        nodes: Sequence[Node],
        settings: Settings,
        fresh_id: Callable[[], UUID],
        storage: Storage | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.nodes = {node.node_id: node for node in nodes}
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._fresh_id = fresh_id
        self.storage = storage or EphemeralStorage()
        self._next_producer_id = self._producer_ids_end = 0
        self._by_unified_name: dict[str, dict[str, None]] = {}
        self.partition_count = 0
        self.deleted_topics = 0
        self.held_bytes = 0
        self.refused_as_full = 0
        self.on_append: Callable[[Partition, int], None] = lambda partition, size: None
        self.on_delete: Callable[[Topic], None] = lambda topic: None

    @property
    def controller(self) -> Node:
        """The node that Metadata names as the controller: the first one."""
        return next(iter(self.nodes.values()))

    def appended(self, partition: Partition, size: int) -> None:
        """Adds bytes that were appended to the partition to `held_bytes`, and wakes the long polls that fetch
        from it.
        """
        self.held_bytes += size
        self.on_append(partition, size)

    def freed(self, size: int) -> None:
        """Subtracts bytes of deleted records from `held_bytes`."""
        self.held_bytes -= size

    def partitions(self) -> Iterator[Partition]:
        """Yields the partitions of all topics."""
        for topic in self.topics.values():
            yield from topic.partitions

    def topic_by_id(self, topic_id: UUID | None) -> Topic | None:
        """Returns the topic with this topic id, or None."""
        return None if topic_id is None else self._by_id.get(topic_id)

    def has_room_for(self, partitions: int) -> bool:
        """Returns whether so many more partitions are within the setting kcoord.max.partitions."""
        return self.partition_count + partitions <= self.settings.kcoord_max_partitions

    def has_colliding_topic(self, name: str) -> bool:
        """Returns whether a topic exists whose name equals this one except for dots and underscores: such names collide
        in Kafka's metrics.
        """
        return unified(name) in self._by_unified_name

    def partition(self, topic: str, index: int) -> Partition | None:
        """Returns a partition by topic name and number, or None if it does not exist."""
        found = self.topics.get(topic)
        return None if found is None else found.partition(index)

    def create_topic(
        self, name: str, replicas: Sequence[Sequence[NodeId]], overrides: dict[str, str], now_ms: int
    ) -> Topic:
        """Creates a topic with one partition per list of replicas. The caller has checked that the name is valid and
        free. Raises OSError.
        """
        assert name not in self.topics
        topic = Topic(name=name, topic_id=self._fresh_id(), partitions=[], overrides=overrides)
        self._persist_partitions(topic, replicas, now_ms)
        self.add_topic(topic)
        return topic

    def add_topic(self, topic: Topic) -> None:
        """Adds a topic that was loaded from disk, with its logs."""
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_unified_name.setdefault(unified(topic.name), {})[topic.name] = None
        self.partition_count += len(topic.partitions)
        self.held_bytes += sum(partition.log.size for partition in topic.partitions)

    def add_partitions(self, topic: Topic, replicas: Sequence[Sequence[NodeId]], now_ms: int) -> None:
        """Adds partitions to a topic, one per list of replicas. Raises OSError."""
        self._persist_partitions(topic, replicas, now_ms)
        self.partition_count += len(replicas)

    def delete_topic(self, topic: Topic) -> None:
        """Deletes a topic and its logs. Raises OSError."""
        self.storage.forget_topic(topic.topic_id)
        self.deleted_topics += 1
        del self.topics[topic.name]
        del self._by_id[topic.topic_id]
        colliding = self._by_unified_name[unified(topic.name)]
        del colliding[topic.name]
        if not colliding:
            del self._by_unified_name[unified(topic.name)]
        self.partition_count -= len(topic.partitions)
        self.freed(sum(partition.log.size for partition in topic.partitions))
        self.on_delete(topic)
        for partition in topic.partitions:
            partition.log.delete()

    def close(self) -> None:
        """Closes all logs and the storage."""
        for partition in self.partitions():
            partition.log.close()
        self.storage.close()

    def configure(self, topic: Topic, overrides: dict[str, str]) -> None:
        """Replaces all overrides of the topic, and applies them to its logs. Raises OSError."""
        from kcoord.broker.topic_settings import log_settings

        self.storage.persist_topic(replace(_stored(topic), overrides=overrides))
        topic.overrides = overrides
        settings = log_settings(overrides, self.settings)
        for partition in topic.partitions:
            partition.log.settings = settings

    def assign_replicas(self, first: int, partitions: int, replication_factor: int) -> list[list[NodeId]]:
        """Returns the node ids of the replicas of so many new partitions, a list for each; the nodes take turns as
        leaders. `first` is the number of the first new partition.
        """
        ids = list(self.nodes)
        return [
            [ids[(first + partition + replica) % len(ids)] for replica in range(replication_factor)]
            for partition in range(partitions)
        ]

    def next_producer_id(self) -> int:
        """Allocates a producer id that was never given before. Raises OSError."""
        if self._next_producer_id == self._producer_ids_end:
            end = self._producer_ids_end + PRODUCER_IDS_AT_ONCE
            self.storage.persist_producer_ids(end)
            self._producer_ids_end = end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def begin_producer_ids(self, first: int) -> None:
        """Sets the next producer id at start-up: ids below it may have been given before."""
        self._next_producer_id = self._producer_ids_end = first

    def _persist_partitions(self, topic: Topic, replicas: Sequence[Sequence[NodeId]], now_ms: int) -> None:
        """Persists a topic with more partitions and creates these, or neither of both if OSError is raised."""
        self.storage.persist_topic(_stored(topic, more=replicas))
        try:
            self._make_partitions(topic, replicas, now_ms)
        except OSError:
            self.storage.revert_topic()
            raise

    def _make_partitions(self, topic: Topic, replicas: Sequence[Sequence[NodeId]], now_ms: int) -> None:
        """Creates all of the partitions or, if OSError is raised, none."""
        # Imported with the first topic: a cluster without topics starts 30 ms sooner.
        from kcoord.broker.log.partition_log import PartitionLog
        from kcoord.broker.topic_settings import log_settings

        settings = log_settings(topic.overrides, self.settings)
        present, made = len(topic.partitions), []
        try:
            for index, nodes in enumerate(replicas, start=present):
                name = f"{topic.name}-{index}"
                made.append(self.storage.make_log(name, topic.topic_id))
                log = PartitionLog(name, settings, now_ms=now_ms, storage=made[-1])
                topic.partitions.append(Partition(topic=topic.name, index=index, replicas=tuple(nodes), log=log))
        except OSError:
            for partition in topic.partitions[present:]:
                partition.log.close()
            for storage in made:
                storage.delete()
            del topic.partitions[present:]
            raise


def _stored(topic: Topic, more: Sequence[Sequence[NodeId]] = ()) -> StoredTopic:
    """Returns what is persisted of a topic, with these partitions added."""
    replicas = [*(partition.replicas for partition in topic.partitions), *map(tuple, more)]
    return StoredTopic(
        name=topic.name, topic_id=topic.topic_id, replicas=tuple(replicas), overrides=dict(topic.overrides)
    )
