"""Gaps that an export reports: a real cluster that does not answer everything."""

from collections.abc import Callable, Collection

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Answers, Committed, Refusal, Resource, TopicPartition
from kcoord.admin.offsets.files.exporting import export
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.wire.cluster import WireCluster
from kcoord.errors import ErrorCode
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.offsets_scene import OffsetsScene

Position = tuple[TopicPartition, int]


class WithoutRecords(WireCluster):
    """A cluster whose records may not be read."""

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        return Answers(
            found={}, refused=(Refusal(kind=Resource.TOPIC, name="orders", error=ErrorCode.topic_authorization_failed),)
        )


def test_offsets_are_exported_without_records_that_are_refused_and_the_refusal_is_told(
    kcoord_cluster_factory: Callable[..., EmbeddedCluster],
) -> None:
    with kcoord_cluster_factory() as embedded:
        scene = OffsetsScene(embedded.bootstrap)
        scene.make_topic("orders")
        scene.produce("orders", 0, [1_700_000_000_000] * 10)
        scene.commit("g", {("orders", 0): 5})
        cluster = WithoutRecords(Connection(bootstrap=(embedded.bootstrap,)))
        try:
            exported = export(cluster, ["g", "nobody"])
        finally:
            cluster.close()
    assert [(line.tp, line.committed, line.timestamp) for line in exported.lines] == [
        (TopicPartition("orders", 0), Committed(5), None)
    ]
    assert exported.notes == ("topic orders: TOPIC_AUTHORIZATION_FAILED",)
    assert (exported.refused, exported.missing) == ((), ("group 'nobody' does not exist",))
