"""Schemas of the APIs by which a cluster is read, as text: all that a client needs to read without importing kio.

kio knows every API; servers and tests use it. Importing its classes for the dozen APIs here takes longer than a cluster
takes to answer them all. A test compares every version of these schemas with kio's.

    name type          a field; the indented lines below it are the fields of a struct
    {} and []          a struct, and any number of structs; []int32 is an array of numbers
    ?                  it may be null; `null N`: it may be null since that version
    since N, until N   the versions that have it, if not all of them do
    default X          its value where it is absent, if that is not the zero of its type; null as well

Times are in milliseconds, an id is its 16 bytes. Before the first flexible version lengths have a fixed size; from it
on they are varints, and every struct ends in tagged fields (KIP-482). No tagged field is needed here, so none is named:
all are skipped as unknown ones.
"""

from functools import cached_property
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey

NUMBERS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "error": "h",
    "uuid": "16s",
}
"""The types of fixed size, and their codes for struct."""
NEVER: Final = 1 << 15
"""A version that no API reaches."""


class Field(NamedTuple):
    name: str
    type: str
    """The type of one element, if it is an array; "{}" is a struct."""
    is_array: bool
    fields: "Fields"
    since: int
    until: int
    null_since: int
    default: Any

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_nullable(self, version: int) -> bool:
        return version >= self.null_since


Fields = tuple[Field, ...]


class ApiSchema:
    """The request and the response of one API. Each is parsed from its text when it is first needed."""

    def __init__(self, versions: range, flexible_since: int, request: str, response: str) -> None:
        self.versions = versions
        self.flexible_since = flexible_since
        self._request = request
        self._response = response

    @cached_property
    def request(self) -> Fields:
        return parse_fields(self._request)

    @cached_property
    def response(self) -> Fields:
        return parse_fields(self._response)

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_since


def schema_of(api_key: int) -> ApiSchema | None:
    return _APIS.get(api_key)


def apis_with_schema() -> tuple[int, ...]:
    """Returns the keys of the APIs that have a schema."""
    return tuple(_APIS)


def parse_fields(text: str) -> Fields:
    """Parses the fields of a struct."""
    lines = [(len(line) - len(line.lstrip()), line.split()) for line in text.splitlines() if line.strip()]
    return _fields(lines, 0)[0] if lines else ()


def _fields(lines: list[tuple[int, list[str]]], index: int) -> tuple[Fields, int]:
    """Parses the fields from this line on at its depth, and returns the index of the line behind them."""
    depth = lines[index][0]
    fields = []
    while index < len(lines) and lines[index][0] == depth:
        words = lines[index][1]
        index += 1
        inner: Fields = ()
        if index < len(lines) and lines[index][0] > depth:
            inner, index = _fields(lines, index)
        fields.append(_field(words, inner))
    return tuple(fields), index


def _field(words: list[str], inner: Fields) -> Field:
    name, kind = words[:2]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    is_array, is_nullable = kind.startswith("[]"), kind.endswith("?")
    type_ = kind.removeprefix("[]").removesuffix("?") or "{}"
    return Field(
        name,
        type_,
        is_array,
        inner,
        since=int(options.get("since", 0)),
        until=int(options.get("until", NEVER)),
        null_since=0 if is_nullable else int(options.get("null", NEVER)),
        default=_default(options["default"]) if "default" in options else () if is_array else _ZEROS.get(type_, 0),
    )


_ZEROS: Final = {"string": "", "bytes": b"", "bool": False, "uuid": None, "{}": None}
_WORDS: Final = {"null": None, "true": True}


def _default(word: str) -> Any:
    return _WORDS[word] if word in _WORDS else int(word)


# The cluster and its topics

