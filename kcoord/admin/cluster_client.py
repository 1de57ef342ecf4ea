"""A live cluster as the rest of admin/ sees it: what can be asked and done, each for many groups or partitions at once.

There are two: `wire` speaks the protocol itself, and batches what librdkafka asks one group at a time;
`librdkafka` goes through confluent-kafka, for what only librdkafka can log in to. Nothing here joins a group.

Each method answers with what was found and what was refused; only what concerns all of it (no broker can be reached,
the login failed) is raised, as a ConnectionError or as Refused.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.model import (
    Answers,
    Bounds,
    Committed,
    FoundOffset,
    Group,
    LeavingMember,
    ListedGroup,
    Node,
    Position,
    Topic,
    TopicPartition,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.errors import ErrorCode


class Refused(RuntimeError):
    """All that was asked for was refused. It may pass, as a ConnectionError may: brokers that start refuse much."""


class LiveCluster(Protocol):
    # Reading

    def cluster_id(self) -> str | None: ...

    def nodes(self) -> Mapping[int, Node]: ...

    def topics(self, names: Collection[str] | None = None) -> Answers[str, Topic]:
        """Of all topics, or of those named."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Answers[str, ListedGroup]:
        """All groups that the brokers list, or those in such states and of such types."""

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        """Groups of any type. One that does not exist is refused with GROUP_ID_NOT_FOUND."""

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        """All that each group has committed; of share groups their start offsets, with the lag that is told of them."""

    def describe_with_commits(self, names: Collection[str]) -> tuple[Answers[str, Group], Answers[str, Commits]]:
        """The groups, and what those of them that there are have committed."""

    def bounds(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, Bounds]: ...

    def bounds_with_times(
        self, partitions: Collection[TopicPartition], positions: Collection[Position]
    ) -> tuple[Answers[TopicPartition, Bounds], Answers[Position, int]]:
        """The bounds of these partitions, and `timestamps` where who is at these positions in them would read on."""

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """For each partition the first record of that time or later."""

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        """The times of the records at these offsets, or of the next ones after them, read from the log itself."""

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        """The marks of the records at these offsets, or of the next ones after them, read from the log itself."""

    def topic_configs(self, topics: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """The settings of topics by name: retention.ms, cleanup.policy and so on."""

    def group_configs(self, groups: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """The settings of KIP-848, share and streams groups: consumer.session.timeout.ms and so on."""

    # Changing. `found` has an error for each part, `ErrorCode.none` where it was done; `refused` tells of the others.

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        """Commit for a group without members: as no member, so that the broker refuses it if one has joined."""

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> Answers[TopicPartition, ErrorCode]: ...

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]: ...

    def remove_members(
        self, group: str, members: Collection[LeavingMember], *, reason: str
    ) -> Answers[LeavingMember, ErrorCode]: ...

    def close(self) -> None: ...
