"""The topics of the embedded cluster, as groups.topics.Topics."""

from uuid import UUID

from kcoord.broker.cluster import Cluster


class ClusterTopics:
    """The topics of the embedded cluster, as group coordinators see them (groups.topics.Topics)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def deletion_epoch(self) -> int:
        """A number that changes whenever a topic is deleted, so that cached checks become invalid."""
        return self._cluster.deleted_topics

    def topic_id(self, name: str) -> UUID | None:
        """Returns the topic's id, or None if there is no such topic."""
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """Returns the name of the topic with this id, or None."""
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        """Returns whether the partition exists in a topic with this name and this id."""
        topic = self._cluster.topics.get(name)
        if topic is None or (topic.topic_id is not topic_id and topic.topic_id != topic_id):
            return False
        return partition < len(topic.partitions)

    def partitions_of(self, name: str) -> int:
        """Returns how many partitions the topic has; 0 if there is no such topic."""
        topic = self._cluster.topics.get(name)
        return 0 if topic is None else len(topic.partitions)
