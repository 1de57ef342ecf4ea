"""The table of all APIs by which a client can name a topic or a transaction, on which hiding depends. Pure.

Requests name topics in a list (`topics`, or a list inside each of its elements), transactions in a separate field or in
a list. These APIs are not in the table:

| APIs                                             | why they need no entry                                            |
|--------------------------------------------------|-------------------------------------------------------------------|
| of groups and their offsets                      | the proxy answers them itself; it knows of no hidden topic        |
| KIP-848, share, streams groups, offsets in       | not served with `--coordinate local`                              |
| transactions                                     |                                                                   |
| between brokers and controllers                  | refused: no client needs them, and some wrap other requests       |
| that are newer than this table                   | refused: it is unknown what they name                             |
| ACLs                                             | are permissions, not the topic: see docs/proxy-local.md           |
| DescribeQuorum                                   | serves one topic only, the controllers' metadata log              |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.proxy.guards.guarded_apis import GUARDED
from kcoord.proxy.guards.hidden_names import Kind

ALTER_CONFIGS: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
_BROKERS: Final = "brokers"
_EVERY_KEY: Final = range(1 << 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingApi:
    """Which fields in the requests and responses of one API name topics or transactional ids."""

    key: ApiKey
    lists: tuple[str, ...] = ()
    """The request field with the list of names, under each name that versions have for it."""
    inner: str | None = None
    """The list inside each of its elements that has the names, in versions that nest them."""
    kind: Kind = Kind.TOPIC
    """What a bare string in the list names."""
    transaction_fields: tuple[str, ...] = ()
    """Request fields that name the one transaction of the whole request."""
    unknown: ErrorCode = ErrorCode.unknown_topic_or_partition
    """The error for a hidden topic that is named; one given by id gets UNKNOWN_TOPIC_ID."""
    is_atomic: bool = False
    """Whether a request is all or nothing: if one element is refused, the others are not attempted."""
    is_silent: bool = False
    """Whether responses omit what does not exist, instead of an error."""
    shown: tuple[str, ...] = ()
    """The path to a response list that may contain names which the request did not."""
    has_cursor: bool = False
    """Responses come in pages: each but the last names the topic at which the next one begins."""


def _names(key: ApiKey, *lists: str) -> NamingApi:
    """Describes an API whose response has an error for each topic that the request names."""
    return NamingApi(key=key, lists=lists)


_ALL: Final = (
    NamingApi(key=ApiKey.PRODUCE, lists=("topic_data",), transaction_fields=("transactional_id",)),
    _names(ApiKey.FETCH, "topics"),
    _names(ApiKey.LIST_OFFSETS, "topics"),
    NamingApi(key=ApiKey.METADATA, lists=("topics",), shown=("topics",)),
    NamingApi(
        key=ApiKey.FIND_COORDINATOR, lists=("coordinator_keys",), kind=Kind.TRANSACTION, transaction_fields=("key",)
    ),  # for coordinators of transactions
    # Nobody can create a topic of this name, and TOPIC_ALREADY_EXISTS would reveal it.
    NamingApi(key=ApiKey.CREATE_TOPICS, lists=("topics",), unknown=ErrorCode.topic_authorization_failed),
    _names(ApiKey.DELETE_TOPICS, "topics", "topic_names"),
    _names(ApiKey.DELETE_RECORDS, "topics"),
    NamingApi(key=ApiKey.INIT_PRODUCER_ID, transaction_fields=("transactional_id",)),
    _names(ApiKey.OFFSET_FOR_LEADER_EPOCH, "topics"),
    NamingApi(
        key=ApiKey.ADD_PARTITIONS_TO_TXN,
        lists=("transactions", "v3_and_below_topics"),
        inner="topics",
        transaction_fields=("v3_and_below_transactional_id",),
        is_atomic=True,
    ),
    NamingApi(key=ApiKey.END_TXN, transaction_fields=("transactional_id",)),
    NamingApi(key=ApiKey.WRITE_TXN_MARKERS, lists=("markers",), inner="topics"),
    _names(ApiKey.DESCRIBE_CONFIGS, "resources"),
    _names(ApiKey.ALTER_CONFIGS, "resources"),
    NamingApi(key=ApiKey.ALTER_REPLICA_LOG_DIRS, lists=("dirs",), inner="topics"),
    NamingApi(key=ApiKey.DESCRIBE_LOG_DIRS, lists=("topics",), is_silent=True, shown=("results", "topics")),
    _names(ApiKey.CREATE_PARTITIONS, "topics"),
    NamingApi(key=ApiKey.ELECT_LEADERS, lists=("topic_partitions",), shown=("replica_election_results",)),
    _names(ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources"),
    _names(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "topics"),
    NamingApi(key=ApiKey.LIST_PARTITION_REASSIGNMENTS, lists=("topics",), is_silent=True, shown=("topics",)),
    _names(ApiKey.DESCRIBE_PRODUCERS, "topics"),
    NamingApi(
        key=ApiKey.DESCRIBE_TRANSACTIONS,
        lists=("transactional_ids",),
        kind=Kind.TRANSACTION,
        shown=("transaction_states", "topics"),
    ),
    NamingApi(key=ApiKey.LIST_TRANSACTIONS, shown=("transaction_states",)),
    NamingApi(key=ApiKey.LIST_CONFIG_RESOURCES, shown=("config_resources",)),
    NamingApi(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, lists=("topics",), shown=("topics",), has_cursor=True),
)

NAMING: Final[Mapping[int, NamingApi]] = MappingProxyType({api.key: api for api in _ALL})

REFUSED: Final = frozenset(
    key
    for key in _EVERY_KEY
    if key not in GUARDED or (_BROKERS in GUARDED[key].families and key != ApiKey.WRITE_TXN_MARKERS)
)
"""APIs between brokers, and APIs unknown here. WriteTxnMarkers is not among them: operators' tools send it to abort a
hanging transaction."""
