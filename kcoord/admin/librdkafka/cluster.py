"""The admin client through confluent-kafka, for logins that only librdkafka supports.

It is slower than our own connections, since offsets are requested for one group at a time, and it has gaps: what
librdkafka does not report or cannot do is refused with UNSUPPORTED_VERSION and a message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection, admin
from confluent_kafka import TopicPartition as TheirPartition

from kcoord.admin.connecting.connection import Connection, librdkafka_configuration
from kcoord.admin.groups.committed_offsets import Commits, commits_of
from kcoord.admin.librdkafka import groups as librdkafka_groups
from kcoord.admin.librdkafka import times as librdkafka_times
from kcoord.admin.librdkafka.errors import protocol_error
from kcoord.admin.librdkafka.link import Link
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
    Refusal,
    Resource,
    Topic,
    TopicPartition,
    next_positions,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.retry import RETRIABLE, Attempt, retry_until_resolved
from kcoord.admin.waiting import Waits
from kcoord.errors import ErrorCode

Key = TypeVar("Key")
Value = TypeVar("Value")

_admin_module: Final[Any] = admin  # its type stubs do not cover what it exports

AT_ONCE: Final = 100  # concurrent operations
NO_EPOCH: Final = -1
LATEST, EARLIEST = -1, -2
_SAFE_TO_RETRY: Final = RETRIABLE - {ErrorCode.network_exception, ErrorCode.request_timed_out}  # possibly done


_AS_KAFKA_PRINTS: Final = str.maketrans("+/", "-_")  # topic ids: base64 for URLs


class LibrdkafkaCluster:
    """The admin client of a cluster through confluent-kafka, for logins that only librdkafka supports. It implements
    `cluster_client.ClusterClient`, which documents the methods."""

    def __init__(self, connection: Connection, *, waits: Waits | None = None) -> None:
        self._link = Link(librdkafka_configuration(connection), timeout=connection.request_timeout, waits=waits)
        self._admin = self._link.admin
        self._timeout = connection.request_timeout

    # Reading

    def cluster_id(self) -> str | None:
        """Returns the cluster's id, or None if the broker does not report one."""
        cluster_id: str | None = self._link.description.cluster_id
        return cluster_id

    def nodes(self) -> Mapping[int, Node]:
        """Returns the brokers of the cluster, by broker id."""
        return {each.id: librdkafka_groups.node(each) for each in self._link.description.nodes}

    def topics(self, names: Collection[str] | None = None) -> Answers[str, Topic]:
        """Describes all topics, or the named ones: their ids, partitions and leaders."""
        wanted = list(self._link.call(self._admin.list_topics).topics) if names is None else list(names)

        def start(pending: list[str]) -> "Mapping[str, Future[Any]]":
            return self._admin.describe_topics(TopicCollection(pending), request_timeout=self._timeout)

        return self._each(wanted, start, lambda _, result: _topic(result), Resource.TOPIC)

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> Answers[str, ListedGroup]:
        """Lists the groups of all brokers, or those in one of these states and of one of these types."""
        return librdkafka_groups.list_groups(self._link, states=states, types=types)

    def describe_groups(self, names: Collection[str]) -> Answers[str, Group]:
        """Describes groups, with their members."""
        return librdkafka_groups.describe_groups(self._link, names)

    def committed(self, groups: Collection[str]) -> Answers[str, Commits]:
        """Fetches all committed offsets of each group, one group per request."""

        def start(pending: list[str]) -> "Mapping[str, Future[Any]]":
            asked = [[ConsumerGroupTopicPartitions(name)] for name in pending]  # librdkafka takes one at a time
            answers = [
                self._admin.list_consumer_group_offsets(one, require_stable=False, request_timeout=self._timeout)
                for one in asked
            ]
            return {name: future for answer in answers for name, future in answer.items()}

        return self._each(groups, start, lambda _, result: _commits(result.topic_partitions), Resource.GROUP)

    def describe_with_commits(self, names: Collection[str]) -> tuple[Answers[str, Group], Answers[str, Commits]]:
        """Describes groups, then fetches the committed offsets of those that exist."""
        described = self.describe_groups(names)
        return described, self.committed(list(described.found))

    def bounds(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, Bounds]:
        """Fetches the log start offset and the log end offset of these partitions."""
        starts = self.offsets_at(dict.fromkeys(partitions, EARLIEST))
        ends = self.offsets_at(dict.fromkeys(partitions, LATEST))
        found = {
            tp: Bounds(starts.found[tp].offset, end.offset) for tp, end in ends.found.items() if tp in starts.found
        }
        return Answers(found=found, refused=tuple(dict.fromkeys((*starts.refused, *ends.refused))))

    def bounds_with_times(
        self, partitions: Collection[TopicPartition], positions: Collection[Position]
    ) -> tuple[Answers[TopicPartition, Bounds], Answers[Position, int]]:
        """Fetches the bounds of logs, then the times of the records that a consumer at these positions would
        read next."""
        bounds = self.bounds(partitions)
        return bounds, self.timestamps(next_positions(positions, bounds.found))

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """Finds the first record of that time (ms since 1970) or later in each partition."""

        def start(pending: list[TopicPartition]) -> "Mapping[TopicPartition, Future[Any]]":
            wanted = {TheirPartition(*tp): _spec(timestamps[tp]) for tp in pending}
            answers = self._admin.list_offsets(wanted, request_timeout=self._timeout)
            return {TopicPartition(each.topic, each.partition): future for each, future in answers.items()}

        return self._each(timestamps, start, lambda _, result: _found(result), Resource.TOPIC, lambda tp: tp.topic)

    def timestamps(self, positions: Collection[Position]) -> Answers[Position, int]:
        """Reads the times of the records at these positions by a consumer, in ms since 1970."""
        return self._read_records(positions, librdkafka_times.timestamps)

    def record_marks(self, positions: Collection[Position]) -> Answers[Position, RecordMark]:
        """Reads the marks (offset, time, checksum) of the records at these positions by a consumer."""
        return self._read_records(positions, librdkafka_times.record_marks)

    def topic_configs(self, topics: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of topics, by topic name."""
        return self._configs(_admin_module.ResourceType.TOPIC, topics, Resource.TOPIC)

    def group_configs(self, groups: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of groups, by group."""
        return self._configs(_admin_module.ResourceType.GROUP, groups, Resource.GROUP)

    # Changing

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        """Commits offsets for a group and returns the error code of each partition. The commit has no member and no
        generation, as librdkafka does here: the broker refuses it if the group has members."""
        if any(committed.metadata for committed in offsets.values()):
            return _cannot(group, offsets, "confluent-kafka would add a NUL to the metadata of offsets")
        theirs = [_their_commit(tp, committed) for tp, committed in offsets.items()]

        def start(pending: list[str]) -> "Mapping[str, Future[Any]]":
            request = [ConsumerGroupTopicPartitions(group, theirs)]
            answers: Mapping[str, Future[Any]] = self._admin.alter_consumer_group_offsets(
                request, request_timeout=self._timeout
            )
            return answers

        answers = self._each(
            [group],
            start,
            lambda _, result: _errors(result.topic_partitions),
            Resource.GROUP,
            retriable=_SAFE_TO_RETRY,
        )
        if group not in answers.found:
            whole = answers.refused[0].error if answers.refused else ErrorCode.unknown_server_error
            return Answers(found=dict.fromkeys(offsets, whole), refused=answers.refused)
        errors = answers.found[group]
        refused = [
            Refusal(kind=Resource.PARTITION, name=tp, group=group, error=error)
            for tp, error in errors.items()
            if error is not ErrorCode.none
        ]
        return Answers(found=errors, refused=tuple(refused))

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, ErrorCode]:
        """Refuses every partition, because confluent-kafka cannot delete committed offsets."""
        return _cannot(group, partitions, "confluent-kafka cannot delete offsets")

    def delete_groups(self, names: Collection[str]) -> Answers[str, ErrorCode]:
        """Deletes groups, and returns the error code of each."""

        def start(pending: list[str]) -> "Mapping[str, Future[Any]]":
            answers: Mapping[str, Future[Any]] = self._admin.delete_consumer_groups(
                pending, request_timeout=self._timeout
            )
            return answers

        answers = self._each(names, start, lambda _, __: ErrorCode.none, Resource.GROUP, retriable=_SAFE_TO_RETRY)
        failed = {refusal.name: refusal.error for refusal in answers.refused}
        errors = {
            name: ErrorCode.none if name in answers.found else failed.get(name, ErrorCode.unknown_server_error)
            for name in names
        }
        return Answers(found=errors, refused=answers.refused)

    def remove_members(
        self, group: str, members: Collection[MemberToRemove], *, reason: str
    ) -> Answers[MemberToRemove, ErrorCode]:
        """Refuses every member, because confluent-kafka cannot remove members."""
        return _cannot(group, members, "confluent-kafka cannot remove members")

    def close(self) -> None:
        """Closes the client."""
        del self._admin
        self._link.close()

    # Implementation

    def _read_records(
        self, positions: Collection[Position], read: Callable[[Link, Collection[Position]], Answers[Position, Value]]
    ) -> Answers[Position, Value]:
        """Reads records of partitions that exist: for others librdkafka would wait until they are created."""
        known = self.topics({tp.topic for tp, _ in positions})
        readable = [(tp, offset) for tp, offset in positions if _has(known.found.get(tp.topic), tp)]
        missing = {tp for tp, _ in positions if tp.topic in known.found} - {tp for tp, _ in readable}
        refused = [
            Refusal(kind=Resource.PARTITION, name=tp, error=ErrorCode.unknown_topic_or_partition)
            for tp in sorted(missing)
        ]
        answers = read(self._link, readable)
        return Answers(found=answers.found, refused=(*known.refused, *refused, *answers.refused))

    def _configs(self, kind: Any, names: Collection[str], resource: Resource) -> Answers[str, Mapping[str, str]]:
        def start(pending: list[str]) -> "Mapping[str, Future[Any]]":
            resources = [_admin_module.ConfigResource(kind, name) for name in pending]
            answers = self._admin.describe_configs(resources, request_timeout=self._timeout)
            return {resource.name: future for resource, future in answers.items()}

        def read(_: str, result: Any) -> Mapping[str, str]:
            return {name: entry.value for name, entry in result.items() if entry.value is not None}

        return self._each(names, start, read, resource)

    def _each(
        self,
        keys: Collection[Key],
        start: "Callable[[list[Key]], Mapping[Key, Future[Any]]]",
        read: Callable[[Key, Any], Value],
        kind: Resource,
        name: Callable[[Key], str] = str,
        *,
        retriable: frozenset[ErrorCode] = RETRIABLE,
    ) -> Answers[Key, Value]:
        """Asks for all keys, some at a time, and retries those with a retriable error."""

        def ask(pending: list[Key], attempt: Attempt[Key, Value]) -> None:
            for first in range(0, len(pending), AT_ONCE):
                futures = start(pending[first : first + AT_ONCE])
                self._link.wait_for(list(futures.values()))
                for key, future in futures.items():
                    try:
                        attempt.found[key] = read(key, future.result())
                    except KafkaException as error:
                        attempt.refuse(key, kind, name(key), *protocol_error(error.args[0]))

        return retry_until_resolved(keys, ask, timeout=self._timeout, retriable=retriable)


