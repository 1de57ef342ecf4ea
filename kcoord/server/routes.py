"""How one version of one API is served, put together when it is first asked for; and requests that are asked again.

A frame begins with its API's key and version, so that four bytes are enough to find the route.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kcoord.api.table import HEARTBEAT, SERVED
from kcoord.wire.codec import codec, response_pieces
from kcoord.wire.headers import RequestHeader, read_request_header

START: Final = slice(0, 4)  # of a request: key and version
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)


class Route:
    """From a frame to an entity, from a reply to the pieces of a frame."""

    __slots__ = ("_codec", "_to_response", "api", "is_repeated", "module")

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        self.module: Any = self.api.module
        self.is_repeated = api_key == HEARTBEAT
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
    """A request that a client sends again and again, the same but for its correlation id, as members do heartbeats.

    It is read once, and as long as the reply is the same, the answer is the same but for the correlation id too.
    """

    __slots__ = ("_answer_rest", "_answer_start", "_header", "_reply", "_route", "decide", "request", "rest", "start")

    def __init__(self, frame: bytes, route: Route, header: RequestHeader, request: Any) -> None:
        self.start, self.rest = frame[START], frame[REST]
        self.request = request
        self.decide: Callable[..., Any] = route.module.decide
        self._route = route
        self._header = header
        self._reply: object = None
        self._answer_start = self._answer_rest = b""

    def answer(self, frame: bytes, reply: object) -> list[bytes]:
        """The pieces of the answer to this frame."""
        if reply is not self._reply:
            first = b"".join(self._route.answer(self._header, reply))
            self._reply, self._answer_start, self._answer_rest = reply, first[START], first[REST]
        return [self._answer_start + frame[CORRELATION] + self._answer_rest]


class Asker:
    """Who asks over one connection: where from, as Kafka shows it, and what it repeats."""

    __slots__ = ("host", "repeated")

    def __init__(self, address: str) -> None:
        self.host = f"/{address}"
        self.repeated: Repeated | None = None
