"""A groups' log in one partition, in stores that a test brings, and its compaction."""

from collections.abc import Callable, Generator
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Node, NodeId
from kcoord.broker.log.partition_log import PartitionLog
from kcoord.broker.log.storage import EphemeralStorage, Store
from kcoord.groups.coordinator import Coordinator
from kcoord.offsets_log.decoding import FactReader, Unreadable
from kcoord.offsets_log.group_log import GroupLog
from kcoord.server.groups.cluster_topics import ClusterTopics
from kcoord.settings import Settings
from kcoord.storage.cleaner import CompactionResult, compact

NODE: Final = NodeId(1)
NOW_MS: Final = 1_700_000_000_000
DAY_MS: Final = 86_400_000


class OnePartition:
    def __init__(self, make_store: Callable[[], Store]) -> None:
        self.cluster = Cluster(
            cluster_id="c",
            nodes=[Node(node_id=NODE, host="host", port=1)],
            settings=Settings(),
            fresh_id=lambda: UUID(int=1),
            storage=EphemeralStorage(make_store),
        )
        self.cluster.create_topic(OFFSETS_TOPIC, [(NODE,)], {"cleanup.policy": "compact"}, NOW_MS)
        self.groups = GroupLog(self.cluster)
        self.log: PartitionLog = self.groups.partitions[0].log

    def coordinator(self) -> Coordinator:
        """Returns a coordinator without groups."""
        return Coordinator(settings=Settings(), topics=ClusterTopics(self.cluster), fresh_id=str)

    def read(self) -> Coordinator:
        """Returns a coordinator that has replayed the log."""
        coordinator = self.coordinator()
        for facts in self.groups.read(0, FactReader()):
            for fact in facts:
                assert not isinstance(fact, Unreadable)
                coordinator.replay(fact)
        return coordinator

    def steps(self, now_ms: int = NOW_MS) -> Generator[None, None, CompactionResult]:
        return compact(self.log, self.groups.superseded_in(0), now_ms=now_ms, delete_retention_ms=DAY_MS)

    def compact(self, now_ms: int = NOW_MS) -> CompactionResult:
        going = self.steps(now_ms)
        while True:
            try:
                next(going)
            except StopIteration as end:
                outcome: CompactionResult = end.value
                return outcome
