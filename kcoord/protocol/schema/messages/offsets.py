"""The messages about what groups have committed."""

from typing import Final

from kcoord.protocol.schema.notation import NEVER, ApiSchema

OFFSET_COMMIT: Final = ApiSchema(
    range(2, 10),  # These versions use topic names; newer ones know topic ids only.
    8,
    """
    group_id string
    generation_id_or_member_epoch int32                default -1
    member_id string
    retention_time int64                               until 4 default -1
    group_instance_id string?                          since 7 default null
    topics []
        name string
        partitions []
            partition_index int32
            committed_offset int64
            committed_leader_epoch int32               since 6 default -1
            committed_metadata string?
    """,
    """
    throttle_time int32                                since 3
    topics []
        name string
        partitions []
            partition_index int32
            error_code error
    """,
)
OFFSET_FETCH: Final = ApiSchema(
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
OFFSET_DELETE: Final = ApiSchema(
    range(1),
    NEVER,
    """
    group_id string
    topics []
        name string
        partitions []
            partition_index int32
    """,
    """
    error_code error
    throttle_time int32
    topics []
        name string
        partitions []
            partition_index int32
            error_code error
    """,
)
DESCRIBE_SHARE_GROUP_OFFSETS: Final = ApiSchema(
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
