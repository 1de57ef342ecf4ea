"""The messages about a broker, the login, and the cluster's topics."""

from typing import Final

from kcoord.protocol.schema.notation import NEVER, ApiSchema

API_VERSIONS: Final = ApiSchema(
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
SASL_HANDSHAKE: Final = ApiSchema(
    range(2),
    NEVER,
    "mechanism string",
    """
    error_code error
    mechanisms []string
    """,
)
SASL_AUTHENTICATE: Final = ApiSchema(
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
METADATA: Final = ApiSchema(
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
DESCRIBE_CONFIGS: Final = ApiSchema(
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
LIST_OFFSETS: Final = ApiSchema(
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
FETCH: Final = ApiSchema(
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
