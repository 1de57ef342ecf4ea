"""Answers group requests that need no coordinator. Pure.

One live broker, any of them, serves as the coordinator of all groups. Each of the proxy's ports could serve groups,
but tools merge the ListGroups answers of all brokers, so only one broker may list any.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.broker.describe_cluster import Coordinator, FindCoordinator, FindCoordinatorReply, KeyType
from kcoord.errors import ErrorCode
from kcoord.groups.replies import ListGroupsReply
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import Request
from kcoord.server.dispatch.routes import Route, route_for

GROUP_APIS: Final = frozenset(key for key, api in SERVED.items() if api.is_group_api)

UNSERVED: Final = frozenset(
    {
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""AddOffsetsToTxn and TxnOffsetCommit, and the APIs of KIP-848, share and streams groups. They are not announced. If
they were forwarded, the client's group would be upstream; so the proxy hangs up, as a broker without the APIs does."""

LIMITS: Final[Mapping[int, range]] = {
    **{key: SERVED[key].versions for key in (*GROUP_APIS, ApiKey.FIND_COORDINATOR)},
    **dict.fromkeys(UNSERVED, range(0)),
}


class BrokerEndpoint(NamedTuple):
    """A broker with the endpoint of the proxy at which clients reach it."""

    node_id: int
    host: str
    port: int


def find_coordinator(request: Request, endpoint: BrokerEndpoint | None) -> list[bytes] | None:
    """Encodes the response to FindCoordinator for groups, which names `endpoint`, or an error if that is None. Returns
    None for other key types, which the upstream answers. Raises CorruptMessage.

    All keys of a request have the same type (KIP-699).
    """
    request_ = _find_request(request)
    if request_.key_type != KeyType.GROUP:
        return None
    results = tuple(_coordinator_result(key, endpoint) for key in request_.keys)
    return route_for(ApiKey.FIND_COORDINATOR, request.api_version).encode_response(
        request.correlation_id, FindCoordinatorReply(coordinators=results)
    )


def no_groups(request: Request) -> list[bytes]:
    """Encodes the response to ListGroups of a broker that coordinates no group."""
    return _served_route(request).encode_response(request.correlation_id, ListGroupsReply(groups=()))


def _find_request(request: Request) -> FindCoordinator:
    by = _served_route(request)
    _, entity = by.read(request.frame)
    asked: FindCoordinator = by.to_request(entity)
    return asked


def _served_route(request: Request) -> Route:
    if request.api_version not in SERVED[request.api_key].versions:
        raise CorruptMessage(f"{SERVED[request.api_key].name} version {request.api_version} is not served")
    return route_for(request.api_key, request.api_version)


def _coordinator_result(key: str, endpoint: BrokerEndpoint | None) -> Coordinator:
    if endpoint is None:
        error = ErrorCode.coordinator_not_available
        return Coordinator(key=key, error_code=error, error_message="no group is coordinated here now")
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
