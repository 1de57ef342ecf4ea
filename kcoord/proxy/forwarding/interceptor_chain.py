"""Runs interceptors on one whole request, one after the other."""

import logging
from typing import Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.exceptions import RemoteFailure
from kcoord.protocol.frames import CorruptMessage, framed
from kcoord.proxy.forwarding.interceptors import (
    PASS,
    Answer,
    ClientInfo,
    Handle,
    Pass,
    Replace,
    Request,
    ResponseTransform,
)
from kcoord.proxy.forwarding.routes import Route
from kcoord.proxy.rewriting import api_versions

log = logging.getLogger("kcoord.proxy")

_API_VERSIONS: Final = ApiKey.API_VERSIONS


class Intercepted(NamedTuple):
    """The outcome of running the interceptors on a request: forward it (Pass), answer it, or have it handled, and how
    to transform the response."""

    decision: Pass | Answer | Handle
    request: Request
    """The request as it is now: an interceptor may have replaced its frame."""
    transform: ResponseTransform | None = None


class Unanswerable(RemoteFailure):
    """Raised for a request for which the client has to be hung up on; the message is the reason."""


def intercept(client: ClientInfo, route: Route, request: Request) -> Intercepted:
    """Runs the interceptors on a request, in order, until one answers or handles it. Raises Unanswerable."""
    if request.api_key == _API_VERSIONS and request.api_version > api_versions.NEWEST:
        return Intercepted(
            Answer([api_versions.unsupported_version(request.correlation_id, api_versions.NEWEST)]), request
        )
    transform: ResponseTransform | None = None
    try:
        for interceptor in route.interceptors:
            decision = interceptor.request(client, request)
            if isinstance(decision, Replace):
                request, transform = request._replace(frame=decision.frame), _chained(decision.transform, transform)
            elif decision is not PASS:
                return Intercepted(decision, request, transform)
    except CorruptMessage as bad:
        raise Unanswerable(f"a malformed request: {bad}") from None
    except Exception:
        log.exception("bug peer=%s node=%s: a request could not be judged", client.peer, client.node_id)
        raise Unanswerable("a fault of the proxy") from None
    return Intercepted(PASS, request, transform)


def _chained(nearer: ResponseTransform | None, earlier: ResponseTransform | None) -> ResponseTransform | None:
    """Chains two transforms: the interceptor that replaced the request last sees the response first, so that each
    sees the answer to what it sent."""
    if nearer is None or earlier is None:
        return nearer or earlier
    return lambda frame: earlier(nearer(frame))


def start_handling(client: ClientInfo, handle: Handle) -> None:
    """Has the interceptor that chose Handle begin to handle the request. Raises Unanswerable."""
    try:
        handle.begin()
    except Exception:
        log.exception("bug peer=%s node=%s: a request could not be begun", client.peer, client.node_id)
        raise Unanswerable("a fault of the proxy") from None


def notify_observers(client: ClientInfo, route: Route, request: Request | None, frame: bytes) -> None:
    """Shows a response and its request to the interceptors that observe its API. If one of them fails, the client still
    gets the response."""
    for observer in route.observers:
        assert request, "what is watched is seen whole"
        try:
            observer.response(client, request, frame)
        except Exception:
            log.exception("bug peer=%s node=%s: an answer could not be watched", client.peer, client.node_id)


def transformed_pieces(transform: ResponseTransform | None, pieces: list[bytes]) -> list[bytes]:
    """Returns the pieces of a response frame after its transform; unchanged without one."""
    return [framed([transform(b"".join(pieces)[4:])])] if transform and pieces else pieces
