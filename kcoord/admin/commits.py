"""What a group has committed, kept as brokers tell it: by topic, in columns.

A thousand groups have tens of thousands of offsets. Who adds up their lag looks at no single one of them, so that a
`Committed` of each is made only for who does.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Final, NamedTuple

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

    @property
    def is_in_order(self) -> bool:
        """Whether the columns are in order of topic and number, as brokers tell them most often."""
        names = [each.topic for each in self.topics]
        return names == sorted(names) and all(list(each.partitions) == sorted(each.partitions) for each in self.topics)

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


def commits_of(offsets: Mapping[TopicPartition, Committed]) -> Commits:
    """What is known one by one."""
    return Commits(
        [
            TopicCommits(topic, [tp.partition for tp in own], *zip(*map(offsets.__getitem__, own), strict=True))
            for topic, own in by_topic(offsets).items()
        ]
    )
