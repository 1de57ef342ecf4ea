"""The committed offsets of one group, stored by topic in columns, as brokers send them.

A thousand groups have tens of thousands of offsets. Code that adds up their lag reads no single one of them, so that a
`Committed` of each is built only when somebody reads offsets one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from kcoord.admin.model import Committed, TopicPartition, by_topic, rows_of

_partition: Final = lru_cache(maxsize=1 << 16)(TopicPartition)  # shared by all groups that committed for it


class TopicCommits(NamedTuple):
    """The committed offsets of one group for one topic, in columns with a value for each partition. Lags are reported
    for all partitions or for none."""

    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str | None]
    reported_lags: Sequence[int | None] = ()


class Commits(Mapping[TopicPartition, Committed]):
    """The committed offsets of one group: a mapping by partition. `topics` has the same offsets in columns, and each
    topic once."""

    def __init__(self, topics: Sequence[TopicCommits] = ()) -> None:
        self.topics = topics

    def in_order(self) -> "Commits":
        """Returns these offsets sorted by topic and partition. Brokers send them in any order."""
        return Commits(sorted(map(_in_order, self.topics), key=attrgetter("topic")))

    @cached_property
    def by_partition(self) -> dict[TopicPartition, Committed]:
        """The committed offsets as a dict, which is faster for reading all of them."""
        commits: dict[TopicPartition, Committed] = {}
        for topic, partitions, offsets, epochs, metadata, reported_lags in self.topics:
            texts = [text or "" for text in metadata]
            each = rows_of(Committed, offsets, epochs, texts, reported_lags or repeat(None))
            commits |= zip(map(_partition, repeat(topic), partitions), each, strict=True)
        return commits

    def __getitem__(self, tp: TopicPartition) -> Committed:
        return self.by_partition[tp]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.by_partition)

    def __len__(self) -> int:
        return len(self.by_partition)

    def __repr__(self) -> str:
        return f"Commits({self.by_partition!r})"


def _in_order(commits: TopicCommits) -> TopicCommits:
    pick = _sorter(tuple(commits.partitions))
    if pick is None:
        return commits
    columns: list[Any] = [column and pick(column) for column in commits[1:]]
    return TopicCommits(commits.topic, *columns)


@lru_cache(maxsize=256)  # brokers send the same partitions in the same order for many groups
def _sorter(partitions: tuple[int, ...]) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """Returns a function that sorts a column by partition, or None if the partitions are sorted already."""
    order = sorted(range(len(partitions)), key=partitions.__getitem__)
    return itemgetter(*order) if order != list(range(len(order))) else None


def commits_of(offsets: Mapping[TopicPartition, Committed]) -> Commits:
    """Makes the columns of Commits from offsets that are known one by one."""
    return Commits(
        [
            TopicCommits(topic, [tp.partition for tp in tps], *zip(*map(offsets.__getitem__, tps), strict=True))
            for topic, tps in by_topic(offsets).items()
        ]
    )
