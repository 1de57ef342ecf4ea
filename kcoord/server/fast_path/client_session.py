"""The client of a connection, and what is cached for it: request templates, frames and encoded responses."""

from typing import TYPE_CHECKING, Any, Final

from kcoord.metrics.counts import NO_TALLY
from kcoord.security.listener import ANONYMOUS
from kcoord.server.fast_path.request_template import CORRELATION, REST, START, RequestTemplate

if TYPE_CHECKING:
    from kcoord.server.dispatch.routes import Route
    from kcoord.server.fast_path.response_cache import CachedFrame

_FIRST_ATTEMPTS: Final = 2  # a member's first join has no id, and is never repeated
_MISSES_PER_ATTEMPT: Final = 4
_SINGLES_BEFORE_CACHING: Final = 16
_MAX_CACHED_BYTES: Final = 4096
"""Bytes of a frame or response that may be cached, so that a client takes little memory whatever it sends."""


class ClientSession:
    """The client of one connection: its principal, its host as Kafka shows it, and what is cached of its requests and
    responses.

    A repeated request is decoded once, and a repeated reply is encoded once except for the correlation id.
    """

    __slots__ = (
        "_encoded_responses",
        "_misses",
        "cached_frames",
        "consecutive_singles",
        "host",
        "principal",
        "tally",
        "templates",
    )

    def __init__(self, address: str) -> None:
        self.host = f"/{address}"
        self.principal = ANONYMOUS  # until login
        self.templates: dict[bytes, RequestTemplate] = {}  # by START of a frame
        self.cached_frames: dict[bytes, CachedFrame] = {}  # by the head of a frame: length, API key and version
        self.consecutive_singles = 0  # consecutive requests that were received one at a time
        self.tally = NO_TALLY  # of the last recurring reply
        self._encoded_responses: dict[Route, tuple[object, bytes, bytes]] = {}
        self._misses: dict[Route, int] = {}

    @property
    def is_not_pipelining(self) -> bool:
        """Whether the client seems to wait for each response before its next request."""
        return self.consecutive_singles >= _SINGLES_BEFORE_CACHING

    @property
    def known_principal(self) -> str:
        """The authenticated principal; empty for an anonymous client."""
        return "" if self.principal == ANONYMOUS else self.principal

    def saw_pipelining(self) -> None:
        """Clears the cached frames, because the client sends requests without waiting for responses: these are best
        decided together.
        """
        if self.consecutive_singles:
            self.consecutive_singles = 0
            self.cached_frames.clear()

    def add_template(self, frame: bytes, route: "Route", request: Any) -> None:
        """Caches the decoded request as a template for repetitions of its frame. A client that never repeats itself
        pays for few attempts only.
        """
        misses = self._misses[route] = self._misses.get(route, 0) + 1
        is_attempted = misses <= _FIRST_ATTEMPTS or misses % _MISSES_PER_ATTEMPT == 1
        if is_attempted and len(frame) <= _MAX_CACHED_BYTES:
            self.templates[frame[START]] = RequestTemplate(frame, route, request)

    def encode_response(self, frame: bytes, route: "Route", reply: object) -> list[bytes]:
        """Encodes the reply to a request frame, or reuses the cached bytes if the reply is the identical object as
        before.
        """
        known = self._encoded_responses.get(route)
        if known is not None and known[0] is reply:
            _, start, rest = known
            return [start + frame[CORRELATION] + rest]
        whole = b"".join(route.encode_response(0, reply))
        start, rest = whole[START], whole[REST]
        if len(whole) <= _MAX_CACHED_BYTES:
            self._encoded_responses[route] = (reply, start, rest)
        return [start + frame[CORRELATION] + rest]
