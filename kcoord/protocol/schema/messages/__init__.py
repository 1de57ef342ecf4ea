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

from collections.abc import Mapping
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.protocol.schema.messages import cluster, groups, modern_groups, offsets
from kcoord.protocol.schema.notation import ApiSchema


def schema_of(api_key: int) -> ApiSchema | None:
    """Returns the schema of the API with this key; None if it has none here."""
    return _APIS.get(api_key)


def apis_with_schema() -> tuple[int, ...]:
    """Returns the keys of the APIs that have a schema."""
    return tuple(_APIS)


_APIS: Final[Mapping[int, ApiSchema]] = {
    ApiKey.FETCH: cluster.FETCH,
    ApiKey.LIST_OFFSETS: cluster.LIST_OFFSETS,
    ApiKey.METADATA: cluster.METADATA,
    ApiKey.OFFSET_COMMIT: offsets.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH: offsets.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR: groups.FIND_COORDINATOR,
    ApiKey.LEAVE_GROUP: groups.LEAVE_GROUP,
    ApiKey.DESCRIBE_GROUPS: groups.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS: groups.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE: cluster.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS: cluster.API_VERSIONS,
    ApiKey.DESCRIBE_CONFIGS: cluster.DESCRIBE_CONFIGS,
    ApiKey.SASL_AUTHENTICATE: cluster.SASL_AUTHENTICATE,
    ApiKey.DELETE_GROUPS: groups.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE: offsets.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: modern_groups.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE: modern_groups.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT: modern_groups.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE: modern_groups.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_HEARTBEAT: modern_groups.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE: modern_groups.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: offsets.DESCRIBE_SHARE_GROUP_OFFSETS,
}
