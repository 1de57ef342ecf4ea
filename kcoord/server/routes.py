"""How one version of one API is served, put together when it is first asked for; and what clients ask again and again.

A frame begins with its API's key and version, so that four bytes are enough to find the route.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kcoord.api.table import HEARTBEAT, OFFSET_COMMIT, SERVED
from kcoord.wire.codec import codec, response_pieces
from kcoord.wire.headers import RequestHeader, read_request_header

START: Final = slice(0, 4)  # of a request: key and version
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

_WORTH_KEEPING: Final = 4096
"""Bytes of a frame: what is kept of a client is to be little, whatever it sends."""


class Route:
    """From a frame to an entity, from a reply to the pieces of a frame."""

    __slots__ = ("_codec", "_to_response", "api", "has_few_answers", "is_repeated", "module")

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        self.module: Any = self.api.module
        self.is_repeated = api_key == HEARTBEAT
        self.has_few_answers = api_key in (HEARTBEAT, OFFSET_COMMIT)
        self._codec = codec(api_key, api_version)
        self._to_response: Callable[[Any, int], Any] | None = getattr(self.module, "to_response", None)

    def read(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """The header and the entity. Raises BadBody."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def answer(self, header: RequestHeader, reply: Any) -> list[bytes]:
        """The pieces of the frame that answers."""
        response = self._to_response(reply, header.api_version) if self._to_response else reply
        return response_pieces(header, response)


@cache
def route(api_key: int, api_version: int) -> Route:
    """The route of a version that is served."""
    return Route(api_key, api_version)


class Repeated:
    """A request that a client sends again and again, the same but for its correlation id, as members do heartbeats."""

    __slots__ = ("header", "request", "rest", "route", "start")

    def __init__(self, frame: bytes, route: Route, header: RequestHeader, request: Any) -> None:
        self.start, self.rest = frame[START], frame[REST]
        self.route = route
        self.header = header
        self.request = request


class Asker:
    """Who asks over one connection: where from, as Kafka shows it, and what need not be read or written anew.

    What it repeats is read once. As long as it gets the same reply, it gets the same bytes but for the correlation id.
    """

    __slots__ = ("_answers", "host", "repeated")

    def __init__(self, address: str) -> None:
        self.host = f"/{address}"
        self.repeated: Repeated | None = None
        self._answers: dict[Route, tuple[object, bytes, bytes]] = {}

    def remember(self, frame: bytes, route: Route, header: RequestHeader, request: Any) -> None:
        if len(frame) <= _WORTH_KEEPING:
            self.repeated = Repeated(frame, route, header, request)

    def answer(self, frame: bytes, route: Route, header: RequestHeader, reply: object) -> list[bytes]:
        """The pieces of the answer to this frame; the header may be that of another but for its correlation id."""
        known = self._answers.get(route)
        if known is not None and known[0] is reply:
            _, start, rest = known
            return [start + frame[CORRELATION] + rest]
        whole = b"".join(route.answer(header, reply))
        start, rest = whole[START], whole[REST]
        if len(whole) <= _WORTH_KEEPING:
            self._answers[route] = (reply, start, rest)
        return [start + frame[CORRELATION] + rest]