_API_VERSIONS: Final = ApiSchema(
    range(1),  # Every broker answers version 0, which has all that is needed.
    NEVER,
    "",
    """
    error_code error
    api_keys []
        api_key int16
        min_version int16
        max_version int16
    """,
)
_METADATA: Final = ApiSchema(
    range(4, 13),
    9,
    """
    topics []?
        topic_id uuid                                  since 10
        name string                                    null 10
    allow_auto_topic_creation bool                     default true
    include_cluster_authorized_operations bool         since 8 until 10
    include_topic_authorized_operations bool           since 8
    """,
    """
    throttle_time int32
    brokers []
        node_id int32
        host string
        port int32
        rack string?                                   default null
    cluster_id string?                                 default null
    controller_id int32                                default -1
    topics []
        error_code error
        name string                                    null 12
        topic_id uuid                                  since 10
        is_internal bool
        partitions []
            error_code error
            partition_index int32
            leader_id int32
            leader_epoch int32                         since 7 default -1
            replica_nodes []int32
            isr_nodes []int32
            offline_replicas []int32                   since 5
        topic_authorized_operations int32              since 8 default -2147483648
    cluster_authorized_operations int32                since 8 until 10 default -2147483648
    """,
)
_LIST_OFFSETS: Final = ApiSchema(
    range(1, 10),
    6,
    """
    replica_id int32
    isolation_level int8                               since 2
    topics []
        name string
        partitions []
            partition_index int32
            current_leader_epoch int32                 since 4 default -1
            timestamp int64
    """,
    """
    throttle_time int32                                since 2
    topics []
        name string
        partitions []
            partition_index int32
            error_code error
            timestamp int64                            default -1
            offset int64                               default -1
            leader_epoch int32                         since 4 default -1
    """,
)
_FETCH: Final = ApiSchema(
    range(4, 13),  # These versions use topic names; newer ones know topic ids only.
    12,
    """
    replica_id int32                                   default -1
    max_wait int32
    min_bytes int32
    max_bytes int32                                    default 2147483647
    isolation_level int8
    session_id int32                                   since 7
    session_epoch int32                                since 7 default -1
    topics []
        topic string
        partitions []
            partition int32
            current_leader_epoch int32                 since 9 default -1
            fetch_offset int64
            last_fetched_epoch int32                   since 12 default -1
            log_start_offset int64                     since 5 default -1
            partition_max_bytes int32
    forgotten_topics_data []                           since 7
        topic string
        partitions []int32
    rack_id string                                     since 11
    """,
    """
    throttle_time int32
    error_code error                                   since 7
    session_id int32                                   since 7
    responses []
        topic string
        partitions []
            partition_index int32
            error_code error
            high_watermark int64
            last_stable_offset int64                   default -1
            log_start_offset int64                     since 5 default -1
            aborted_transactions []?
                producer_id int64
                first_offset int64
            preferred_read_replica int32               since 11 default -1
            records bytes?
    """,
)
_DESCRIBE_CONFIGS: Final = ApiSchema(
    range(1, 5),
    4,
    """
    resources []
        resource_type int8
        resource_name string
        configuration_keys []string?
    include_synonyms bool
    include_documentation bool                         since 3
    """,
    """
    throttle_time int32
    results []
        error_code error
        error_message string?
        resource_type int8
        resource_name string
        configs []
            name string
            value string?
            read_only bool
            config_source int8                         default -1
            is_sensitive bool
            synonyms []
                name string
                value string?
                source int8
            config_type int8                           since 3
            documentation string?                      since 3
    """,
)

# Groups of every kind

_FIND_COORDINATOR: Final = ApiSchema(
    range(5),
    3,
    """
    key string                                         until 3
    key_type int8                                      since 1
    coordinator_keys []string                          since 4
    """,
    """
    throttle_time int32                                since 1
    coordinators []                                    since 4
        key string
        node_id int32
        host string
        port int32
        error_code error
        error_message string?
    error_code error                                   until 3
    error_message string?                              since 1 until 3
    node_id int32                                      until 3
    host string                                        until 3
    port int32                                         until 3
    """,
)
_LIST_GROUPS: Final = ApiSchema(
    range(6),
    3,
    """
    states_filter []string                             since 4
    types_filter []string                              since 5
    """,
    """
    throttle_time int32                                since 1
    error_code error
    groups []
        group_id string
        protocol_type string
        group_state string                             since 4
        group_type string                              since 5
    """,
)
_DESCRIBE_GROUPS: Final = ApiSchema(
    range(7),
    5,
    """
    groups []string
    include_authorized_operations bool                 since 3
    """,
    """
    throttle_time int32                                since 1
    groups []
        error_code error
        error_message string?                          since 6 default null
        group_id string
        group_state string
        protocol_type string
        protocol_data string
        members []
            member_id string
            group_instance_id string?                  since 4 default null
            client_id string
            client_host string
            member_metadata bytes
            member_assignment bytes
        authorized_operations int32                    since 3 default -2147483648
    """,
)
_OFFSET_FETCH: Final = ApiSchema(
    range(2, 10),
    6,
    """
    groups []                                          since 8
        group_id string
        member_id string?                              since 9 default null
        member_epoch int32                             since 9 default -1
        topics []?
            name string
            partition_indexes []int32
    group_id string                                    until 7
    topics []?                                         until 7
        name string
        partition_indexes []int32
    require_stable bool                                since 7
    """,
    """
    throttle_time int32                                since 3
    groups []                                          since 8
        group_id string
        topics []
            name string
            partitions []
                partition_index int32
                committed_offset int64
                committed_leader_epoch int32           default -1
                metadata string?
                error_code error
        error_code error
    topics []                                          until 7
        name string
        partitions []
            partition_index int32
            committed_offset int64
            committed_leader_epoch int32               since 5 default -1
            metadata string?
            error_code error
    error_code error                                   until 7
    """,
)

# Groups whose coordinator assigns partitions: KIP-848 groups, share groups and streams groups

_GROUPS_TO_DESCRIBE: Final = """
    group_ids []string
    include_authorized_operations bool
    """
