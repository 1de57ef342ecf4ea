"""Fetches the facts that snapshots do not have from a live cluster: topics, their settings, and those of groups."""

from collections.abc import Mapping

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.doctor.case import Facts
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import GroupType, Refusal, Resource, refused_names
from kcoord.errors import ErrorCode

_MISSING = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception})
_WITH_SETTINGS = frozenset({GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS})


def gather(
    cluster: ClusterClient, snapshot: Snapshot, *, consumer_config: Mapping[str, str] | None = None
) -> tuple[Facts, tuple[Refusal, ...]]:
    """Reads from the cluster what the doctor needs besides the snapshot: the topics that its groups read or have
    committed for, and the configs of topics and groups. Returns also the errors of what could not be read."""
    wanted = {topic for seen in snapshot.groups.values() for topic in seen.topics}
    wanted |= {
        topic
        for seen in snapshot.groups.values()
        for member in seen.group.members
        for topic in member.subscription or ()
    }
    topics = cluster.topics(sorted(wanted))
    missing = refused_names(topics.refused, Resource.TOPIC, errors=_MISSING)
    topic_configs = cluster.topic_configs(sorted(topics.found))
    group_configs = cluster.group_configs(
        sorted(name for name, seen in snapshot.groups.items() if seen.group.type in _WITH_SETTINGS)
    )
    facts = Facts(
        topics=topics.found,
        missing_topics=missing,
        topic_configs=topic_configs.found,
        group_configs=group_configs.found,
        consumer_config=consumer_config,
    )
    refused = (*topics.refused, *topic_configs.refused, *group_configs.refused)
    return facts, tuple(refusal for refusal in refused if refusal.error not in _MISSING)
