"""Reads snapshots of groups, or summaries of them, from a live cluster."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import repeat
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import LiveCluster
from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.groups.group_snapshot import Look, SeenGroup, SeenPartition, Sums, Unowned, lag_of, sum_up
from kcoord.admin.model import Bounds, Committed, Group, Position, Refusal, TopicPartition, rows_of

GROUPS_AT_ONCE: Final = 500
MOST_GROUPS_WITH_TIMES: Final = 200
"""For more groups record times are read only on request: each position is one fetch from the log."""

Advance = Callable[[int], None]


def look(
    cluster: LiveCluster,
    groups: Collection[str],
    *,
    at: float,
    with_times: bool,
    advance: Advance = lambda _: None,
) -> Look:
    """Describes the groups, with their committed offsets and the bounds of those logs. `advance` gets the number of
    groups of each batch that is done."""
    read = _read(cluster, groups, advance, with_times=with_times)
    times, refused = read.times, read.refused
    by_topic = _by_topic(read.bounds)
    seen = {}
    for name, group in read.groups.items():
        commits = read.commits.get(name, Commits())
        if times or group.owners:
            seen[name] = _seen(group, commits, read.bounds, times)
        else:
            seen[name] = SeenGroup(group=group, partitions=Unowned(commits.in_order(), by_topic))
    return Look(at=at, groups=seen, refused=tuple(dict.fromkeys(refused)))


def sums(cluster: LiveCluster, groups: Collection[str], *, advance: Advance = lambda _: None) -> Sums:
    """Reads summaries, without single partitions."""
    read = _read(cluster, groups, advance, with_times=False)
    bounds = _by_topic(read.bounds)
    found = {name: sum_up(group, read.commits.get(name, Commits()), bounds) for name, group in read.groups.items()}
    return Sums(groups=found, refused=tuple(dict.fromkeys(read.refused)))


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


def _read(cluster: LiveCluster, groups: Collection[str], advance: Advance, *, with_times: bool) -> _Read:
    refused: list[Refusal] = []
    described: dict[str, Group] = {}
    commits: dict[str, Commits] = {}
    names = list(groups)
    for start in range(0, len(names), GROUPS_AT_ONCE):
        chunk = names[start : start + GROUPS_AT_ONCE]
        told, committed = cluster.describe_with_commits(chunk)
        described |= told.found
        commits |= committed.found
        refused += (*told.refused, *committed.refused)
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
    committed = {TopicPartition(topic, number) for topic, own in numbers.items() for number in own}
    return committed.union(*(group.owners for group in groups if group.members))


def _seen(
    group: Group,
    commits: Commits,
    bounds: Mapping[TopicPartition, Bounds],
    times: Mapping[Position, int],
) -> SeenGroup:
    owners, offsets = group.owners, commits.by_partition
    partitions = sorted({*offsets, *owners}) if owners else sorted(offsets)
    committed, ends = [offsets.get(tp) for tp in partitions], [bounds.get(tp) for tp in partitions]
    next_records = map(_next_record, repeat(times), partitions, committed, ends) if times else repeat(None)
    lags = map(lag_of, committed, ends)
    seen = rows_of(SeenPartition, partitions, committed, ends, map(owners.get, partitions), lags, next_records)
    return SeenGroup(group=group, partitions=tuple(seen))


def _next_record(
    times: Mapping[Position, int], tp: TopicPartition, committed: Committed | None, bounds: Bounds | None
) -> int | None:
    return times.get((tp, max(committed.offset, bounds.start))) if committed and bounds else None
