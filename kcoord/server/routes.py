"""How one version of one API is served, put together when it is first asked for; and what clients ask again and again.

A frame begins with its API's key and version, so that four bytes are enough to find the route.

Theory of operation. A member sends the same heartbeat again and again, and commits to the same partitions: what it asks
differs from what it asked before in the correlation id and, of a commit, in the offsets. Both are numbers of a fixed
size, so that where they are follows from all the other bytes. A frame whose other bytes are those of one that was read
is known without being read: as one large number, with a mask over what may differ.

    frame   0008 0009 00000f21 ...group, member, topic, partition...  00000000000004d2 ...
    mask    ffff ffff 00000000 fff                               fff  0000000000000000 fff
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from struct import Struct
from typing import Any, Final

from kcoord.api.table import HEARTBEAT, OFFSET_COMMIT, SERVED
from kcoord.wire.codec import codec, response_pieces
from kcoord.wire.headers import RequestHeader, read_request_header

START: Final = slice(0, 4)  # of a request: key and version
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

_UNKNOWN_PER_TRY: Final = 4
_WORTH_KEEPING: Final = 4096
"""Bytes of a frame: what is kept of a client is to be little, whatever it sends."""


class Route:
    """From a frame to an entity, from a reply to the pieces of a frame."""

    __slots__ = ("_codec", "_to_response", "api", "is_repeated", "module")

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        self.module: Any = self.api.module
        self.is_repeated = api_key in (HEARTBEAT, OFFSET_COMMIT)
        self._codec = codec(api_key, api_version)
        self._to_response: Callable[[Any, int], Any] | None = getattr(self.module, "to_response", None)

    def read(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """The header and the entity. Raises BadBody."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def numbers_in(self, frame: bytes) -> list[int]:
        """Where in a frame the numbers are that are new each time its client asks the same again."""
        field: str | None = getattr(self.module, "NUMBERS", None)
        if field is None:
            return []
        _, position = read_request_header(frame, self._codec.request_header_version)
        return self._codec.find_in_request(field)(frame, position)

    def answer(self, header: RequestHeader, reply: Any) -> list[bytes]:
        """The pieces of the frame that answers."""
        response = self._to_response(reply, header.api_version) if self._to_response else reply
        return response_pieces(header, response)


@cache
def route(api_key: int, api_version: int) -> Route:
    """The route of a version that is served."""
    return Route(api_key, api_version)


class Repeated:
    """A request that a client may send again, the same but for its correlation id and some numbers."""

    __slots__ = ("_known", "_mask", "_numbers", "_size", "header", "request", "route")

    def __init__(self, frame: bytes, route: Route, header: RequestHeader, request: Any) -> None:
        self.route = route
        self.header = header
        self.request = request
        numbers = route.numbers_in(frame)
        mask = bytearray(b"\xff" * len(frame))
        mask[CORRELATION] = bytes(4)
        for position in numbers:
            mask[position : position + 8] = bytes(8)
        self._size = len(frame)
        self._mask = int.from_bytes(mask)
        self._known = int.from_bytes(frame) & self._mask
        self._numbers = _unpack(numbers) if numbers else None

    def matches(self, frame: bytes) -> bool:
        return len(frame) == self._size and int.from_bytes(frame) & self._mask == self._known

    def request_of(self, frame: bytes) -> Any:
        """What a frame that matches asks."""
        if self._numbers is None:
            return self.request
        return self.route.module.with_numbers(self.request, self._numbers(frame))


class Asker:
    """Who asks over one connection: where from, as Kafka shows it, and what need not be read or written anew.

    What it repeats is read once. As long as it gets the same reply, it gets the same bytes but for the correlation id.
    """

    __slots__ = ("_answers", "_unknown", "host", "repeated")

    def __init__(self, address: str) -> None:
        self.host = f"/{address}"
        self.repeated: dict[bytes, Repeated] = {}  # by the first bytes of a frame
        self._answers: dict[Route, tuple[object, bytes, bytes]] = {}
        self._unknown = 0

    def remember(self, frame: bytes, route: Route, header: RequestHeader, request: Any) -> None:
        """It may ask that again. One that asks something else each time is not to pay for it each time."""
        self._unknown += 1
        if len(frame) <= _WORTH_KEEPING and self._unknown % _UNKNOWN_PER_TRY == 1:
            self.repeated[frame[START]] = Repeated(frame, route, header, request)

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


def _unpack(positions: list[int]) -> Callable[[bytes], tuple[int, ...]]:
    """How to take numbers of 8 bytes at these positions out of a frame."""
    gaps = [end - start - 8 for start, end in pairwise([-8, *positions])]
    return Struct(">" + "".join(f"{gap}xq" for gap in gaps)).unpack_from
