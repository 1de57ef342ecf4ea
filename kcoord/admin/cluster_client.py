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
    """An error: the cluster rejected a whole request. Like a ConnectionError it may be temporary: brokers that are
    starting reject much."""


class ClusterClient(Protocol):
    """The interface of the admin client of a live Kafka cluster. Most methods take many groups, partitions or topics,
    and return Answers: what was found, and an error for each one that was refused."""

    # Reading

    def cluster_id(self) -> str | None:
        """Returns the cluster's id, or None if the broker does not report one."""

    def nodes(self) -> Mapping[int, Node]:
        """Returns the brokers of the cluster, by broker id."""

    def topics(self, names: Collection[str] | None = None) -> Answers[str, Topic]:
        """Describes all topics, or the named ones: their ids, partitions and leaders."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Answers[str, ListedGroup]:
        """Lists all groups of all brokers, or those in one of these states and of one of these types."""

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        """Describes groups of any type, with their members. A group that does not exist is refused with
        GROUP_ID_NOT_FOUND."""

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        """Fetches all committed offsets of each group. For share groups these are the start offsets, with the lag that
        the broker reports."""

    def describe_with_commits(self, names: Collection[str]) -> tuple[Answers[str, Group], Answers[str, Commits]]:
        """Describes the groups, and fetches the committed offsets of those that exist."""

    def bounds(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, Bounds]:
        """Fetches the log start offset and the log end offset of these partitions."""

    def bounds_with_times(
        self, partitions: Collection[TopicPartition], positions: Collection[Position]
    ) -> tuple[Answers[TopicPartition, Bounds], Answers[Position, int]]:
        """Fetches the start and end offsets of the logs of these partitions, and the `timestamps` of the records that a
        consumer at each of these positions would read next."""

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """Finds the first record of that time or later in each partition (ListOffsets); times are in ms since 1970."""

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        """Reads the times of the records at these offsets from the logs, in ms since 1970; where an offset has no
        record, that of the next record."""

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        """Reads the marks (offset, time, checksum) of the records at these offsets from the logs; where an offset has
        no record, that of the next record."""

    def topic_configs(self, topics: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of topics by topic name: retention.ms, cleanup.policy and so on."""

    def group_configs(self, groups: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of KIP-848, share and streams groups, by group: consumer.session.timeout.ms and so on."""

    # Changing. `found` has an error for each part, `ErrorCode.none` for one that was done; `refused` explains the rest.

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        """Commits offsets for a group without members (OffsetCommit), and returns the broker's error code for each
        partition. The commit names no member, so that the broker rejects it if one has joined."""

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, ErrorCode]:
        """Deletes a group's committed offsets of these partitions (OffsetDelete), and returns the broker's error code
        for each."""

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]:
        """Deletes groups (DeleteGroups), and returns the broker's error code for each."""

    def remove_members(
        self, group: str, members: Collection[MemberToRemove], *, reason: str
    ) -> Answers[MemberToRemove, ErrorCode]:
        """Removes members from a group (LeaveGroup), and returns the broker's error code for each. `reason` is for the
        broker's log."""

    def close(self) -> None:
        """Closes all connections of the client."""
