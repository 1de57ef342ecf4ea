"""Plans what of a live cluster is read: which partitions, from which offset to which, and by which task.

`__consumer_offsets` is read, and for the ends of their logs the other topics that groups have committed to; all their
bytes cross the network, although only the headers of batches are decoded. So topics may be named, or not read at all.

Logs are read up to their last stable offset at the time of planning. If a first time is given, the log is read from
the first record of that time on: no earlier record has such a time. A last time is less precise, since timestamps may
go back a little: some minutes more are read. The surplus rows are filtered out one by one (`RowSelection`).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Final

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Answers, Refusal, Topic, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.admin.wire.logs import EARLIEST
from kcoord.errors import ErrorCode
from kcoord.exceptions import InvalidInput
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import INTERNAL_TOPICS, OFFSETS_TOPIC
from kcoord.pipeline.sources.live_log import CannotRead

RANGE_OFFSETS: Final = 250_000
MAX_RANGES: Final = 64
"""The maximum per partition: how many of its offsets still have records is unknown, after a compaction often few."""
_TIMESTAMP_SLACK_MS: Final = 600_000


class NothingToRead(InvalidInput, ValueError):
    """Raised when the cluster has no `__consumer_offsets`, or refuses to return it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Which topics of a live cluster are read: `__consumer_offsets`, and others for the ends of their logs, which lag
    is computed from."""

    log_ends: bool = True
    topics: tuple[str, ...] = ()
    """An empty tuple selects those that groups have committed to, without Kafka's internal ones."""
    groups: bool = True
    """Whether this source reads `__consumer_offsets` too; otherwise Spark's connector reads it."""

    def without_groups(self) -> "TopicSelection":
        """Returns the same selection without `__consumer_offsets`."""
        return replace(self, groups=False)

    def to_json(self) -> str:
        """Serializes the choice; `from_json` reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None) -> "TopicSelection":
        """Parses what `to_json` has serialized."""
        facts = json.loads(text or "{}")
        topics = tuple(facts.get("topics", ()))
        return cls(log_ends=facts.get("log_ends", True), topics=topics, groups=facts.get("groups", True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The ranges of offsets of a live cluster's logs that a job is to read."""

    cluster_id: str
    ranges: tuple[LogRange, ...]
    refused: tuple[Refusal, ...] = ()
    """Topics that are not read, and why."""

    @property
    def offsets(self) -> int:
        """The number of offsets in all ranges, which is the maximum number of records."""
        return sum(each.end - each.start for each in self.ranges)


def plan_logs(connection: Connection, wanted: RowSelection, choice: TopicSelection) -> ReadPlan:
    """Asks a live cluster where its logs begin and end, and returns the ranges of offsets to read. `wanted` selects
    times, `choice` topics. Raises NothingToRead, CannotRead, ConnectionError, Refused."""
    check_connection(connection)
    with closing(LogFetcher(connection)) as fetching:
        topics, refused = find_topics(connection, fetching, choice)
        ends = require_offsets_topic(fetching.stable_ends([tp for topic in topics for tp in topic.partitions]))
        starts = require_offsets_topic(find_starts(fetching, ends.found, wanted))
        until_ms = None if wanted.until_ms is None else wanted.until_ms + _TIMESTAMP_SLACK_MS
        until = _offsets_at(fetching, ends.found, until_ms)
        ranges = [
            each
            for tp, start in starts.found.items()
            for each in split_log(tp, start, min(until.get(tp, ends.found[tp]), ends.found[tp]))
        ]
        unread = dict.fromkeys((*refused, *ends.refused, *starts.refused))
        return ReadPlan(cluster_id=fetching.cluster_id or "", ranges=tuple(ranges), refused=tuple(unread))


def group_starts(connection: Connection, wanted: RowSelection) -> Mapping[int, int]:
    """Returns the first offset to read of each partition of `__consumer_offsets`, by partition. Raises as `plan_logs`
    does."""
    with closing(LogFetcher(connection)) as fetching:
        [offsets], _ = find_topics(connection, fetching, TopicSelection(log_ends=False))
        ends = require_offsets_topic(fetching.stable_ends(offsets.partitions))
        starts = require_offsets_topic(find_starts(fetching, ends.found, wanted))
    return {tp.partition: offset for tp, offset in starts.found.items()}


def check_connection(connection: Connection) -> None:
    """Raises NothingToRead for a connection whose login only librdkafka can do."""
    if connection.needs_librdkafka:
        raise NothingToRead(
            f"kcoord pipeline cannot connect with {connection.needs_librdkafka}: copy the segments of"
            f" {OFFSETS_TOPIC} from the brokers and decode these, or take PLAIN, SCRAM, OAUTHBEARER or SSL"
        )


