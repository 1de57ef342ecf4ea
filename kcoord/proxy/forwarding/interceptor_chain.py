"""What becomes of a request that is seen whole: interceptors are asked, one after the other."""

import logging
from typing import NamedTuple

from kcoord.protocol.frames import BadBody, framed
from kcoord.proxy.forwarding import api_versions
from kcoord.proxy.forwarding.interceptors import PASS, Amended, Answer, ClientInfo, Instead, Pass, Request, Take
from kcoord.proxy.forwarding.routes import Route

log = logging.getLogger("kcoord.proxy")


class Judgement(NamedTuple):
    decision: Pass | Answer | Take
    request: Request
    """As it is now: an interceptor may have put another in its place."""
    amended: Amended | None = None


class Unanswerable(Exception):
    """The client has to be hung up on, for this reason."""


def judge(client: ClientInfo, route: Route, request: Request) -> Judgement:
    """What the first interceptor that cares says. Raises Unanswerable."""
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
    """Who changed the request last sees the response first: each gets the answer to what it has sent."""
    if nearer is None or earlier is None:
        return nearer or earlier
    return lambda frame: earlier(nearer(frame))


def begin(client: ClientInfo, take: Take) -> None:
    """Raises Unanswerable."""
    try:
        take.begin()
    except Exception:
        log.exception("bug peer=%s node=%s: a request could not be begun", client.peer, client.node_id)
        raise Unanswerable("a fault of the proxy") from None


def show_response(client: ClientInfo, route: Route, request: Request | None, frame: bytes) -> None:
    """Let those who watch see an answer. What they make of it is not the client's trouble."""
    for watcher in route.watchers:
        assert request, "what is watched is seen whole"
        try:
            watcher.response(client, request, frame)
        except Exception:
            log.exception("bug peer=%s node=%s: an answer could not be watched", client.peer, client.node_id)


def amended_pieces(amended: Amended | None, pieces: list[bytes]) -> list[bytes]:
    return [framed([amended(b"".join(pieces)[4:])])] if amended and pieces else pieces
