"""The embedded cluster: its nodes, and the topics they share.

All nodes live in one process, so a partition has one log, whichever node leads it. Replicas are names only: a topic
may be spread over as many nodes as there are, all of them in sync.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NewType
from uuid import UUID

from kcoord.broker.names import unified
from kcoord.broker.store import MakeStore
from kcoord.settings import Settings

if TYPE_CHECKING:
    from kcoord.broker.partition_log import PartitionLog

NodeId = NewType("NodeId", int)

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker of the cluster, as clients reach it."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who was asked, and when."""

    node: Node
    now_ms: int


@dataclass(slots=True, kw_only=True)
class Partition:
    topic: str
    index: int
    replicas: tuple[NodeId, ...]
    log: "PartitionLog"

    @property
    def leader(self) -> NodeId:
        return self.replicas[0]


@dataclass(slots=True, kw_only=True)
class Topic:
    name: str
    topic_id: UUID
    partitions: list[Partition]
    overrides: dict[str, str] = field(default_factory=dict)

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Cluster:
    """The one place where topics change. `fresh_id` gives the ids of new topics, `make_store` the room for records."""

    def __init__(
        self,
        *,
        cluster_id: str,
        nodes: Sequence[Node],
        settings: Settings,
        fresh_id: Callable[[], UUID],
        make_store: MakeStore,
    ) -> None:
        self.cluster_id = cluster_id
        self.nodes = {node.node_id: node for node in nodes}
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._fresh_id = fresh_id
        self._make_store = make_store
        self._next_producer_id = 0
        self._by_unified_name: dict[str, dict[str, None]] = {}
        self.partition_count = 0
        self.held_bytes = 0
        self.refused_as_full = 0
        self.on_append: Callable[[Partition, int], None] = lambda partition, size: None
        self.on_delete: Callable[[Topic], None] = lambda topic: None

    @property
    def controller(self) -> Node:
        return next(iter(self.nodes.values()))

    def appended(self, partition: Partition, size: int) -> None:
        """A batch of so many bytes was added; those who wait for records hear of it."""
        self.held_bytes += size
        self.on_append(partition, size)

    def freed(self, size: int) -> None:
        """So many bytes of records were deleted."""
        self.held_bytes -= size

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    def topic_by_id(self, topic_id: UUID | None) -> Topic | None:
        return None if topic_id is None else self._by_id.get(topic_id)

    def has_room_for(self, partitions: int) -> bool:
        return self.partition_count + partitions <= self.settings.kcoord_max_partitions

    def has_topic_named_alike(self, name: str) -> bool:
        """Whether there is a topic whose name differs from this one in dots and underscores at most."""
        return unified(name) in self._by_unified_name

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        return None if found is None else found.partition(index)

    def create_topic(
        self, name: str, replicas: Sequence[Sequence[NodeId]], overrides: dict[str, str], now_ms: int
    ) -> Topic:
        """A new topic with one partition per list of replicas; the name is free and valid."""
        assert name not in self.topics
        topic = Topic(name=name, topic_id=self._fresh_id(), partitions=[], overrides=overrides)
        self.topics[name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_unified_name.setdefault(unified(name), {})[name] = None
        self.add_partitions(topic, replicas, now_ms)
        return topic

    def add_partitions(self, topic: Topic, replicas: Sequence[Sequence[NodeId]], now_ms: int) -> None:
        # Imported with the first topic: a cluster without one is there 30 ms sooner.
        from kcoord.broker.partition_log import PartitionLog
        from kcoord.broker.topic_settings import log_settings

        settings = log_settings(topic.overrides, self.settings)
        for nodes in replicas:
            index = len(topic.partitions)
            log = PartitionLog(f"{topic.name}-{index}", settings, now_ms=now_ms, make_store=self._make_store)
            topic.partitions.append(Partition(topic=topic.name, index=index, replicas=tuple(nodes), log=log))
        self.partition_count += len(replicas)

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self._by_id[topic.topic_id]
        alike = self._by_unified_name[unified(topic.name)]
        del alike[topic.name]
        if not alike:
            del self._by_unified_name[unified(topic.name)]
        self.partition_count -= len(topic.partitions)
        self.freed(sum(partition.log.size for partition in topic.partitions))
        self.on_delete(topic)
        for partition in topic.partitions:
            partition.log.close()

    def close(self) -> None:
        """Let go of all records."""
        for partition in self.partitions():
            partition.log.close()

    def configure(self, topic: Topic, overrides: dict[str, str]) -> None:
        """Let the topic go by these settings from now on."""
        from kcoord.broker.topic_settings import log_settings

        topic.overrides = overrides
        settings = log_settings(overrides, self.settings)
        for partition in topic.partitions:
            partition.log.settings = settings

    def spread(self, first: int, partitions: int, replication_factor: int) -> list[list[NodeId]]:
        """Replicas for so many partitions, leaders taking turns beginning with the partition's number."""
        ids = list(self.nodes)
        return [
            [ids[(first + partition + replica) % len(ids)] for replica in range(replication_factor)]
            for partition in range(partitions)
        ]

    def next_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1
