"""Runs interceptors on one whole request, one after the other."""

import logging
from typing import NamedTuple

from kcoord.protocol.frames import BadBody, framed
from kcoord.proxy.forwarding import api_versions
from kcoord.proxy.forwarding.interceptors import PASS, Amended, Answer, ClientInfo, Instead, Pass, Request, Take
from kcoord.proxy.forwarding.routes import Route

log = logging.getLogger("kcoord.proxy")


class Judgement(NamedTuple):
    """The outcome of running the interceptors on a request."""

    decision: Pass | Answer | Take
    request: Request
    """The request as it is now: an interceptor may have replaced its frame."""
    amended: Amended | None = None


class Unanswerable(Exception):
    """A request for which the client has to be hung up on; the message is the reason."""


def judge(client: ClientInfo, route: Route, request: Request) -> Judgement:
    """Asks the interceptors in order until one answers or handles the request. Raises Unanswerable."""
    if request.api_key == api_versions.API_VERSIONS and request.api_version > api_versions.NEWEST:
        return Judgement(Answer([api_versions.unsupported(request.correlation_id, api_versions.NEWEST)]), request)
    amended: Amended | None = None
    try:
        for interceptor in route.interceptors:
            decision = interceptor.request(client, request)
            if isinstance(decision, Instead):
                request, amended = request._replace(frame=decision.frame), _both(decision.amended, amended)
            elif decision is not PASS:
                return Judgement(decision, request, amended)
    except BadBody as bad:
        raise Unanswerable(f"a malformed request: {bad}") from None
    except Exception:
        log.exception("bug peer=%s node=%s: a request could not be judged", client.peer, client.node_id)
        raise Unanswerable("a fault of the proxy") from None
    return Judgement(PASS, request, amended)


def _both(nearer: Amended | None, earlier: Amended | None) -> Amended | None:
    """Chains two transforms: the interceptor that replaced the request last sees the response first, so that each
    sees the answer to what it sent."""
    if nearer is None or earlier is None:
        return nearer or earlier
    return lambda frame: earlier(nearer(frame))


def begin(client: ClientInfo, take: Take) -> None:
    """Starts handling a request. Raises Unanswerable."""
    try:
        take.begin()
    except Exception:
        log.exception("bug peer=%s node=%s: a request could not be begun", client.peer, client.node_id)
        raise Unanswerable("a fault of the proxy") from None


def show_response(client: ClientInfo, route: Route, request: Request | None, frame: bytes) -> None:
    """Shows an answer to the observers of its API. If one of them fails, the client still gets the answer."""
    for watcher in route.watchers:
        assert request, "what is watched is seen whole"
        try:
            watcher.response(client, request, frame)
        except Exception:
            log.exception("bug peer=%s node=%s: an answer could not be watched", client.peer, client.node_id)


def amended_pieces(amended: Amended | None, pieces: list[bytes]) -> list[bytes]:
    return [framed([amended(b"".join(pieces)[4:])])] if amended and pieces else pieces
