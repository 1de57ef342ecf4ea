"""Schemas of the APIs by which groups and their cluster are read and changed: a client of these needs no kio.

kio knows every API; servers and tests use it. Importing its classes for the APIs here takes longer than a cluster takes
to answer them all. A test compares every version of these schemas with kio's.

cluster            API versions, the login, topics and their logs
groups             groups of every kind, members of classic groups
modern_groups      KIP-848 groups, share groups and streams groups
offsets            committed offsets

The schemas are text (`schema.notation`). Times are in milliseconds, an id is its 16 bytes. No tagged field is needed
here, so none is named: all are skipped as unknown ones.
"""

from typing import Final

from kcoord.protocol.schema.messages import cluster, groups, modern_groups, offsets
from kcoord.protocol.schema.notation import ApiSchema


def schema_of(api_key: int) -> ApiSchema | None:
    """Returns the schema of the API with this key; None if it has none here."""
    return _APIS.get(api_key)


def apis_with_schema() -> tuple[int, ...]:
    """Returns the keys of the APIs that have a schema."""
    return tuple(_APIS)


_APIS: Final = {
    1: cluster.FETCH,
    2: cluster.LIST_OFFSETS,
    3: cluster.METADATA,
    8: offsets.OFFSET_COMMIT,
    9: offsets.OFFSET_FETCH,
    10: groups.FIND_COORDINATOR,
    13: groups.LEAVE_GROUP,
    15: groups.DESCRIBE_GROUPS,
    16: groups.LIST_GROUPS,
    17: cluster.SASL_HANDSHAKE,
    18: cluster.API_VERSIONS,
    32: cluster.DESCRIBE_CONFIGS,
    36: cluster.SASL_AUTHENTICATE,
    42: groups.DELETE_GROUPS,
    47: offsets.OFFSET_DELETE,
    68: modern_groups.CONSUMER_GROUP_HEARTBEAT,
    69: modern_groups.CONSUMER_GROUP_DESCRIBE,
    76: modern_groups.SHARE_GROUP_HEARTBEAT,
    77: modern_groups.SHARE_GROUP_DESCRIBE,
    88: modern_groups.STREAMS_GROUP_HEARTBEAT,
    89: modern_groups.STREAMS_GROUP_DESCRIBE,
    90: offsets.DESCRIBE_SHARE_GROUP_OFFSETS,
}
