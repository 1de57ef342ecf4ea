"""Request templates: a frame that differs from an earlier one in a few fields only need not be decoded.

Theory of operation. A member repeats its heartbeat and commits to the same partitions: such a request differs from the
one before in the correlation id and, for a commit, in the offsets. In a rebalance it joins with other subscriptions,
often of the same length, and syncs in another generation. Numbers have a fixed size and a subscription is preceded by
its length, so the positions of these fields follow from all the other bytes. A frame whose other bytes equal those of
an earlier frame need not be decoded: one call of struct unpacks it into the fixed parts and the variable fields.

    frame   0008 0009 00000f21 ...group, member, topic, partition...  00000000000004d2 ...
            route     any      fixed                                  variable         fixed
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, Final

from kcoord.protocol.validate import FieldSpan

if TYPE_CHECKING:
    from kcoord.groups.classic.prevalidated import PrevalidatedRebalanceRequest
    from kcoord.server.dispatch.routes import Route

START: Final = slice(0, 4)  # API key and version of a request
CORRELATION: Final = slice(4, 8)
REST: Final = slice(8, None)

FIXED: Final = slice(0, None, 2)  # of an unpacked frame
VARIABLE: Final = slice(1, None, 2)

_MAX_CACHED_UNPACKERS: Final = 100  # members of a group mostly share one


class RequestTemplate:
    """A decoded request that its client may repeat, with another correlation id and other values of some fields: such a
    frame need not be decoded again.
    """

    __slots__ = ("_rest", "_size", "_with_fields", "fixed_parts", "prevalidated", "request", "route", "unpack")

    def __init__(self, frame: bytes, route: "Route", request: Any) -> None:
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
        """Returns the values of the variable fields in a frame of the same API and version, or None if another byte
        differs.
        """
        if self._rest is not None:
            return () if frame[REST] == self._rest else None
        if len(frame) != self._size:
            return None
        parts = self.unpack(frame)
        return parts[VARIABLE] if parts[FIXED] == self.fixed_parts else None

    def fill(self, values: tuple[Any, ...]) -> Any:
        """Returns the template's request with these values of the variable fields, or None if it cannot be derived."""
        return self._with_fields(self.request, values) if self._with_fields else self.request

    def parse(self, frame: bytes) -> Any:
        """Returns the request of a frame of the same API and version without decoding it, or None if it does not match
        the template.
        """
        values = self.match(frame)
        return None if values is None else self.fill(values)


@lru_cache(_MAX_CACHED_UNPACKERS)
def _unpacker(size: int, fields: tuple[FieldSpan, ...]) -> Callable[..., tuple[Any, ...]]:
    """Returns the function that unpacks frames of a size into fixed parts and variable fields, alternating."""
    forms, end = [f">{REST.start}x"], REST.start
    for position, form in fields:
        forms.append(f"{position - end}s{form}")
        end = position + calcsize(f">{form}")
    return Struct("".join([*forms, f"{size - end}s"])).unpack_from
