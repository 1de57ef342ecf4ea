"""`__consumer_offsets`, the topic of groups: how it is created, and which settings it may not have.

After a restart its records are all that is left of a commit, and an idle group writes no newer ones. So the topic is
compacted and nothing else:

| setting                                 | here                                                                      |
|-----------------------------------------|---------------------------------------------------------------------------|
| cleanup.policy                          | `compact` alone: with `delete`, retention deletes acknowledged commits    |
| retention.ms, retention.bytes           | allowed, and without effect: they are for `delete`                        |
| max.message.bytes, message.timestamp.*  | allowed, and without effect: they apply to clients' records               |
| segment.*, delete.retention.ms, others  | allowed: they decide when segments roll and tombstones go                 |
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster
from kcoord.broker.topic_settings import TOPIC_SETTINGS, effective
from kcoord.settings import Settings

OFFSETS_TOPIC_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
)
"""The settings of the topic when a broker creates it (GroupCoordinator.groupMetadataTopicConfigs)."""


def make_offsets_topic(cluster: Cluster, now_ms: int) -> None:
    """Creates __consumer_offsets unless it exists, as a broker does when a client first needs it. Raises OSError."""
    if OFFSETS_TOPIC not in cluster.topics:
        replicas = cluster.assign_replicas(0, cluster.settings.offsets_topic_num_partitions, 1)
        cluster.create_topic(OFFSETS_TOPIC, replicas, dict(OFFSETS_TOPIC_SETTINGS), now_ms)


def why_offsets_are_lost(topic: str, overrides: Mapping[str, str], settings: Settings) -> str | None:
    """Explains why __consumer_offsets with these valid overrides would lose committed offsets; None for harmless
    overrides and for every other topic.
    """
    if topic != OFFSETS_TOPIC:
        return None
    policy = effective("cleanup.policy", overrides, settings)
    if TOPIC_SETTINGS["cleanup.policy"].shown(policy) == "compact":
        return None
    return f"Groups live in {topic}: with cleanup.policy={policy} committed offsets would be lost; compact keeps them"
