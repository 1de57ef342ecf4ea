"""FindCoordinator: the node that coordinates a group; one key up to version 3, many from 4 on (KIP-699)."""

from dataclasses import dataclass
from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.describe_cluster import Coordinator, FindCoordinator, FindCoordinatorReply, KeyType, find_coordinator
from kcoord.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Single:
    """The response up to version 3."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int
    throttle_time: float


def to_request(entity: Any) -> FindCoordinator:
    """Converts kio's FindCoordinator request of any version to the version-free one."""
    keys = entity.coordinator_keys if entity.__version__ >= 4 else (entity.key,)
    return FindCoordinator(key_type=getattr(entity, "key_type", KeyType.GROUP), keys=keys)


def to_response(reply: FindCoordinatorReply, version: int) -> object:
    """Adapts the reply to a version: up to version 3 a response has one coordinator, without a list."""
    return reply if version >= 4 else _single(reply.coordinators[0], reply.throttle_time)


def transactional_ids(request: FindCoordinator) -> tuple[str, ...]:
    """Returns the transactional ids whose coordinator the request asks for; empty if it asks for groups."""
    return request.keys if request.key_type == KeyType.TRANSACTION else ()


def _single(coordinator: Coordinator, throttle_time: float) -> _Single:
    return _Single(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or _error_text(coordinator.error_code),
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
        throttle_time=throttle_time,
    )


def _error_text(error: ErrorCode) -> str:
    """Returns Kafka's message for an error, which is "NONE" for success."""
    return "NONE" if error is ErrorCode.none else f"{error.name.replace('_', ' ').capitalize()}."


API = broker_api(to_request=to_request, decide=find_coordinator, to_response=to_response)
