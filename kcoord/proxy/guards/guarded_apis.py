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

from kcoord.api_keys import ApiKey
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

_FETCH: Final = ApiKey.FETCH
_FIND_COORDINATOR: Final = ApiKey.FIND_COORDINATOR

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

    key: ApiKey
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
    key: ApiKey,
    families: str,
    error: ErrorCode,
    *,
    groups: str | None = None,
    cannot_be_denied: str | None = None,
) -> GuardedApi:
    return GuardedApi(
        key=key,
        name=key.title,
        families=tuple(families.split()),
        reach=Reach.NOTHING,
        error=error,
        group_field=groups,
        cannot_be_denied=cannot_be_denied,
    )


def _changes(key: ApiKey, families: str, error: ErrorCode, *, groups: str | None = None) -> GuardedApi:
    return GuardedApi(
        key=key, name=key.title, families=tuple(families.split()), reach=Reach.UPSTREAM, error=error, group_field=groups
    )


def _changes_groups(key: ApiKey, *, groups: str = "group_id") -> GuardedApi:
    return GuardedApi(
        key=key, name=key.title, families=("groups",), reach=Reach.GROUPS, error=_GROUP, group_field=groups
    )


_ALL: Final = (
    _changes(ApiKey.PRODUCE, "produce", _TOPIC),
    _reads(ApiKey.FETCH, "consume", _TOPIC),
    _reads(ApiKey.LIST_OFFSETS, "consume", _TOPIC),
    # It may create the topics that it names: read-only mode switches that off (guarding.py).
    _reads(ApiKey.METADATA, "", _TOPIC, cannot_be_denied=_NO_CLUSTER),
    _changes_groups(ApiKey.OFFSET_COMMIT),
    _reads(ApiKey.OFFSET_FETCH, "groups", _GROUP, groups="groups"),
    # A cluster's first FindCoordinator creates `__consumer_offsets`; a consumer that only reads offsets needs it, too.
    _reads(ApiKey.FIND_COORDINATOR, "", _GROUP, groups="coordinator_keys"),
    # Members change a group for all others: they begin rebalances and take over partitions.
    _changes_groups(ApiKey.JOIN_GROUP),
    _changes_groups(ApiKey.HEARTBEAT),
    _changes_groups(ApiKey.LEAVE_GROUP),
    _changes_groups(ApiKey.SYNC_GROUP),
    _reads(ApiKey.DESCRIBE_GROUPS, "groups", _GROUP, groups="groups"),
    _reads(ApiKey.LIST_GROUPS, "groups", _CLUSTER),
    _reads(ApiKey.SASL_HANDSHAKE, "", _CLUSTER, cannot_be_denied=_LOGIN),
    _reads(ApiKey.API_VERSIONS, "", _CLUSTER, cannot_be_denied=_NO_CLUSTER),
    _changes(ApiKey.CREATE_TOPICS, "admin", _TOPIC),
    _changes(ApiKey.DELETE_TOPICS, "admin", _TOPIC),
    _changes(ApiKey.DELETE_RECORDS, "admin", _TOPIC),
    # It assigns producer ids, and ends the transaction of a previous producer with the same transactional id.
    _changes(ApiKey.INIT_PRODUCER_ID, "transactions", _CLUSTER),
    _reads(ApiKey.OFFSET_FOR_LEADER_EPOCH, "consume", _TOPIC),
    _changes(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions", _TRANSACTION),
    _changes(ApiKey.ADD_OFFSETS_TO_TXN, "groups transactions", _GROUP, groups="group_id"),
    _changes(ApiKey.END_TXN, "transactions", _TRANSACTION),
    _changes(ApiKey.WRITE_TXN_MARKERS, "brokers", _CLUSTER),
    _changes(ApiKey.TXN_OFFSET_COMMIT, "groups transactions", _GROUP, groups="group_id"),
    _reads(ApiKey.DESCRIBE_ACLS, "describe", _CLUSTER),
    _changes(ApiKey.CREATE_ACLS, "admin", _CLUSTER),
    _changes(ApiKey.DELETE_ACLS, "admin", _CLUSTER),
    _reads(ApiKey.DESCRIBE_CONFIGS, "describe", _CLUSTER, groups=_RESOURCES),
    _changes(ApiKey.ALTER_CONFIGS, "admin", _CLUSTER, groups=_RESOURCES),
    _changes(ApiKey.ALTER_REPLICA_LOG_DIRS, "admin", _CLUSTER),
    _reads(ApiKey.DESCRIBE_LOG_DIRS, "describe", _CLUSTER),
    _reads(ApiKey.SASL_AUTHENTICATE, "", _CLUSTER, cannot_be_denied=_LOGIN),
    _changes(ApiKey.CREATE_PARTITIONS, "admin", _TOPIC),
    _changes(ApiKey.CREATE_DELEGATION_TOKEN, "admin", _TOKEN),
    _changes(ApiKey.RENEW_DELEGATION_TOKEN, "admin", _TOKEN),
    _changes(ApiKey.EXPIRE_DELEGATION_TOKEN, "admin", _TOKEN),
    _reads(ApiKey.DESCRIBE_DELEGATION_TOKEN, "describe", _TOKEN),
    _changes_groups(ApiKey.DELETE_GROUPS, groups="groups_names"),
    _changes(ApiKey.ELECT_LEADERS, "admin", _CLUSTER),
    _changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, "admin", _CLUSTER, groups=_RESOURCES),
    _changes(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "admin", _CLUSTER),
    _reads(ApiKey.LIST_PARTITION_REASSIGNMENTS, "describe", _CLUSTER),
    _changes_groups(ApiKey.OFFSET_DELETE),
    _reads(ApiKey.DESCRIBE_CLIENT_QUOTAS, "describe", _CLUSTER),
    _changes(ApiKey.ALTER_CLIENT_QUOTAS, "admin", _CLUSTER),
    _reads(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "describe", _CLUSTER),
    _changes(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "admin", _CLUSTER),
    _changes(ApiKey.VOTE, "brokers", _CLUSTER),
    _changes(ApiKey.BEGIN_QUORUM_EPOCH, "brokers", _CLUSTER),
    _changes(ApiKey.END_QUORUM_EPOCH, "brokers", _CLUSTER),
    _reads(ApiKey.DESCRIBE_QUORUM, "describe", _CLUSTER),
    _changes(ApiKey.ALTER_PARTITION, "brokers", _CLUSTER),
    _changes(ApiKey.UPDATE_FEATURES, "admin", _CLUSTER),
    _changes(ApiKey.ENVELOPE, "brokers", _CLUSTER),  # it can wrap any other request
    _reads(ApiKey.FETCH_SNAPSHOT, "brokers", _CLUSTER),
    _reads(ApiKey.DESCRIBE_CLUSTER, "describe", _CLUSTER),
    _reads(ApiKey.DESCRIBE_PRODUCERS, "describe", _TOPIC),
    _changes(ApiKey.BROKER_REGISTRATION, "brokers", _CLUSTER),
    _changes(ApiKey.BROKER_HEARTBEAT, "brokers", _CLUSTER),
    _changes(ApiKey.UNREGISTER_BROKER, "admin", _CLUSTER),
    _reads(ApiKey.DESCRIBE_TRANSACTIONS, "transactions", _TRANSACTION),
    _reads(ApiKey.LIST_TRANSACTIONS, "transactions", _CLUSTER),
    _changes(ApiKey.ALLOCATE_PRODUCER_IDS, "brokers", _CLUSTER),
    _changes(ApiKey.CONSUMER_GROUP_HEARTBEAT, "groups", _GROUP, groups="group_id"),
    _reads(ApiKey.CONSUMER_GROUP_DESCRIBE, "groups", _GROUP, groups="group_ids"),
    _changes(ApiKey.CONTROLLER_REGISTRATION, "brokers", _CLUSTER),
    _reads(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", _CLUSTER),
    _reads(ApiKey.PUSH_TELEMETRY, "telemetry", _CLUSTER),  # metrics of the client itself
    _changes(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "brokers", _CLUSTER),
    _reads(ApiKey.LIST_CONFIG_RESOURCES, "describe", _CLUSTER),
    _reads(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "describe", _TOPIC),
    _changes(ApiKey.SHARE_GROUP_HEARTBEAT, "groups", _GROUP, groups="group_id"),
    _reads(ApiKey.SHARE_GROUP_DESCRIBE, "groups", _GROUP, groups="group_ids"),
    _changes(ApiKey.SHARE_FETCH, "groups", _GROUP, groups="group_id"),  # it takes records from other members
    _changes(ApiKey.SHARE_ACKNOWLEDGE, "groups", _GROUP, groups="group_id"),
    _changes(ApiKey.ADD_RAFT_VOTER, "admin", _CLUSTER),
    _changes(ApiKey.REMOVE_RAFT_VOTER, "admin", _CLUSTER),
    _changes(ApiKey.UPDATE_RAFT_VOTER, "brokers", _CLUSTER),
    _changes(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "groups brokers", _CLUSTER, groups="group_id"),
    _changes(ApiKey.READ_SHARE_GROUP_STATE, "groups brokers", _CLUSTER, groups="group_id"),  # it fences older leaders
    _changes(ApiKey.WRITE_SHARE_GROUP_STATE, "groups brokers", _CLUSTER, groups="group_id"),
    _changes(ApiKey.DELETE_SHARE_GROUP_STATE, "groups brokers", _CLUSTER, groups="group_id"),
    _reads(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "groups brokers", _CLUSTER, groups="group_id"),
    _changes(ApiKey.STREAMS_GROUP_HEARTBEAT, "groups", _GROUP, groups="group_id"),
    _reads(ApiKey.STREAMS_GROUP_DESCRIBE, "groups", _GROUP, groups="group_ids"),
    _reads(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups", _GROUP, groups="groups"),
    _changes(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "groups", _GROUP, groups="group_id"),
    _changes(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "groups", _GROUP, groups="group_id"),
    # APIs between brokers before KRaft. kio does not know them, so they can only be refused by hanging up.
    _changes(ApiKey.LEADER_AND_ISR, "brokers", _CLUSTER),
    _changes(ApiKey.STOP_REPLICA, "brokers", _CLUSTER),
    _changes(ApiKey.UPDATE_METADATA, "brokers", _CLUSTER),
    _changes(ApiKey.CONTROLLED_SHUTDOWN, "brokers", _CLUSTER),
)

GUARDED: Final[Mapping[int, GuardedApi]] = MappingProxyType({api.key: api for api in _ALL})
"""Every known API by its key. What other APIs change is unknown here."""

FAMILIES: Final = tuple(dict.fromkeys(family for api in _ALL for family in api.families))

_GROUP_KEY: Final = 0  # the key types of FindCoordinator
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
_GROUP_RESOURCE: Final = 32  # ConfigResource.Type.GROUP

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
    return GUARDED[ApiKey.INIT_PRODUCER_ID if key_type == _TRANSACTION_KEY else ApiKey.INITIALIZE_SHARE_GROUP_STATE]


def is_from_replica(frame: bytes, api_version: int) -> bool:
    """Returns whether a Fetch claims to come from a follower replica. Raises CorruptMessage.

    Such a Fetch acknowledges all earlier records, so the leader moves the high watermark and the ISR. Most are from
    consumers, so no more of the request is parsed than needed.
    """
    fetch = codec(_FETCH, api_version)
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
    return compiled_skip(request_type(_FETCH, api_version))


def _requested(api: GuardedApi, request: Any) -> tuple[Any, ...]:
    """Returns the request's elements that may name a group, each of which gets its own result."""
    if api.group_field is None or _key_type(api, request) not in (_GROUP_KEY, _SHARE_KEY):
        return ()
    named = getattr(request, api.group_field, None)
    if named is None:  # an older version of OffsetFetch or FindCoordinator, with one group
        named = request.key if api.key == _FIND_COORDINATOR else request.group_id
    return (named or "",) if named is None or isinstance(named, str) else tuple(named)


def _key_type(api: GuardedApi, request: Any) -> int:
    return int(getattr(request, "key_type", _GROUP_KEY)) if api.key == _FIND_COORDINATOR else _GROUP_KEY
