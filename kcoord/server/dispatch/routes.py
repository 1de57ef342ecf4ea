"""How one version of one API is served, put together when it is first asked for; and what clients ask again and again.

A frame begins with its API's key and version, so that four bytes are enough to find the route.

Theory of operation. A member sends the same heartbeat again and again, and commits to the same partitions: what it asks
differs from what it asked before in the correlation id and, of a commit, in the offsets. When its group is rebalanced
it joins with other subscriptions, often as long as those before, and syncs in another generation. Numbers have a fixed
size, and the length of a subscription stands before it, so that where all these are follows from all the other bytes. A
frame whose other bytes are those of one that was read is known without being read: it is taken apart by one call of
struct into what stays the same and what varies.

    frame   0008 0009 00000f21 ...group, member, topic, partition...  00000000000004d2 ...
            route     any      same                                   varies           same
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, Final

from kcoord.api.table import HEARTBEAT, OFFSET_COMMIT, SERVED
from kcoord.metrics.counts import NO_TALLY
from kcoord.protocol.codec import codec
from kcoord.protocol.headers import RequestHeader, read_request_header
from kcoord.protocol.response_template import Splice
from kcoord.protocol.validate import Found
from kcoord.security.listener import ANONYMOUS

if TYPE_CHECKING:
    from kcoord.groups.classic.prevalidated import StandingPhase
    from kcoord.server.fast_path.response_cache import StandingFrame

START: Final = slice(0, 4)  # of a request: key and version
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

SAME: Final = slice(0, None, 2)  # of a frame that is taken apart
VARYING: Final = slice(1, None, 2)

_FORMS_KEPT: Final = 100  # ways to take one apart: members of a group mostly have the same
_FIRST_TRIES: Final = 2  # a member's first join is without an id, and never comes again
_UNKNOWN_PER_TRY: Final = 4
_ALONE_IN_A_ROW: Final = 16
_WORTH_KEEPING: Final = 4096
"""Bytes of a frame: what is kept of a client is to be little, whatever it sends."""


class Route:
    """From a frame to an entity, from a reply to the pieces of a frame."""

    __slots__ = (
        "_codec",
        "_splice",
        "_to_response",
        "_varying",
        "_version",
        "api",
        "decide",
        "has_few_answers",
        "is_repeated",
        "module",
        "stand",
        "with_varying",
    )

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        self.module: Any = self.api.module
        self.decide: Any = getattr(self.module, "decide", None)
        self.stand: Any = getattr(self.module, "stand", None)
        self._varying: str | None = getattr(self.module, "VARYING", None)
        self.with_varying: Callable[[Any, tuple[Any, ...]], Any] | None = getattr(self.module, "with_varying", None)
        self.is_repeated = api_key == HEARTBEAT or self._varying is not None
        self.has_few_answers = api_key in (HEARTBEAT, OFFSET_COMMIT)
        self._version = api_version
        self._codec = codec(api_key, api_version)
        own_field: str | None = getattr(self.module, "OWN_FIELD", None)
        self._splice = Splice(self._codec, own_field) if own_field else None
        self._to_response: Callable[[Any, int], Any] | None = getattr(self.module, "to_response", None)

    def read(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """The header and the entity. Raises BadBody."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def varying_in(self, frame: bytes) -> list[Found]:
        """Where in a frame that was read the values are that are new each time its client asks the same again."""
        if self._varying is None:
            return []
        _, position = read_request_header(frame, self._codec.request_header_version)
        return self._codec.find_in_request(self._varying)(frame, position)

    def answer(self, correlation_id: int, reply: Any) -> list[bytes]:
        """The pieces of the frame that answers."""
        response = self._to_response(reply, self._version) if self._to_response else reply
        if self._splice is not None:
            return self._splice.frames((correlation_id,), (response,))
        return self._codec.response_pieces(correlation_id, response)

    def answer_all(self, correlation_ids: Sequence[int], replies: Sequence[Any]) -> list[bytes]:
        """The frames that answer many members of a group."""
        assert self._splice is not None, "only joins and syncs are answered so"
        to_response, version = self._to_response, self._version
        if to_response is not None:
            replies = [to_response(reply, version) for reply in replies]
        return self._splice.frames(correlation_ids, replies)


@cache
def route(api_key: int, api_version: int) -> Route:
    """The route of a version that is served."""
    return Route(api_key, api_version)


