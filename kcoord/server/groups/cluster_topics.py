"""The topics of the embedded cluster, as groups.topics.Topics."""

from uuid import UUID

from kcoord.broker.cluster import Cluster


class ClusterTopics:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def deletion_epoch(self) -> int:
        return self._cluster.deleted_topics

    def topic_id(self, name: str) -> UUID | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        topic = self._cluster.topics.get(name)
        if topic is None or (topic.topic_id is not topic_id and topic.topic_id != topic_id):
            return False
        return partition < len(topic.partitions)

    def partitions_of(self, name: str) -> int:
        topic = self._cluster.topics.get(name)
        return 0 if topic is None else len(topic.partitions)
