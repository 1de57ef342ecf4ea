"""`__consumer_offsets`, the topic that groups live in: how it is made, and which settings it may not have.

Its records are all that is left of a commit after a restart, and a group that rests has no newer ones. So the topic is
compacted and nothing else:

| setting                                 | here                                                                      |
|-----------------------------------------|---------------------------------------------------------------------------|
| cleanup.policy                          | `compact` alone: with `delete`, retention takes acknowledged commits away |
| retention.ms, retention.bytes           | allowed, and without effect: they are for `delete`                        |
| max.message.bytes, message.timestamp.*  | allowed, and without effect: they are for what clients send               |
| segment.*, delete.retention.ms, others  | allowed: when files are begun and tombstones go, not what was committed   |
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
"""What a broker makes it with (GroupCoordinator.groupMetadataTopicConfigs)."""


def make_offsets_topic(cluster: Cluster, now_ms: int) -> None:
    """Make the topic unless it is there, as a broker does when it is first asked for. Raises OSError."""
    if OFFSETS_TOPIC not in cluster.topics:
        replicas = cluster.spread(0, cluster.settings.offsets_topic_num_partitions, 1)
        cluster.create_topic(OFFSETS_TOPIC, replicas, dict(OFFSETS_TOPIC_SETTINGS), now_ms)


def why_offsets_are_lost(topic: str, overrides: Mapping[str, str], settings: Settings) -> str | None:
    """Says why a topic with these overrides, which are valid, would lose committed offsets; None if it would not."""
    if topic != OFFSETS_TOPIC:
        return None
    policy = effective("cleanup.policy", overrides, settings)
    if TOPIC_SETTINGS["cleanup.policy"].shown(policy) == "compact":
        return None
    return f"Groups live in {topic}: with cleanup.policy={policy} committed offsets would be lost; compact keeps them"
