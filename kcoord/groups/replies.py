"""Version-free replies of the coordinator. Fields have kio's names: the writer of each version takes those it has.

Replies that are made thousands of times a second are NamedTuples, which take a third of the time to make. In replies
that all members of a group get at once, the first field differs per member and the others are shared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kcoord.errors import ErrorCode

NO_GENERATION: Final = -1
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)


ReplyTuple = TypeVar("ReplyTuple", bound=tuple[Any, ...])


class JoinedMember(NamedTuple):
    """A member in the reply to the leader's JoinGroup. `metadata` has the bytes of its subscription."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    """The version-free reply to JoinGroup. `members` is empty except for the leader's, which assigns the partitions."""

    member_id: str
    error_code: ErrorCode = ErrorCode.none
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    throttle_time: float = 0.0


class SyncReply(NamedTuple):
    """The version-free reply to SyncGroup, with the bytes of the member's assignment."""

    assignment: bytes = b""
    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    throttle_time: float = 0.0


def per_member_replies(reply: ReplyTuple, values: Iterable[str | bytes]) -> list[ReplyTuple]:
    """Returns a copy of the reply for each value, with that value as its first field: the member id of a JoinReply, the
    assignment of a SyncReply.

    The constructor is bypassed, since it would take most of the time: a large group makes thousands at once.
    """
    kind, shared, make = type(reply), reply[1:], tuple.__new__
    return [make(kind, (value, *shared)) for value in values]


class HeartbeatReply(NamedTuple):
    """The version-free reply to Heartbeat."""

    error_code: ErrorCode = ErrorCode.none
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """The result of one member in the reply to LeaveGroup."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """The version-free reply to LeaveGroup, with one result per member of the request."""

    error_code: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()
    throttle_time: float = 0.0


class PartitionError(NamedTuple):
    """The error code of one partition, in replies to OffsetCommit and OffsetDelete."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


class TopicErrors(NamedTuple):
    """The error codes of a topic's partitions, in replies to OffsetCommit and OffsetDelete."""

    name: str | None
    partitions: tuple[PartitionError, ...]
    topic_id: UUID | None = None


class CommitReply(NamedTuple):
    """The version-free reply to OffsetCommit."""

    topics: tuple[TopicErrors, ...]
    throttle_time: float = 0.0


class OffsetLine(NamedTuple):
    """The committed offset of one partition in the reply to OffsetFetch, or -1 if there is none."""

    partition_index: int
    committed_offset: int = NO_OFFSET
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTopic:
    """The committed offsets of one topic in the reply to OffsetFetch."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[OffsetLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGroup:
    """The committed offsets of one group in the reply to OffsetFetch."""

    group_id: str
    topics: tuple[OffsetTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsetsReply:
    """The version-free reply to OffsetFetch."""

    groups: tuple[OffsetGroup, ...]
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsReply:
    """The version-free reply to OffsetDelete."""

    error_code: ErrorCode = ErrorCode.none
    topics: tuple[TopicErrors, ...] = ()
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group in the reply to ListGroups."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsReply:
    """The version-free reply to ListGroups."""

    groups: tuple[ListedGroup, ...]
    error_code: ErrorCode = ErrorCode.none
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """One member of a group in the reply to DescribeGroups, with the bytes of its subscription (empty unless the group
    is Stable) and of its assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group in the reply to DescribeGroups. `protocol_data` is the protocol that it has selected;
    `authorized_operations` are bits of Kafka's AclOperation."""

    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    authorized_operations: int = OPERATIONS_NOT_ASKED_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsReply:
    """The version-free reply to DescribeGroups."""

    groups: tuple[DescribedGroup, ...]
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedGroup:
    """The result of one group in the reply to DeleteGroups."""

    group_id: str
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsReply:
    """The version-free reply to DeleteGroups."""

    results: tuple[DeletedGroup, ...]
    throttle_time: float = 0.0


Reply = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | CommitReply
    | FetchOffsetsReply
    | DeleteOffsetsReply
    | ListGroupsReply
    | DescribeGroupsReply
    | DeleteGroupsReply
)
