"""Routes: how one version of one API is served, made on first use; and templates of repeated requests.

A frame begins with its API's key and version, so that four bytes are enough to find the route.

Theory of operation. A member repeats its heartbeat and commits to the same partitions: such a request differs from the
one before in the correlation id and, for a commit, in the offsets. In a rebalance it joins with other subscriptions,
often of the same length, and syncs in another generation. Numbers have a fixed size and a subscription is preceded by
its length, so the positions of these fields follow from all the other bytes. A frame whose other bytes equal those of
an earlier frame need not be decoded: one call of struct unpacks it into the fixed parts and the variable fields.

    frame   0008 0009 00000f21 ...group, member, topic, partition...  00000000000004d2 ...
            route     any      fixed                                  variable         fixed
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

START: Final = slice(0, 4)  # API key and version of a request
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

SAME: Final = slice(0, None, 2)  # of an unpacked frame
VARYING: Final = slice(1, None, 2)

_FORMS_KEPT: Final = 100  # members of a group mostly share one
_FIRST_TRIES: Final = 2  # a member's first join has no id, and is never repeated
_UNKNOWN_PER_TRY: Final = 4
_ALONE_IN_A_ROW: Final = 16
_WORTH_KEEPING: Final = 4096
"""Bytes of a frame or response that may be cached, so that a client takes little memory whatever it sends."""


class Route:
    """Decodes the requests and encodes the responses of one version of one API."""

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
        """Decodes a frame into its header and its entity. Raises CorruptMessage."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def varying_in(self, frame: bytes) -> list[Found]:
        """Returns the positions of the fields in a decoded frame that differ when its client repeats the request."""
        if self._varying is None:
            return []
        _, position = read_request_header(frame, self._codec.request_header_version)
        return self._codec.find_in_request(self._varying)(frame, position)

    def answer(self, correlation_id: int, reply: Any) -> list[bytes]:
        """Encodes a reply into the pieces of a frame."""
        response = self._to_response(reply, self._version) if self._to_response else reply
        if self._splice is not None:
            return self._splice.frames((correlation_id,), (response,))
        return self._codec.response_pieces(correlation_id, response)

    def answer_all(self, correlation_ids: Sequence[int], replies: Sequence[Any]) -> list[bytes]:
        """Encodes the replies to many members of a group into frames."""
        assert self._splice is not None, "only joins and syncs are answered so"
        to_response, version = self._to_response, self._version
        if to_response is not None:
            replies = [to_response(reply, version) for reply in replies]
        return self._splice.frames(correlation_ids, replies)


@cache
def route(api_key: int, api_version: int) -> Route:
    """Returns the route of a served version."""
    return Route(api_key, api_version)


class Repeated:
    """A request that a client may repeat, differing in its correlation id and some fields only."""

    __slots__ = ("_rest", "_size", "_with_varying", "phase", "request", "route", "same", "taken_apart")

    def __init__(self, frame: bytes, route: Route, request: Any) -> None:
        self.route = route
        self.request = request
        self.phase: StandingPhase | None = None  # the prevalidated form of a join or sync
        varying = tuple(route.varying_in(frame))
        self._rest = None if varying else frame[REST]
        self._size = len(frame)
        self.taken_apart = _apart(len(frame), varying)
        self.same = self.taken_apart(frame)[SAME]
        self._with_varying = route.with_varying

    def varying_in(self, frame: bytes) -> tuple[Any, ...] | None:
        """Returns the variable fields of a frame of the same API and version, or None if it does not match."""
        if self._rest is not None:
            return () if frame[REST] == self._rest else None
        if len(frame) != self._size:
            return None
        parts = self.taken_apart(frame)
        return parts[VARYING] if parts[SAME] == self.same else None

    def request_with(self, varying: tuple[Any, ...]) -> Any:
        """Returns the request with these variable fields, or None if it cannot be derived."""
        return self._with_varying(self.request, varying) if self._with_varying else self.request

    def request_in(self, frame: bytes) -> Any:
        """Returns the request of a frame of the same API and version, or None if it does not match or cannot be
        derived."""
        varying = self.varying_in(frame)
        return None if varying is None else self.request_with(varying)


class Asker:
    """The client of one connection: its principal, its host as Kafka shows it, and its templates and cached frames.

    A repeated request is decoded once, and a repeated reply is encoded once except for the correlation id.
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
        self.principal = ANONYMOUS  # until login
        self.repeated: dict[bytes, Repeated] = {}  # by START of a frame
        self.standing: dict[bytes, StandingFrame] = {}  # by the head of a frame: length, API key and version
        self.alone = 0  # consecutive requests that were received one at a time
        self.tally = NO_TALLY  # of the last recurring reply
        self._answers: dict[Route, tuple[object, bytes, bytes]] = {}
        self._unknown: dict[Route, int] = {}

    @property
    def asks_one_by_one(self) -> bool:
        """Whether the client seems to wait for each response before its next request."""
        return self.alone >= _ALONE_IN_A_ROW

    @property
    def known_principal(self) -> str:
        """The authenticated principal, or an empty text."""
        return "" if self.principal == ANONYMOUS else self.principal

    def came_together(self) -> None:
        """Clears the cache, because requests that are pipelined are best decided together."""
        if self.alone:
            self.alone = 0
            self.standing.clear()

    def remember(self, frame: bytes, route: Route, request: Any) -> None:
        """Makes the request a template. A client that never repeats itself pays for few attempts only."""
        unknown = self._unknown[route] = self._unknown.get(route, 0) + 1
        is_tried = unknown <= _FIRST_TRIES or unknown % _UNKNOWN_PER_TRY == 1
        if is_tried and len(frame) <= _WORTH_KEEPING:
            self.repeated[frame[START]] = Repeated(frame, route, request)

    def answer(self, frame: bytes, route: Route, reply: object) -> list[bytes]:
        """Encodes the reply to a frame, or reuses the bytes if the reply is the identical object as before."""
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
    """Returns the function that unpacks frames of a size into fixed parts and variable fields, alternating."""
    forms, end = [f">{REST.start}x"], REST.start
    for position, form in varying:
        forms.append(f"{position - end}s{form}")
        end = position + calcsize(f">{form}")
    return Struct("".join([*forms, f"{size - end}s"])).unpack_from
