"""Reads snapshots of groups, or summaries of them, from a live cluster."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import repeat
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.groups.group_snapshot import (
    GroupSnapshot,
    GroupSummaries,
    PartitionLag,
    Snapshot,
    UnownedPartitions,
    lag_of,
    summarize,
)
from kcoord.admin.model import Bounds, Committed, Group, Position, Refusal, TopicPartition, rows_of

GROUPS_AT_ONCE: Final = 500
MAX_GROUPS_WITH_TIMES: Final = 200
"""For more groups record times are read only on request: each position is one fetch from the log."""

Advance = Callable[[int], None]


def read_snapshot(
    cluster: ClusterClient,
    groups: Collection[str],
    *,
    at: float,
    with_times: bool,
    advance: Advance = lambda _: None,
) -> Snapshot:
    """Reads a snapshot of these groups from the cluster: their members, committed offsets and the bounds of those logs
    and, with times, the times of the next records. `advance` gets the number of groups of each batch that is done."""
    read = _read(cluster, groups, advance, with_times=with_times)
    times, refused = read.times, read.refused
    by_topic = _by_topic(read.bounds)
    seen = {}
    for name, group in read.groups.items():
        commits = read.commits.get(name, Commits())
        if times or group.owners:
            seen[name] = _seen(group, commits, read.bounds, times)
        else:
            seen[name] = GroupSnapshot(group=group, partitions=UnownedPartitions(commits.in_order(), by_topic))
    return Snapshot(at=at, groups=seen, refused=tuple(dict.fromkeys(refused)))


def read_summaries(
    cluster: ClusterClient, groups: Collection[str], *, advance: Advance = lambda _: None
) -> GroupSummaries:
    """Reads summaries of these groups from the cluster: members, topics and total lag, without single partitions.
    `advance` gets the number of groups of each batch that is done."""
    read = _read(cluster, groups, advance, with_times=False)
    bounds = _by_topic(read.bounds)
    found = {name: summarize(group, read.commits.get(name, Commits()), bounds) for name, group in read.groups.items()}
    return GroupSummaries(groups=found, refused=tuple(dict.fromkeys(read.refused)))


def _by_topic(bounds: Mapping[TopicPartition, Bounds]) -> Mapping[str, Mapping[int, Bounds]]:
    found: dict[str, dict[int, Bounds]] = defaultdict(dict)
    for tp, each in bounds.items():
        found[tp.topic][tp.partition] = each
    return found


class _Read(NamedTuple):
    """The raw data of groups, in the order in which they were requested."""

    groups: Mapping[str, Group]
    commits: Mapping[str, Commits]
    bounds: Mapping[TopicPartition, Bounds]
    times: Mapping[Position, int]
    refused: tuple[Refusal, ...]


def _read(cluster: ClusterClient, groups: Collection[str], advance: Advance, *, with_times: bool) -> _Read:
    refused: list[Refusal] = []
    described: dict[str, Group] = {}
    commits: dict[str, Commits] = {}
    names = list(groups)
    for start in range(0, len(names), GROUPS_AT_ONCE):
        chunk = names[start : start + GROUPS_AT_ONCE]
        answers, committed = cluster.describe_with_commits(chunk)
        described |= answers.found
        commits |= committed.found
        refused += (*answers.refused, *committed.refused)
        advance(len(chunk))
    partitions = _all_partitions(described.values(), commits.values())
    in_order = {name: described[name] for name in names if name in described}
    if not with_times:
        bounds = cluster.bounds(partitions)
        return _Read(in_order, commits, bounds.found, {}, (*refused, *bounds.refused))
    bounds, times = cluster.bounds_with_times(partitions, _positions(commits.values()))
    return _Read(in_order, commits, bounds.found, times.found, (*refused, *bounds.refused, *times.refused))


def _positions(commits: Iterable[Commits]) -> set[Position]:
    return {
        (TopicPartition(topic.topic, number), offset)
        for offsets in commits
        for topic in offsets.topics
        for number, offset in zip(topic.partitions, topic.offsets, strict=True)
    }


def _all_partitions(groups: Iterable[Group], commits: Iterable[Commits]) -> set[TopicPartition]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for topic in [topic for offsets in commits for topic in offsets.topics]:
        numbers[topic.topic].update(topic.partitions)
    committed = {TopicPartition(topic, number) for topic, indexes in numbers.items() for number in indexes}
    return committed.union(*(group.owners for group in groups if group.members))


def _seen(
    group: Group,
    commits: Commits,
    bounds: Mapping[TopicPartition, Bounds],
    times: Mapping[Position, int],
) -> GroupSnapshot:
    owners, offsets = group.owners, commits.by_partition
    partitions = sorted({*offsets, *owners}) if owners else sorted(offsets)
    committed, ends = [offsets.get(tp) for tp in partitions], [bounds.get(tp) for tp in partitions]
    next_records = map(_next_record, repeat(times), partitions, committed, ends) if times else repeat(None)
    lags = map(lag_of, committed, ends)
    seen = rows_of(PartitionLag, partitions, committed, ends, map(owners.get, partitions), lags, next_records)
    return GroupSnapshot(group=group, partitions=tuple(seen))


def _next_record(
    times: Mapping[Position, int], tp: TopicPartition, committed: Committed | None, bounds: Bounds | None
) -> int | None:
    return times.get((tp, max(committed.offset, bounds.start))) if committed and bounds else None