def _topic(described: Any) -> Topic:
    return Topic(
        name=described.name,
        id=None if described.topic_id is None else str(described.topic_id).translate(_AS_KAFKA_PRINTS),
        is_internal=described.is_internal,
        leaders={each.id: -1 if each.leader is None else each.leader.id for each in described.partitions},
        replicas={each.id: tuple(replica.id for replica in each.replicas) for each in described.partitions},
    )


def _has(topic: Topic | None, tp: TopicPartition) -> bool:
    return topic is not None and tp.partition in topic.leaders


def _commits(partitions: Iterable[Any]) -> Commits:
    """Parses committed offsets, without metadata: confluent-kafka 2.16 reads past the end of metadata that has no NUL.

    An error of a partition is raised: otherwise it would look as if nothing were committed there.
    """
    commits = {}
    for each in partitions:
        if each.error is not None:
            raise KafkaException(each.error)
        if each.offset >= 0:
            commits[TopicPartition(each.topic, each.partition)] = Committed(each.offset, _epoch(each))
    return commits_of(commits)


def _errors(partitions: Iterable[Any]) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(each.topic, each.partition): ErrorCode.none
        if each.error is None
        else protocol_error(each.error)[0]
        for each in partitions
    }


def _their_commit(tp: TopicPartition, committed: Committed) -> TheirPartition:
    """Builds a commit without metadata: confluent-kafka would add a NUL to it, even to an empty one."""
    if committed.leader_epoch == NO_EPOCH:
        return TheirPartition(tp.topic, tp.partition, committed.offset)
    return TheirPartition(tp.topic, tp.partition, committed.offset, leader_epoch=committed.leader_epoch)


def _spec(timestamp: int) -> Any:
    special = {LATEST: _admin_module.OffsetSpec.latest, EARLIEST: _admin_module.OffsetSpec.earliest}
    return special[timestamp]() if timestamp in special else _admin_module.OffsetSpec.for_timestamp(timestamp)


def _found(result: Any) -> FoundOffset:
    return FoundOffset(result.offset, result.timestamp, _epoch(result))


def _epoch(result: Any) -> int:
    return NO_EPOCH if result.leader_epoch is None else result.leader_epoch


def _cannot(group: str, parts: Collection[Key], why: str) -> Answers[Key, ErrorCode]:
    """Refuses every part of an operation that is not supported."""
    error = ErrorCode.unsupported_version
    refusal = Refusal(kind=Resource.GROUP, name=group, error=error, message=why)
    return Answers(found=dict.fromkeys(parts, error), refused=(refusal,))
