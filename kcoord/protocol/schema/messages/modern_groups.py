"""The messages about groups whose coordinator assigns partitions: KIP-848 groups, share groups and streams groups."""

from typing import Final

from kcoord.protocol.schema.notation import ApiSchema

_GROUPS_TO_DESCRIBE: Final = """
    group_ids []string
    include_authorized_operations bool
    """
CONSUMER_GROUP_DESCRIBE: Final = ApiSchema(
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
CONSUMER_GROUP_HEARTBEAT: Final = ApiSchema(
    range(2),
    0,
    """
    group_id string
    member_id string
    member_epoch int32
    instance_id string?                                default null
    rack_id string?                                    default null
    rebalance_timeout int32                            default -1
    subscribed_topic_names []string?                   default null
    subscribed_topic_regex string?                     since 1 default null
    server_assignor string?                            default null
    topic_partitions []?
        topic_id uuid
        partitions []int32
    """,
    """
    throttle_time int32
    error_code error
    error_message string?                              default null
    member_id string?                                  default null
    member_epoch int32
    heartbeat_interval int32
    assignment {}?
        topic_partitions []
            topic_id uuid
            partitions []int32
    """,
)
SHARE_GROUP_DESCRIBE: Final = ApiSchema(
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
SHARE_GROUP_HEARTBEAT: Final = ApiSchema(
    range(1, 2),
    0,
    """
    group_id string
    member_id string
    member_epoch int32
    rack_id string?                                    default null
    subscribed_topic_names []string?                   default null
    """,
    """
    throttle_time int32
    error_code error
    error_message string?                              default null
    member_id string?                                  default null
    member_epoch int32
    heartbeat_interval int32
    assignment {}?
        topic_partitions []
            topic_id uuid
            partitions []int32
    """,
)
STREAMS_GROUP_DESCRIBE: Final = ApiSchema(
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
STREAMS_GROUP_HEARTBEAT: Final = ApiSchema(
    range(1),
    0,
    """
    group_id string
    member_id string
    member_epoch int32
    endpoint_information_epoch int32
    instance_id string?                                default null
    rack_id string?                                    default null
    rebalance_timeout int32                            default -1
    topology {}?                                       default null
        epoch int32
        subtopologies []
            subtopology_id string
            source_topics []string
            source_topic_regex []string
            state_changelog_topics []
                name string
                partitions int32
                replication_factor int16
                topic_configs []
                    key string
                    value string
            repartition_sink_topics []string
            repartition_source_topics []
                name string
                partitions int32
                replication_factor int16
                topic_configs []
                    key string
                    value string
            copartition_groups []
                source_topics []int16
                source_topic_regex []int16
                repartition_source_topics []int16
    active_tasks []?
        subtopology_id string
        partitions []int32
    standby_tasks []?
        subtopology_id string
        partitions []int32
    warmup_tasks []?
        subtopology_id string
        partitions []int32
    process_id string?                                 default null
    user_endpoint {}?                                  default null
        host string
        port uint16
    client_tags []?
        key string
        value string
    task_offsets []?
        subtopology_id string
        partition int32
        offset int64
    task_end_offsets []?
        subtopology_id string
        partition int32
        offset int64
    shutdown_application bool
    """,
    """
    throttle_time int32
    error_code error
    error_message string?                              default null
    member_id string
    member_epoch int32
    heartbeat_interval int32
    acceptable_recovery_lag int32
    task_offset_interval int32
    status []?
        status_code int8
        status_detail string
    active_tasks []?
        subtopology_id string
        partitions []int32
    standby_tasks []?
        subtopology_id string
        partitions []int32
    warmup_tasks []?
        subtopology_id string
        partitions []int32
    endpoint_information_epoch int32
    partitions_by_user_endpoint []?
        user_endpoint {}
            host string
            port uint16
        active_partitions []
            topic string
            partitions []int32
        standby_partitions []
            topic string
            partitions []int32
    """,
)
