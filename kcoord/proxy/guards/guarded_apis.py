"""Kafka's APIs as guards see them: what each changes upstream, its families, and the error that refuses it.

Requests are refused with an authorization error, as the cluster's ACLs would refuse them: every client handles these
codes, raises a specific exception for them, and does not retry. POLICY_VIOLATION would be more exact, but only tools
that create topics know it.

Some requests of APIs that only read change something all the same: the functions at the end recognize them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from struct import Struct
from types import MappingProxyType
from typing import Any, Final

from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, request_type
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import read_request_header
from kcoord.protocol.validate import Skip, compiled_skip

_CLUSTER: Final = ErrorCode.cluster_authorization_failed
_GROUP: Final = ErrorCode.group_authorization_failed
_TOKEN: Final = ErrorCode.delegation_token_authorization_failed
_TOPIC: Final = ErrorCode.topic_authorization_failed
_TRANSACTION: Final = ErrorCode.transactional_id_authorization_failed

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_HEARTBEAT: Final = 68

_RESOURCES: Final = "resources"


class Reach(Enum):
    """What requests of an API change: nothing, the upstream cluster, or only groups."""

    NOTHING = auto()
    UPSTREAM = auto()
    GROUPS = auto()  # something upstream, unless groups are coordinated by the proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedApi:
    """What guards know of one Kafka API: its families, what it changes, how its requests name groups, and the error
    that refuses them.
    """

    key: int
    name: str
    families: tuple[str, ...]
    reach: Reach
    error: ErrorCode
    """The error that refuses its requests."""
    group_field: str | None = None
    """The request field that names groups: one group, or a list of names, of entities with a group_id, of resources."""
    cannot_be_denied: str | None = None
    """Why no rule may name it; None if rules may."""

    @property
    def names_many_groups(self) -> bool:
        """Whether a request of this API can name many groups, each of which gets its own result."""
        return self.group_field in ("groups", "groups_names", "group_ids", "coordinator_keys", _RESOURCES)

    @property
    def has_settings_of_groups(self) -> bool:
        """Whether its requests name config resources, of which some are groups (DescribeConfigs, AlterConfigs)."""
        return self.group_field == _RESOURCES


_LOGIN: Final = "clients could not log in"
_NO_CLUSTER: Final = "clients would see no cluster, and ask again for ever"


def _reads(
    key: int,
    name: str,
    families: str,
    error: ErrorCode,
    *,
    groups: str | None = None,
    cannot_be_denied: str | None = None,
) -> GuardedApi:
    return GuardedApi(
        key=key,
        name=name,
        families=tuple(families.split()),
        reach=Reach.NOTHING,
        error=error,
        group_field=groups,
        cannot_be_denied=cannot_be_denied,
    )


def _changes(key: int, name: str, families: str, error: ErrorCode, *, groups: str | None = None) -> GuardedApi:
    return GuardedApi(
        key=key, name=name, families=tuple(families.split()), reach=Reach.UPSTREAM, error=error, group_field=groups
    )


def _changes_groups(key: int, name: str, *, groups: str = "group_id") -> GuardedApi:
    return GuardedApi(key=key, name=name, families=("groups",), reach=Reach.GROUPS, error=_GROUP, group_field=groups)


_ALL: Final = (
    _changes(PRODUCE, "Produce", "produce", _TOPIC),
    _reads(FETCH, "Fetch", "consume", _TOPIC),
    _reads(2, "ListOffsets", "consume", _TOPIC),
    # It may create the topics that it names: read-only mode switches that off (guarding.py).
    _reads(METADATA, "Metadata", "", _TOPIC, cannot_be_denied=_NO_CLUSTER),
    _changes_groups(OFFSET_COMMIT, "OffsetCommit"),
    _reads(OFFSET_FETCH, "OffsetFetch", "groups", _GROUP, groups="groups"),
    # A cluster's first FindCoordinator creates `__consumer_offsets`; a consumer that only reads offsets needs it, too.
    _reads(FIND_COORDINATOR, "FindCoordinator", "", _GROUP, groups="coordinator_keys"),
    # Members change a group for all others: they begin rebalances and take over partitions.
    _changes_groups(JOIN_GROUP, "JoinGroup"),
    _changes_groups(12, "Heartbeat"),
    _changes_groups(13, "LeaveGroup"),
    _changes_groups(14, "SyncGroup"),
    _reads(DESCRIBE_GROUPS, "DescribeGroups", "groups", _GROUP, groups="groups"),
    _reads(16, "ListGroups", "groups", _CLUSTER),
    _reads(17, "SaslHandshake", "", _CLUSTER, cannot_be_denied=_LOGIN),
    _reads(18, "ApiVersions", "", _CLUSTER, cannot_be_denied=_NO_CLUSTER),
    _changes(19, "CreateTopics", "admin", _TOPIC),
    _changes(20, "DeleteTopics", "admin", _TOPIC),
    _changes(21, "DeleteRecords", "admin", _TOPIC),
    # It assigns producer ids, and ends the transaction of a previous producer with the same transactional id.
    _changes(22, "InitProducerId", "transactions", _CLUSTER),
    _reads(23, "OffsetForLeaderEpoch", "consume", _TOPIC),
    _changes(24, "AddPartitionsToTxn", "transactions", _TRANSACTION),
    _changes(25, "AddOffsetsToTxn", "groups transactions", _GROUP, groups="group_id"),
    _changes(26, "EndTxn", "transactions", _TRANSACTION),
    _changes(27, "WriteTxnMarkers", "brokers", _CLUSTER),
    _changes(28, "TxnOffsetCommit", "groups transactions", _GROUP, groups="group_id"),
    _reads(29, "DescribeAcls", "describe", _CLUSTER),
    _changes(30, "CreateAcls", "admin", _CLUSTER),
    _changes(31, "DeleteAcls", "admin", _CLUSTER),
    _reads(32, "DescribeConfigs", "describe", _CLUSTER, groups=_RESOURCES),
    _changes(33, "AlterConfigs", "admin", _CLUSTER, groups=_RESOURCES),
    _changes(34, "AlterReplicaLogDirs", "admin", _CLUSTER),
    _reads(35, "DescribeLogDirs", "describe", _CLUSTER),
    _reads(36, "SaslAuthenticate", "", _CLUSTER, cannot_be_denied=_LOGIN),
    _changes(37, "CreatePartitions", "admin", _TOPIC),
    _changes(38, "CreateDelegationToken", "admin", _TOKEN),
    _changes(39, "RenewDelegationToken", "admin", _TOKEN),
    _changes(40, "ExpireDelegationToken", "admin", _TOKEN),
    _reads(41, "DescribeDelegationToken", "describe", _TOKEN),
    _changes_groups(42, "DeleteGroups", groups="groups_names"),
    _changes(43, "ElectLeaders", "admin", _CLUSTER),
    _changes(44, "IncrementalAlterConfigs", "admin", _CLUSTER, groups=_RESOURCES),
    _changes(45, "AlterPartitionReassignments", "admin", _CLUSTER),
    _reads(46, "ListPartitionReassignments", "describe", _CLUSTER),
    _changes_groups(47, "OffsetDelete"),
    _reads(48, "DescribeClientQuotas", "describe", _CLUSTER),
    _changes(49, "AlterClientQuotas", "admin", _CLUSTER),
    _reads(50, "DescribeUserScramCredentials", "describe", _CLUSTER),
    _changes(51, "AlterUserScramCredentials", "admin", _CLUSTER),
    _changes(52, "Vote", "brokers", _CLUSTER),
    _changes(53, "BeginQuorumEpoch", "brokers", _CLUSTER),
    _changes(54, "EndQuorumEpoch", "brokers", _CLUSTER),
    _reads(55, "DescribeQuorum", "describe", _CLUSTER),
    _changes(56, "AlterPartition", "brokers", _CLUSTER),
    _changes(57, "UpdateFeatures", "admin", _CLUSTER),
    _changes(58, "Envelope", "brokers", _CLUSTER),  # it can wrap any other request
    _reads(59, "FetchSnapshot", "brokers", _CLUSTER),
    _reads(60, "DescribeCluster", "describe", _CLUSTER),
    _reads(61, "DescribeProducers", "describe", _TOPIC),
    _changes(62, "BrokerRegistration", "brokers", _CLUSTER),
    _changes(63, "BrokerHeartbeat", "brokers", _CLUSTER),
    _changes(64, "UnregisterBroker", "admin", _CLUSTER),
    _reads(65, "DescribeTransactions", "transactions", _TRANSACTION),
    _reads(66, "ListTransactions", "transactions", _CLUSTER),
    _changes(67, "AllocateProducerIds", "brokers", _CLUSTER),
    _changes(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", "groups", _GROUP, groups="group_id"),
    _reads(69, "ConsumerGroupDescribe", "groups", _GROUP, groups="group_ids"),
    _changes(70, "ControllerRegistration", "brokers", _CLUSTER),
    _reads(71, "GetTelemetrySubscriptions", "telemetry", _CLUSTER),
    _reads(72, "PushTelemetry", "telemetry", _CLUSTER),  # metrics of the client itself
    _changes(73, "AssignReplicasToDirs", "brokers", _CLUSTER),
    _reads(74, "ListConfigResources", "describe", _CLUSTER),
    _reads(75, "DescribeTopicPartitions", "describe", _TOPIC),
    _changes(76, "ShareGroupHeartbeat", "groups", _GROUP, groups="group_id"),
    _reads(77, "ShareGroupDescribe", "groups", _GROUP, groups="group_ids"),
    _changes(78, "ShareFetch", "groups", _GROUP, groups="group_id"),  # it takes records from other members
    _changes(79, "ShareAcknowledge", "groups", _GROUP, groups="group_id"),
    _changes(80, "AddRaftVoter", "admin", _CLUSTER),
    _changes(81, "RemoveRaftVoter", "admin", _CLUSTER),
    _changes(82, "UpdateRaftVoter", "brokers", _CLUSTER),
    _changes(83, "InitializeShareGroupState", "groups brokers", _CLUSTER, groups="group_id"),
    _changes(84, "ReadShareGroupState", "groups brokers", _CLUSTER, groups="group_id"),  # it fences older leaders
    _changes(85, "WriteShareGroupState", "groups brokers", _CLUSTER, groups="group_id"),
    _changes(86, "DeleteShareGroupState", "groups brokers", _CLUSTER, groups="group_id"),
    _reads(87, "ReadShareGroupStateSummary", "groups brokers", _CLUSTER, groups="group_id"),
    _changes(88, "StreamsGroupHeartbeat", "groups", _GROUP, groups="group_id"),
    _reads(89, "StreamsGroupDescribe", "groups", _GROUP, groups="group_ids"),
    _reads(90, "DescribeShareGroupOffsets", "groups", _GROUP, groups="groups"),
    _changes(91, "AlterShareGroupOffsets", "groups", _GROUP, groups="group_id"),
    _changes(92, "DeleteShareGroupOffsets", "groups", _GROUP, groups="group_id"),
    # APIs between brokers before KRaft. kio does not know them, so they can only be refused by hanging up.
    _changes(4, "LeaderAndIsr", "brokers", _CLUSTER),
    _changes(5, "StopReplica", "brokers", _CLUSTER),
    _changes(6, "UpdateMetadata", "brokers", _CLUSTER),
    _changes(7, "ControlledShutdown", "brokers", _CLUSTER),
)

GUARDED: Final[Mapping[int, GuardedApi]] = MappingProxyType({api.key: api for api in _ALL})
"""Every known API by its key. What other APIs change is unknown here."""

FAMILIES: Final = tuple(dict.fromkeys(family for api in _ALL for family in api.families))

_GROUP_KEY: Final = 0  # the key types of FindCoordinator
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
_GROUP_RESOURCE: Final = 32  # ConfigResource.Type.GROUP

_INIT_PRODUCER_ID: Final = 22
_INITIALIZE_SHARE_GROUP_STATE: Final = 83

_FIRST_WITH_REPLICA_STATE: Final = 15  # of Fetch: in a tagged field (KIP-903)
_REPLICA_ID: Final = Struct(">i")


def groups_of(api: GuardedApi, request: Any) -> tuple[str | None, ...]:
    """Returns the group ids that a request (kio's entity) names, with None for elements that name no group."""
    return tuple(group_of(api, request, each) for each in _requested(api, request)) or (None,)


def group_of(api: GuardedApi, request: Any, requested: Any) -> str | None:
    """Returns the group id that `requested`, one element of a request, names; None if it names something else."""
    if api.has_settings_of_groups:
        return str(requested.resource_name) if requested.resource_type == _GROUP_RESOURCE else None
    if _key_type(api, request) == _SHARE_KEY:
        return str(requested).rsplit(":", 2)[0]  # the key is group:topic id:partition
    return requested if isinstance(requested, str) else str(requested.group_id)


def error_of(api: GuardedApi, request: Any) -> ErrorCode:
    """Returns the error code with which this request is refused."""
    return _TRANSACTION if _key_type(api, request) == _TRANSACTION_KEY else api.error


# Requests of APIs that only read, but which change something all the same.


def sought_coordinator(api: GuardedApi, request: Any) -> GuardedApi | None:
    """Returns the API whose coordinator a FindCoordinator request asks for, if finding it creates an internal topic:
    that of transactions or share groups. None for all other requests.

    Finding a group's coordinator creates a topic, too, but consumers that only read need it.
    """
    key_type = _key_type(api, request)
    if key_type == _GROUP_KEY:
        return None
    return GUARDED[_INIT_PRODUCER_ID if key_type == _TRANSACTION_KEY else _INITIALIZE_SHARE_GROUP_STATE]


def is_from_replica(frame: bytes, api_version: int) -> bool:
    """Returns whether a Fetch claims to come from a follower replica. Raises CorruptMessage.

    Such a Fetch acknowledges all earlier records, so the leader moves the high watermark and the ISR. Most are from
    consumers, so no more of the request is parsed than needed.
    """
    fetch = codec(FETCH, api_version)
    _, position = read_request_header(frame, fetch.request_header_version)
    if api_version < _FIRST_WITH_REPLICA_STATE:
        if len(frame) < position + _REPLICA_ID.size:
            raise CorruptMessage("the body ends too early")
        return bool(_REPLICA_ID.unpack_from(frame, position)[0] >= 0)
    tags = _tags_of_fetch(api_version)(frame, position)
    if frame[tags:] == b"\0":  # no tagged fields, as from consumers
        return False
    return bool(fetch.read_request(frame, position).replica_state.replica_id >= 0)


@cache
def _tags_of_fetch(api_version: int) -> Skip:
    """Returns the function that skips to the tagged fields of a Fetch request."""
    return compiled_skip(request_type(FETCH, api_version))


def _requested(api: GuardedApi, request: Any) -> tuple[Any, ...]:
    """Returns the request's elements that may name a group, each of which gets its own result."""
    if api.group_field is None or _key_type(api, request) not in (_GROUP_KEY, _SHARE_KEY):
        return ()
    named = getattr(request, api.group_field, None)
    if named is None:  # an older version of OffsetFetch or FindCoordinator, with one group
        named = request.key if api.key == FIND_COORDINATOR else request.group_id
    return (named or "",) if named is None or isinstance(named, str) else tuple(named)


def _key_type(api: GuardedApi, request: Any) -> int:
    return int(getattr(request, "key_type", _GROUP_KEY)) if api.key == FIND_COORDINATOR else _GROUP_KEY
