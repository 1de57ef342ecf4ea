"""The messages about groups of every kind, and about the members of classic groups."""

from typing import Final

from kcoord.protocol.schema.notation import ApiSchema

FIND_COORDINATOR: Final = ApiSchema(
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
LIST_GROUPS: Final = ApiSchema(
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
DESCRIBE_GROUPS: Final = ApiSchema(
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
LEAVE_GROUP: Final = ApiSchema(
    range(3, 6),
    4,
    """
    group_id string
    members []
        member_id string
        group_instance_id string?                      default null
        reason string?                                 since 5 default null
    """,
    """
    throttle_time int32
    error_code error
    members []
        member_id string
        group_instance_id string?
        error_code error
    """,
)
DELETE_GROUPS: Final = ApiSchema(
    range(3),
    2,
    """
    groups_names []string
    """,
    """
    throttle_time int32
    results []
        group_id string
        error_code error
    """,
)