_CONSUMER_GROUP_DESCRIBE: Final = ApiSchema(
    range(2),
    0,
    _GROUPS_TO_DESCRIBE,
    """
    throttle_time int32
    groups []
        error_code error
        error_message string?                          default null
        group_id string
        group_state string
        group_epoch int32
        assignment_epoch int32
        assignor_name string
        members []
            member_id string
            instance_id string?                        default null
            rack_id string?                            default null
            member_epoch int32
            client_id string
            client_host string
            subscribed_topic_names []string
            subscribed_topic_regex string?             default null
            assignment {}
                topic_partitions []
                    topic_id uuid
                    topic_name string
                    partitions []int32
            target_assignment {}
                topic_partitions []
                    topic_id uuid
                    topic_name string
                    partitions []int32
            member_type int8                           since 1 default -1
        authorized_operations int32                    default -2147483648
    """,
)
_SHARE_GROUP_DESCRIBE: Final = ApiSchema(
    range(1, 2),
    0,
    _GROUPS_TO_DESCRIBE,
    """
    throttle_time int32
    groups []
        error_code error
        error_message string?                          default null
        group_id string
        group_state string
        group_epoch int32
        assignment_epoch int32
        assignor_name string
        members []
            member_id string
            rack_id string?                            default null
            member_epoch int32
            client_id string
            client_host string
            subscribed_topic_names []string
            assignment {}
                topic_partitions []
                    topic_id uuid
                    topic_name string
                    partitions []int32
        authorized_operations int32                    default -2147483648
    """,
)
_STREAMS_GROUP_DESCRIBE: Final = ApiSchema(
    range(1),
    0,
    _GROUPS_TO_DESCRIBE,
    """
    throttle_time int32
    groups []
        error_code error
        error_message string?                          default null
        group_id string
        group_state string
        group_epoch int32
        assignment_epoch int32
        topology {}?                                   default null
            epoch int32
            subtopologies []?
                subtopology_id string
                source_topics []string
                repartition_sink_topics []string
                state_changelog_topics []
                    name string
                    partitions int32
                    replication_factor int16
                    topic_configs []
                        key string
                        value string
                repartition_source_topics []
                    name string
                    partitions int32
                    replication_factor int16
                    topic_configs []
                        key string
                        value string
        members []
            member_id string
            member_epoch int32
            instance_id string?                        default null
            rack_id string?                            default null
            client_id string
            client_host string
            topology_epoch int32
            process_id string
            user_endpoint {}?                          default null
                host string
                port uint16
            client_tags []
                key string
                value string
            task_offsets []
                subtopology_id string
                partition int32
                offset int64
            task_end_offsets []
                subtopology_id string
                partition int32
                offset int64
            assignment {}
                active_tasks []
                    subtopology_id string
                    partitions []int32
                standby_tasks []
                    subtopology_id string
                    partitions []int32
                warmup_tasks []
                    subtopology_id string
                    partitions []int32
            target_assignment {}
                active_tasks []
                    subtopology_id string
                    partitions []int32
                standby_tasks []
                    subtopology_id string
                    partitions []int32
                warmup_tasks []
                    subtopology_id string
                    partitions []int32
            is_classic bool
        authorized_operations int32                    default -2147483648
    """,
)
_DESCRIBE_SHARE_GROUP_OFFSETS: Final = ApiSchema(
    range(2),
    0,
    """
    groups []
        group_id string
        topics []?
            topic_name string
            partitions []int32
    """,
    """
    throttle_time int32
    groups []
        group_id string
        topics []
            topic_name string
            topic_id uuid
            partitions []
                partition_index int32
                start_offset int64
                leader_epoch int32
                lag int64                              since 1 default -1
                error_code error
                error_message string?                  default null
        error_code error
        error_message string?                          default null
    """,
)

# The login

_SASL_HANDSHAKE: Final = ApiSchema(
    range(2),
    NEVER,
    "mechanism string",
    """
    error_code error
    mechanisms []string
    """,
)
_SASL_AUTHENTICATE: Final = ApiSchema(
    range(3),
    2,
    "auth_bytes bytes",
    """
    error_code error
    error_message string?
    auth_bytes bytes
    session_lifetime int64                             since 1
    """,
)

_APIS: Final[dict[int, ApiSchema]] = {
    ApiKey.FETCH: _FETCH,
    ApiKey.LIST_OFFSETS: _LIST_OFFSETS,
    ApiKey.METADATA: _METADATA,
    ApiKey.OFFSET_FETCH: _OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR: _FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS: _DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS: _LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE: _SASL_HANDSHAKE,
    ApiKey.API_VERSIONS: _API_VERSIONS,
    ApiKey.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS,
    ApiKey.SASL_AUTHENTICATE: _SASL_AUTHENTICATE,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE: _SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE: _STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _DESCRIBE_SHARE_GROUP_OFFSETS,
}
