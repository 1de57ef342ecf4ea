"""What a group has committed, kept as brokers tell it: by topic, in columns.

A thousand groups have tens of thousands of offsets. Who adds up their lag looks at no single one of them, so that a
`Committed` of each is made only for who does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from kcoord.admin.model import Committed, TopicPartition, by_topic, rows_of

_partition: Final = lru_cache(maxsize=1 << 16)(TopicPartition)  # one of each: many groups may have committed for it


class TopicCommits(NamedTuple):
    """Of one topic: the columns of `Committed`, by partition. Lags are told of all of them or of none."""

    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str | None]
    told_lags: Sequence[int | None] = ()


class Commits(Mapping[TopicPartition, Committed]):
    """What one group has committed, by partition; `topics` has the same in columns. No topic is there twice."""

    def __init__(self, topics: Sequence[TopicCommits] = ()) -> None:
        self.topics = topics

    def in_order(self) -> "Commits":
        """The same in order of topic and number. Brokers tell it in any."""
        return Commits(sorted(map(_in_order, self.topics), key=attrgetter("topic")))

    @cached_property
    def by_partition(self) -> dict[TopicPartition, Committed]:
        """The same as a dict: quicker for who looks at all of it."""
        commits: dict[TopicPartition, Committed] = {}
        for topic, partitions, offsets, epochs, metadata, told_lags in self.topics:
            texts = [text or "" for text in metadata]
            each = rows_of(Committed, offsets, epochs, texts, told_lags or repeat(None))
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


def _in_order(told: TopicCommits) -> TopicCommits:
    pick = _picking(tuple(told.partitions))
    if pick is None:
        return told
    columns: list[Any] = [column and pick(column) for column in told[1:]]
    return TopicCommits(told.topic, *columns)


@lru_cache(maxsize=256)  # groups that commit for the same partitions are told in the same order
def _picking(partitions: tuple[int, ...]) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """Puts a column in order of these; None if it is."""
    order = sorted(range(len(partitions)), key=partitions.__getitem__)
    return itemgetter(*order) if order != list(range(len(order))) else None


def commits_of(offsets: Mapping[TopicPartition, Committed]) -> Commits:
    """What is known one by one."""
    return Commits(
        [
            TopicCommits(topic, [tp.partition for tp in own], *zip(*map(offsets.__getitem__, own), strict=True))
            for topic, own in by_topic(offsets).items()
        ]
    )