def find_topics(
    connection: Connection, fetching: LogFetcher, choice: TopicSelection
) -> tuple[list[Topic], tuple[Refusal, ...]]:
    """Returns the topics of a live cluster that are to be read, and those that it refuses to return. Raises
    NothingToRead."""
    offsets = fetching.logs.topics([OFFSETS_TOPIC])
    if OFFSETS_TOPIC not in offsets.found:
        if offsets.refused[0].error is ErrorCode.unknown_topic_or_partition:
            raise NothingToRead(f"the cluster has no {OFFSETS_TOPIC}: no group was ever there")
        raise NothingToRead(f"{offsets.refused[0]}: kcoord pipeline needs the permission to read it")
    names = (choice.topics or topics_with_commits(connection) - INTERNAL_TOPICS) if choice.log_ends else ()
    others = fetching.logs.topics(sorted(set(names) - {OFFSETS_TOPIC}))
    of_groups = [offsets.found[OFFSETS_TOPIC]] if choice.groups else []
    return [*of_groups, *others.found.values()], others.refused


def topics_with_commits(connection: Connection) -> frozenset[str]:
    """Returns the topics that groups have committed offsets for, as far as the cluster shows them."""
    with open_cluster(connection) as cluster:
        groups = cluster.list_groups().found
        return frozenset({tp.topic for offsets in cluster.committed(groups).found.values() for tp in offsets})


def find_starts(
    fetching: LogFetcher, ends: Mapping[TopicPartition, int], wanted: RowSelection
) -> Answers[TopicPartition, int]:
    """Returns the first offset to read of each partition, given the offsets to read to: the log's start, or the first
    record since the requested time."""
    earliest = fetching.logs.offsets_at(dict.fromkeys(ends, EARLIEST))
    starts = {tp: found.offset for tp, found in earliest.found.items()}
    if wanted.since_ms is None:
        return Answers(found=starts, refused=earliest.refused)
    since = fetching.logs.offsets_at(dict.fromkeys(starts, wanted.since_ms))
    # -1 means that no record is so late. For other topics the batch before shows where the log ended at that time.
    later = {
        tp: (found.offset if found.offset >= 0 else ends[tp]) - (tp.topic != OFFSETS_TOPIC)
        for tp, found in since.found.items()
    }
    found = {tp: max(starts[tp], offset) for tp, offset in later.items()}
    return Answers(found=found, refused=(*earliest.refused, *since.refused))


def split_log(tp: TopicPartition, start: int, end: int) -> Iterator[LogRange]:
    """Splits a partition's range of offsets into ranges of about 250,000, but not into too many."""
    if start >= end:
        return
    count = max(1, min(MAX_RANGES, (end - start) // RANGE_OFFSETS))
    borders = [start + (end - start) * index // count for index in range(count + 1)]
    for first, last in pairwise(borders):
        yield LogRange(topic=tp.topic, partition=tp.partition, start=first, end=last)


def pack_tasks(ranges: Iterable[LogRange]) -> list[tuple[LogRange, ...]]:
    """Distributes ranges of offsets to Spark tasks: each task reads a large range, or several small ones of different
    partitions."""
    packs: list[tuple[LogRange, ...]] = []
    small: list[LogRange] = []
    room = RANGE_OFFSETS
    for each in sorted(ranges, key=lambda each: each.start - each.end):
        size = max(0, each.end - each.start)
        if size >= RANGE_OFFSETS // 2:
            packs.append((each,))
            continue
        if size > room and small:
            packs.append(tuple(small))
            small, room = [], RANGE_OFFSETS
        small.append(each)
        room -= size
    return [*packs, tuple(small)] if small else packs


def _offsets_at(
    fetching: LogFetcher, partitions: Collection[TopicPartition], at_ms: int | None
) -> Mapping[TopicPartition, int]:
    """Returns the first offset of that time or later, for partitions that have such records."""
    if at_ms is None:
        return {}
    found = fetching.logs.offsets_at(dict.fromkeys(partitions, at_ms)).found
    return {tp: each.offset for tp, each in found.items() if each.offset >= 0}


def require_offsets_topic(answers: Answers[TopicPartition, int]) -> Answers[TopicPartition, int]:
    """Raises CannotRead if the cluster refused a partition of `__consumer_offsets`; otherwise returns the answers."""
    for refusal in answers.refused:
        topic = refusal.name.topic if isinstance(refusal.name, TopicPartition) else refusal.name
        if topic == OFFSETS_TOPIC:
            raise CannotRead(str(refusal))
    return answers
