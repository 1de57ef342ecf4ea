"""Reads a group of a live cluster as a scenario, for which assignors can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.groups.group_snapshot import GroupSnapshot
from kcoord.admin.groups.snapshot_reader import read_snapshot
from kcoord.admin.groups.subscribers import subscribers_of
from kcoord.admin.model import Bounds, FoundOffset, GroupType, Refusal, Topic, TopicPartition
from kcoord.assignors.plan import Partition, Subscriber, Topics
from kcoord.assignors.scenario import AssignedGroup, Scenario
from kcoord.errors import ErrorCode
from kcoord.exceptions import InvalidInput
from kcoord.protocol.uuids import parse_uuid

_PLANNED: frozenset[GroupType] = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})


class UnplannedGroup(InvalidInput, ValueError):
    """Raised for a group whose partitions are not assigned by one of the assignors, or of whose members too little is
    known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScenario:
    """A scenario that was read from a live cluster, with the group's members, and the errors of what could not be read:
    topics, log ends, record rates. A topic that does not exist is no error: its subscribers get nothing of it."""

    seen: GroupSnapshot
    scenario: Scenario
    refused: tuple[Refusal, ...]


def read_scenario(cluster: ClusterClient, name: str, *, at: float, rates_over: timedelta) -> LiveScenario | Refusal:
    """Reads a group with its lag and, unless `rates_over` is zero, the rates at which its topics were written in that
    time until `at`. Returns the refusal if the cluster does not describe the group. Raises UnplannedGroup."""
    snapshot = read_snapshot(cluster, [name], at=at, with_times=False)
    seen = snapshot.groups.get(name)
    if seen is None:
        return snapshot.refused[0]
    members = _subscribers(seen)
    subscribed = {topic for each in members for topic in (*each.topics, *each.owned)}
    topics = cluster.topics(sorted(subscribed))
    group = AssignedGroup(members=members, topics=_topics(cluster, topics.found))
    partitions = [tp for topic in topics.found.values() for tp in topic.partitions]
    bounds = cluster.bounds(partitions)
    rates: dict[Partition, float] = {}
    missing = [each for each in topics.refused if each.error is not ErrorCode.unknown_topic_or_partition]
    refused = (*snapshot.refused, *missing, *bounds.refused)
    if rates_over:
        since = round((at - rates_over.total_seconds()) * 1000)
        first = cluster.offsets_at(dict.fromkeys(bounds.found, since))
        refused += first.refused
        rates = _rates(bounds.found, first.found, at=at, since=since / 1000)
    return LiveScenario(
        seen=seen,
        scenario=Scenario(
            before=group,
            after=group,
            current={each.member_id: each.owned for each in members},
            lags=_lags(seen, bounds.found),
            rates=rates if rates_over else None,
        ),
        refused=refused,
    )


def _subscribers(seen: GroupSnapshot) -> tuple[Subscriber, ...]:
    group = seen.group
    if group.type not in _PLANNED:
        raise UnplannedGroup(f"{group.name} is a {group.type} group: it has no assignor that could be compared")
    if group.members and group.type is GroupType.CLASSIC and group.protocol_type != "consumer":
        raise UnplannedGroup(f"{group.name} assigns no partitions: its protocol type is {group.protocol_type!r}")
    if not group.members:
        raise UnplannedGroup(f"{group.name} is {group.state} and has no members whose subscriptions could be read")
    subscribers = subscribers_of(group.members)
    if subscribers is None:
        (unknown, *_) = [each.member_id for each in group.members if None in (each.subscription, each.assignment)]
        raise UnplannedGroup(
            f"{group.name} is {group.state}: the subscription of {unknown} is unknown until it is Stable"
            if group.state != "Stable"
            else f"the subscription or assignment of {unknown} in {group.name} is malformed"
        )
    return subscribers


def _topics(cluster: ClusterClient, found: Mapping[str, Topic]) -> Topics:
    racks = {node.id: node.rack for node in cluster.nodes().values()}
    has_racks = any(racks.values())
    return Topics(
        counts={name: len(topic.leaders) for name, topic in found.items()},
        racks={name: _replica_racks(topic, racks) for name, topic in found.items()} if has_racks else {},
        ids={name: parse_uuid(topic.id) for name, topic in found.items() if topic.id is not None},
    )


def _replica_racks(topic: Topic, racks: Mapping[int, str | None]) -> list[frozenset[str]]:
    return [
        frozenset(rack for replica in topic.replicas.get(number, ()) if (rack := racks.get(replica)))
        for number in range(len(topic.leaders))
    ]


def _lags(seen: GroupSnapshot, bounds: Mapping[TopicPartition, Bounds]) -> dict[Partition, float]:
    """Returns the lag of each partition. Without a commit all records of its log count, as for a group that starts at
    the earliest one."""
    lags: dict[Partition, float] = {tp: each.end - each.start for tp, each in bounds.items()}
    return lags | {each.tp: each.lag for each in seen.partitions if each.lag is not None and each.tp in bounds}


def _rates(
    bounds: Mapping[TopicPartition, Bounds], first: Mapping[TopicPartition, FoundOffset], *, at: float, since: float
) -> dict[Partition, float]:
    """Returns the records per second of each partition since that time, or since the first record of a log that is
    younger."""
    rates: dict[Partition, float] = {}
    for tp, found in first.items():
        if found.offset < 0:
            rates[tp] = 0.0
            continue
        begin = since if found.offset > bounds[tp].start else max(since, found.timestamp / 1000)
        rates[tp] = max(0, bounds[tp].end - found.offset) / max(at - begin, 1.0)
    return rates