class Repeated:
    """A request that a client may send again, the same but for its correlation id and some values."""

    __slots__ = ("_rest", "_size", "_with_varying", "phase", "request", "route", "same", "taken_apart")

    def __init__(self, frame: bytes, route: Route, request: Any) -> None:
        self.route = route
        self.request = request
        self.phase: StandingPhase | None = None  # how it is asked while its group is rebalanced
        varying = tuple(route.varying_in(frame))
        self._rest = None if varying else frame[REST]
        self._size = len(frame)
        self.taken_apart = _apart(len(frame), varying)
        self.same = self.taken_apart(frame)[SAME]
        self._with_varying = route.with_varying

    def varying_in(self, frame: bytes) -> tuple[Any, ...] | None:
        """What varies in a frame of the same API and version; None if it is another request."""
        if self._rest is not None:
            return () if frame[REST] == self._rest else None
        if len(frame) != self._size:
            return None
        parts = self.taken_apart(frame)
        return parts[VARYING] if parts[SAME] == self.same else None

    def request_with(self, varying: tuple[Any, ...]) -> Any:
        """What a frame asks in which that is what varies; None if it does not follow."""
        return self._with_varying(self.request, varying) if self._with_varying else self.request

    def request_in(self, frame: bytes) -> Any:
        """What a frame of the same API and version asks; None if it is another request, or that does not follow."""
        varying = self.varying_in(frame)
        return None if varying is None else self.request_with(varying)


class Asker:
    """Who asks over one connection: as whom, where from, as Kafka shows it, and what need not be read or written anew.

    What it repeats is read once. As long as it gets the same reply, it gets the same bytes but for the correlation id.
    """

    __slots__ = (
        "_answers",
        "_unknown",
        "alone",
        "host",
        "principal",
        "repeated",
        "standing",
        "tally",
    )

    def __init__(self, address: str) -> None:
        self.host = f"/{address}"
        self.principal = ANONYMOUS  # until it has logged in
        self.repeated: dict[bytes, Repeated] = {}  # by the first bytes of a frame
        self.standing: dict[bytes, StandingFrame] = {}  # by the first bytes of a frame with its length
        self.alone = 0  # requests in a row that came each by itself
        self.tally = NO_TALLY  # the last reply of those that are given again
        self._answers: dict[Route, tuple[object, bytes, bytes]] = {}
        self._unknown: dict[Route, int] = {}

    @property
    def asks_one_by_one(self) -> bool:
        """And waits for each answer, as far as can be seen."""
        return self.alone >= _ALONE_IN_A_ROW

    @property
    def known_principal(self) -> str:
        """Who has logged in; empty if nobody has."""
        return "" if self.principal == ANONYMOUS else self.principal

    def came_together(self) -> None:
        """Several requests at once are best worked on together: heartbeats and commits do not stand then."""
        if self.alone:
            self.alone = 0
            self.standing.clear()

    def remember(self, frame: bytes, route: Route, request: Any) -> None:
        """It may ask that again. One that asks something else each time is not to pay for it each time."""
        unknown = self._unknown[route] = self._unknown.get(route, 0) + 1
        is_tried = unknown <= _FIRST_TRIES or unknown % _UNKNOWN_PER_TRY == 1
        if is_tried and len(frame) <= _WORTH_KEEPING:
            self.repeated[frame[START]] = Repeated(frame, route, request)

    def answer(self, frame: bytes, route: Route, reply: object) -> list[bytes]:
        """The pieces of the answer to this frame."""
        known = self._answers.get(route)
        if known is not None and known[0] is reply:
            _, start, rest = known
            return [start + frame[CORRELATION] + rest]
        whole = b"".join(route.answer(0, reply))
        start, rest = whole[START], whole[REST]
        if len(whole) <= _WORTH_KEEPING:
            self._answers[route] = (reply, start, rest)
        return [start + frame[CORRELATION] + rest]


@lru_cache(_FORMS_KEPT)
def _apart(size: int, varying: tuple[Found, ...]) -> Callable[..., tuple[Any, ...]]:
    """How to take a frame of that size apart: what stays the same and what varies, in turn, from behind its start."""
    forms, end = [f">{REST.start}x"], REST.start
    for position, form in varying:
        forms.append(f"{position - end}s{form}")
        end = position + calcsize(f">{form}")
    return Struct("".join([*forms, f"{size - end}s"])).unpack_from
