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
from kcoord.protocol.response_template import ResponseTemplate
from kcoord.protocol.validate import FieldSpan
from kcoord.security.listener import ANONYMOUS

if TYPE_CHECKING:
    from kcoord.groups.classic.prevalidated import PrevalidatedRebalanceRequest
    from kcoord.server.fast_path.response_cache import CachedFrame

START: Final = slice(0, 4)  # API key and version of a request
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

FIXED: Final = slice(0, None, 2)  # of an unpacked frame
VARIABLE: Final = slice(1, None, 2)

_MAX_CACHED_UNPACKERS: Final = 100  # members of a group mostly share one
_FIRST_ATTEMPTS: Final = 2  # a member's first join has no id, and is never repeated
_MISSES_PER_ATTEMPT: Final = 4
_SINGLES_BEFORE_CACHING: Final = 16
_MAX_CACHED_BYTES: Final = 4096
"""Bytes of a frame or response that may be cached, so that a client takes little memory whatever it sends."""


class Route:
    """Decodes the requests and encodes the responses of one version of one API."""

    __slots__ = (
        "_codec",
        "_response_template",
        "_to_response",
        "_variable_field",
        "_version",
        "api",
        "decide",
        "has_recurring_replies",
        "is_templated",
        "module",
        "prevalidate",
        "with_fields",
    )

    def __init__(self, api_key: int, api_version: int) -> None:
        self.api = SERVED[api_key]
        self.module: Any = self.api.module
        self.decide: Any = getattr(self.module, "decide", None)
        self.prevalidate: Any = getattr(self.module, "prevalidate", None)
        self._variable_field: str | None = getattr(self.module, "VARIABLE_FIELD", None)
        self.with_fields: Callable[[Any, tuple[Any, ...]], Any] | None = getattr(self.module, "with_fields", None)
        self.is_templated = api_key == HEARTBEAT or self._variable_field is not None
        self.has_recurring_replies = api_key in (HEARTBEAT, OFFSET_COMMIT)
        self._version = api_version
        self._codec = codec(api_key, api_version)
        per_member_field: str | None = getattr(self.module, "PER_MEMBER_FIELD", None)
        self._response_template = ResponseTemplate(self._codec, per_member_field) if per_member_field else None
        self._to_response: Callable[[Any, int], Any] | None = getattr(self.module, "to_response", None)

    def read(self, frame: bytes) -> tuple[RequestHeader, Any]:
        """Decodes a frame into its header and its entity. Raises CorruptMessage."""
        header, position = read_request_header(frame, self._codec.request_header_version)
        return header, self._codec.read_request(frame, position)

    def variable_fields(self, frame: bytes) -> list[FieldSpan]:
        """Returns the positions of the fields in a decoded frame that differ when its client repeats the request."""
        if self._variable_field is None:
            return []
        _, position = read_request_header(frame, self._codec.request_header_version)
        return self._codec.find_in_request(self._variable_field)(frame, position)

    def encode_response(self, correlation_id: int, reply: Any) -> list[bytes]:
        """Encodes a reply into the pieces of a frame."""
        response = self._to_response(reply, self._version) if self._to_response else reply
        if self._response_template is not None:
            return self._response_template.frames((correlation_id,), (response,))
        return self._codec.response_pieces(correlation_id, response)

    def encode_responses(self, correlation_ids: Sequence[int], replies: Sequence[Any]) -> list[bytes]:
        """Encodes the replies to many members of a group into frames."""
        assert self._response_template is not None, "only joins and syncs are answered so"
        to_response, version = self._to_response, self._version
        if to_response is not None:
            replies = [to_response(reply, version) for reply in replies]
        return self._response_template.frames(correlation_ids, replies)


@cache
def route_for(api_key: int, api_version: int) -> Route:
    """Returns the route of a served version."""
    return Route(api_key, api_version)


class RequestTemplate:
    """A request that a client may repeat, differing in its correlation id and some fields only."""

    __slots__ = ("_rest", "_size", "_with_fields", "fixed_parts", "prevalidated", "request", "route", "unpack")

    def __init__(self, frame: bytes, route: Route, request: Any) -> None:
        self.route = route
        self.request = request
        self.prevalidated: PrevalidatedRebalanceRequest | None = None  # the prevalidated form of a join or sync
        fields = tuple(route.variable_fields(frame))
        self._rest = None if fields else frame[REST]
        self._size = len(frame)
        self.unpack = _unpacker(len(frame), fields)
        self.fixed_parts = self.unpack(frame)[FIXED]
        self._with_fields = route.with_fields

    def match(self, frame: bytes) -> tuple[Any, ...] | None:
        """Returns the variable fields of a frame of the same API and version, or None if it does not match."""
        if self._rest is not None:
            return () if frame[REST] == self._rest else None
        if len(frame) != self._size:
            return None
        parts = self.unpack(frame)
        return parts[VARIABLE] if parts[FIXED] == self.fixed_parts else None

    def fill(self, values: tuple[Any, ...]) -> Any:
        """Returns the request with these variable fields, or None if it cannot be derived."""
        return self._with_fields(self.request, values) if self._with_fields else self.request

    def parse(self, frame: bytes) -> Any:
        """Returns the request of a frame of the same API and version, or None if it does not match or cannot be
        derived."""
        values = self.match(frame)
        return None if values is None else self.fill(values)


class ClientSession:
    """The client of one connection: its principal, its host as Kafka shows it, and its templates and cached frames.

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
        """The authenticated principal, or an empty text."""
        return "" if self.principal == ANONYMOUS else self.principal

    def saw_pipelining(self) -> None:
        """Clears the cache, because requests that are pipelined are best decided together."""
        if self.consecutive_singles:
            self.consecutive_singles = 0
            self.cached_frames.clear()

    def add_template(self, frame: bytes, route: Route, request: Any) -> None:
        """Makes the request a template. A client that never repeats itself pays for few attempts only."""
        misses = self._misses[route] = self._misses.get(route, 0) + 1
        is_attempted = misses <= _FIRST_ATTEMPTS or misses % _MISSES_PER_ATTEMPT == 1
        if is_attempted and len(frame) <= _MAX_CACHED_BYTES:
            self.templates[frame[START]] = RequestTemplate(frame, route, request)

    def encode_response(self, frame: bytes, route: Route, reply: object) -> list[bytes]:
        """Encodes the reply to a frame, or reuses the bytes if the reply is the identical object as before."""
        known = self._encoded_responses.get(route)
        if known is not None and known[0] is reply:
            _, start, rest = known
            return [start + frame[CORRELATION] + rest]
        whole = b"".join(route.encode_response(0, reply))
        start, rest = whole[START], whole[REST]
        if len(whole) <= _MAX_CACHED_BYTES:
            self._encoded_responses[route] = (reply, start, rest)
        return [start + frame[CORRELATION] + rest]


@lru_cache(_MAX_CACHED_UNPACKERS)
def _unpacker(size: int, fields: tuple[FieldSpan, ...]) -> Callable[..., tuple[Any, ...]]:
    """Returns the function that unpacks frames of a size into fixed parts and variable fields, alternating."""
    forms, end = [f">{REST.start}x"], REST.start
    for position, form in fields:
        forms.append(f"{position - end}s{form}")
        end = position + calcsize(f">{form}")
    return Struct("".join([*forms, f"{size - end}s"])).unpack_from
