"""The admin client over our own connections: many groups in one request, brokers in parallel."""

from collections.abc import Collection, Mapping, Sequence

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.model import (
    Answers,
    Bounds,
    Committed,
    FoundOffset,
    Group,
    GroupType,
    ListedGroup,
    MemberToRemove,
    Node,
    Position,
    Topic,
    TopicPartition,
    next_positions,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.retry import Attempt
from kcoord.admin.waiting import Waits
from kcoord.admin.wire import changes, times
from kcoord.admin.wire import groups as wire_groups
from kcoord.admin.wire import offsets as wire_offsets
from kcoord.admin.wire.brokers import Brokers
from kcoord.admin.wire.coordinators import Coordinators, coordinator_request
from kcoord.admin.wire.logs import GROUP_RESOURCE, TOPIC_RESOURCE, Logs
from kcoord.admin.wire.record_times import FetchScan
from kcoord.errors import ErrorCode


class WireCluster:
    """The admin client of a cluster over kcoord's own connections to the brokers. It implements
    `cluster_client.ClusterClient`, which documents the methods."""

    def __init__(self, connection: Connection, *, about: Sequence[str] = (), waits: Waits | None = None) -> None:
        """If `about` names one group, the request for its coordinator is sent together with the first Metadata
        request."""
        self._timeout = connection.request_timeout
        extra = [coordinator_request(group) for group in about] if len(about) == 1 else ()
        self._brokers = Brokers(connection, bootstrap_extra=extra, waits=waits)
        self._coordinators = Coordinators(self._brokers)
        for group, answer in zip(about, self._brokers.extra_responses, strict=False):
            self._coordinators.seed(group, answer)
        self._logs = Logs(self._brokers, timeout=self._timeout)
        self._types: dict[str, GroupType] = {}

    # Reading

    def cluster_id(self) -> str | None:
        """Returns the cluster's id, or None if the broker does not report one."""
        return self._brokers.cluster_id

    def nodes(self) -> Mapping[int, Node]:
        """Returns the brokers of the cluster, by broker id."""
        return self._brokers.nodes

    def topics(self, names: Collection[str] | None = None) -> Answers[str, Topic]:
        """Describes all topics, or the named ones (Metadata)."""
        return self._logs.topics(names)

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Answers[str, ListedGroup]:
        """Lists the groups of all brokers (ListGroups), or those in one of these states and of one of these types."""
        answers = wire_groups.list_groups(self._brokers, states=states, types=types, timeout=self._timeout)
        self._types |= {name: group.type for name, group in answers.found.items()}
        self._coordinators.learn({name: group.coordinator for name, group in answers.found.items()})
        return answers

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        """Describes groups of any type, with their members (DescribeGroups, ConsumerGroupDescribe and so on)."""
        return self._describe(names)

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        """Fetches all committed offsets of each group (OffsetFetch). Share groups have start offsets instead; they are
        recognised by an earlier list or describe."""
        share_groups = [group for group in groups if self._types.get(group) is GroupType.SHARE]
        others = [group for group in groups if self._types.get(group) is not GroupType.SHARE]
        commits = wire_offsets.committed(self._coordinators, others, timeout=self._timeout)
        starts = wire_offsets.share_starts(self._coordinators, share_groups, timeout=self._timeout)
        return Answers(found={**commits.found, **starts.found}, refused=(*commits.refused, *starts.refused))

    def describe_with_commits(self, names: Collection[str]) -> tuple[Answers[str, Group], Answers[str, Commits]]:
        """Describes groups and fetches their committed offsets, by requests that are sent at once. Offsets that did not
        come with the description are requested again, as are those of share groups, which have their own API and have
        committed nothing."""
        attempt: Attempt[str, Commits] = Attempt()
        described = self._describe(names, piggyback=[wire_offsets.commits_query(attempt)])
        not_share = [name for name, group in described.found.items() if group.type is not GroupType.SHARE]
        commits = {name: attempt.found[name] for name in not_share if name in attempt.found}
        left = self.committed([name for name in described.found if name not in commits])
        return described, Answers(found={**commits, **left.found}, refused=left.refused)

    def bounds(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, Bounds]:
        """Fetches the log start offset and the log end offset of these partitions (ListOffsets)."""
        return self._logs.bounds(partitions)

    def bounds_with_times(
        self, partitions: Collection[TopicPartition], positions: Collection[Position]
    ) -> tuple[Answers[TopicPartition, Bounds], Answers[Position, int]]:
        """Fetches the bounds of logs and the times of the next records together: records come with the same requests,
        and again for positions before the log start."""
        attempt: Attempt[TopicPartition, FetchScan[int | None]] = Attempt()
        bounds = self._logs.bounds(partitions, piggyback=times.piggyback_times(positions, attempt))
        unread = next_positions(positions, bounds.found)
        moved = {tp for tp, _ in unread.difference(positions)}
        prefetched = {tp: sweep for tp, sweep in attempt.found.items() if tp not in moved}
        return bounds, times.timestamps(self._logs, unread, timeout=self._timeout, prefetched=prefetched)

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """Finds the first record of that time or later in each partition (ListOffsets)."""
        return self._logs.offsets_at(timestamps)

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        """Reads the times of the records at these positions from the logs (Fetch), in ms since 1970."""
        return times.timestamps(self._logs, positions, timeout=self._timeout)

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        """Reads the marks (offset, time, checksum) of the records at these positions from the logs (Fetch)."""
        return times.record_marks(self._logs, positions, timeout=self._timeout)

    def topic_configs(self, topics: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of topics (DescribeConfigs), by topic name."""
        return self._logs.configs(TOPIC_RESOURCE, topics)

    def group_configs(self, groups: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of groups (DescribeConfigs), by group."""
        return self._logs.configs(GROUP_RESOURCE, groups)

    # Changing

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        """Commits offsets for a group without members (OffsetCommit), and returns the error code of each partition."""
        return changes.commit(self._coordinators, group, offsets, timeout=self._timeout)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, ErrorCode]:
        """Deletes committed offsets of a group (OffsetDelete), and returns the error code of each partition."""
        return changes.delete_offsets(self._coordinators, group, partitions, timeout=self._timeout)

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]:
        """Deletes groups (DeleteGroups), and returns the error code of each."""
        return changes.delete_groups(self._coordinators, names, timeout=self._timeout)

    def remove_members(
        self, group: str, members: Collection[MemberToRemove], *, reason: str
    ) -> Answers[MemberToRemove, ErrorCode]:
        """Removes members from a group, by LeaveGroup or, in KIP-848, share and streams groups, by a last heartbeat.
        Returns the error code of each."""
        kind = self._types.get(group, GroupType.CLASSIC)
        if kind in (GroupType.CLASSIC, GroupType.UNKNOWN):
            return changes.remove_members(self._coordinators, group, members, reason=reason, timeout=self._timeout)
        return changes.remove_modern_members(self._coordinators, group, kind, members, timeout=self._timeout)

    def close(self) -> None:
        """Closes all connections."""
        self._brokers.close()

    def _describe(self, names: Collection[str], *, piggyback: wire_groups.Piggyback = ()) -> Answers[str, Group]:
        answers = wire_groups.describe_groups(
            self._brokers, self._coordinators, names, timeout=self._timeout, piggyback=piggyback
        )
        self._types |= {name: group.type for name, group in answers.found.items()}
        return answers
