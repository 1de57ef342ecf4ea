"""The state of groups, topics and logs at one moment, as far as a change of offsets depends on it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import format_count
from kcoord.admin.model import (
    Bounds,
    Committed,
    Group,
    GroupType,
    Refusal,
    Resource,
    Topic,
    TopicPartition,
    refused_names,
)
from kcoord.errors import ErrorCode

STATES_WITHOUT_MEMBERS = ("Empty", "Dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentGroup:
    """A group and its committed offsets, as they are now. `group` is None if it does not exist."""

    name: str
    group: Group | None
    committed: Mapping[TopicPartition, Committed]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentGroups:
    """The groups that were read, by name, and errors for those that could not be."""

    found: Mapping[str, CurrentGroup]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLogs:
    """The topics that exist, and the log start and end offsets of the requested partitions, as they are now."""

    topics: Mapping[str, Topic]
    bounds: Mapping[TopicPartition, Bounds]
    refused: tuple[Refusal, ...] = ()

    def topic_id(self, topic: str) -> str | None:
        """Returns the id of a topic, or None if the topic does not exist or has none."""
        return self.topics[topic].id if topic in self.topics else None


def read_groups(cluster: ClusterClient, names: Collection[str]) -> CurrentGroups:
    """Reads groups and their committed offsets as they are now. A group that does not exist counts as found and empty:
    a commit would create it."""
    described = cluster.describe_groups(names)
    committed = cluster.committed(names)
    unknown = refused_names(described.refused, Resource.GROUP, errors={ErrorCode.group_id_not_found})
    refusals = dict.fromkeys((*described.refused, *committed.refused))
    found = {
        name: CurrentGroup(
            name=name, group=described.found.get(name), committed=_without_lags(committed.found.get(name, {}))
        )
        for name in dict.fromkeys(names)
        if (name in described.found and name in committed.found) or name in unknown
    }
    return CurrentGroups(found=found, refused=tuple(each for each in refusals if each.group_name not in unknown))


def _without_lags(committed: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, Committed]:
    return {tp: each._replace(reported_lag=None) for tp, each in committed.items()}


def read_logs(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> CurrentLogs:
    """Reads the topics of these partitions, and their log start and end offsets, as they are now."""
    wanted = sorted(set(partitions))
    topics = cluster.topics(sorted({tp.topic for tp in wanted}))
    existing = [tp for tp in wanted if tp.topic in topics.found and tp.partition in topics.found[tp.topic].leaders]
    bounds = cluster.bounds(existing)
    return CurrentLogs(topics=topics.found, bounds=bounds.found, refused=(*topics.refused, *bounds.refused))


def why_unchangeable(now: CurrentGroup) -> str | None:
    """Returns why the committed offsets of a group must not be changed from outside now, for example because it has
    members; None if they may."""
    group = now.group
    if group is None:
        return None
    match group.type:
        case GroupType.SHARE:
            return "it is a share group, which commits no offsets: kafka-share-groups resets where it starts"
        case GroupType.STREAMS:
            return "it is a streams group, whose offsets belong to its state: kafka-streams-groups resets both"
    if group.state in STATES_WITHOUT_MEMBERS:
        return None
    members = format_count(len(group.members), "member")
    return f"it is {group.state} and has {members}: stop its members first, or they overwrite what is committed"
