"""The admin client of a live cluster, as the rest of admin/ uses it. Each method takes many groups or partitions at
once.

There are two implementations. `wire` speaks the protocol itself, and batches what librdkafka requests one group at a
time. `librdkafka` goes through confluent-kafka, for the logins that only librdkafka supports. Neither joins a group.

Each method returns what was found and what was refused. Only a failure that concerns all of it (no broker can be
reached, the login failed) is raised, as a ConnectionError or as Refused.
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
    ListedGroup,
    MemberToRemove,
    Node,
    Position,
    Topic,
    TopicPartition,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.errors import ErrorCode
from kcoord.exceptions import RemoteFailure


class Refused(RemoteFailure, RuntimeError):
    """The whole request was refused. Like a ConnectionError it may be temporary: brokers that are starting refuse
    much."""


class ClusterClient(Protocol):
    # Reading

    def cluster_id(self) -> str | None: ...

    def nodes(self) -> Mapping[int, Node]: ...

    def topics(self, names: Collection[str] | None = None) -> Answers[str, Topic]:
        """Describes all topics, or the named ones."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Answers[str, ListedGroup]:
        """Lists all groups of all brokers, or those in one of these states and of one of these types."""

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        """Describes groups of any type. A group that does not exist is refused with GROUP_ID_NOT_FOUND."""

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        """Fetches all committed offsets of each group. For share groups these are the start offsets, with the lag that
        the broker reports."""

    def describe_with_commits(self, names: Collection[str]) -> tuple[Answers[str, Group], Answers[str, Commits]]:
        """Describes the groups, and fetches the committed offsets of those that exist."""

    def bounds(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, Bounds]: ...

    def bounds_with_times(
        self, partitions: Collection[TopicPartition], positions: Collection[Position]
    ) -> tuple[Answers[TopicPartition, Bounds], Answers[Position, int]]:
        """Fetches the bounds of these partitions, and the `timestamps` of the records that a consumer at each of these
        positions would read next."""

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """Finds the first record of that time or later in each partition."""

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        """Reads the times of the records at these offsets from the logs; where an offset has no record, that of the
        next record."""

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        """Reads the marks of the records at these offsets from the logs; where an offset has no record, that of the
        next record."""

    def topic_configs(self, topics: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the settings of topics by name: retention.ms, cleanup.policy and so on."""

    def group_configs(self, groups: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the settings of KIP-848, share and streams groups: consumer.session.timeout.ms and so on."""

    # Changing. `found` has an error for each part, `ErrorCode.none` for one that was done; `refused` explains the rest.

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        """Commits offsets for a group without members. The commit names no member, so that the broker refuses it if one
        has joined."""

    def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> Answers[TopicPartition, ErrorCode]: ...

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]: ...

    def remove_members(
        self, group: str, members: Collection[MemberToRemove], *, reason: str
    ) -> Answers[MemberToRemove, ErrorCode]: ...

    def close(self) -> None: ...
