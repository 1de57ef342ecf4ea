"""The requests of a client that are in flight. Their answers leave in the order of the requests. Pure.

Most answers come from the broker, which answers in order. A request that is answered here is *local*: its answer has to
wait until the broker has answered all requests before it, and the broker's answers to later requests wait for it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kcoord.proxy.forwarding.interceptors import Handle, Request, ResponseTransform
from kcoord.proxy.forwarding.routes import Route

MAX_IN_FLIGHT: Final = 10_000
"""How many requests of a client may wait for their answers before it is not read from."""


class PendingRequest(NamedTuple):
    """A request whose answer has not been sent completely."""

    correlation_id: int
    route: Route
    started: float
    request: Request | None = None
    """The request, if it was seen whole."""
    is_local: bool = False
    """Whether it is answered here, after all earlier requests: by `pieces`, or by the interceptor that handles it."""
    pieces: Sequence[bytes] = ()
    handle: Handle | None = None
    transform: ResponseTransform | None = None
    """Transforms the answer before the client gets it; the route is then one `with_whole_answer`."""


class InFlightRequests(deque[PendingRequest]):
    """The requests in flight, oldest first. It is a deque itself, since every request passes through it.

    `needs_flush` is whether an answer of the broker may be followed by something to do: a local request may be due, or
    the client may be read from again.
    """

    __slots__ = ("_is_over_limit", "_local_count", "needs_flush")

    def __init__(self) -> None:
        super().__init__()
        self.needs_flush = False
        self._local_count = 0
        self._is_over_limit = False

    @property
    def has_local(self) -> bool:
        """Whether a local request has not been answered, or its handling has not begun."""
        return self._local_count > 0

    def append_local(self, request: PendingRequest) -> bool:
        """Adds a local request; returns whether it is due at once."""
        self.append(request)
        self._local_count += 1
        self.needs_flush = True
        return len(self) == 1

    def take_local(self) -> PendingRequest | None:
        """Takes the next local request; None if it is the broker's turn, or nobody's.

        A request to be handled stays in flight until its answer comes; it is taken only once.
        """
        if not self or not self[0].is_local:
            return None
        self._local_count -= 1
        head = self[0]
        if head.handle is None:
            return self.popleft()
        self[0] = head._replace(handle=None, is_local=False)
        return head

    def check_limit(self) -> bool:
        """Returns whether there are too many; `finish_flush` then returns when there are few enough again."""
        if len(self) <= MAX_IN_FLIGHT:
            return False
        self._is_over_limit = self.needs_flush = True
        return True

    def finish_flush(self) -> bool:
        """Updates `needs_flush`; returns whether there were too many requests, and now there are few enough."""
        is_over_limit = self._is_over_limit and len(self) >= MAX_IN_FLIGHT
        has_drained = self._is_over_limit and not is_over_limit
        self._is_over_limit = is_over_limit
        self.needs_flush = self._local_count > 0 or is_over_limit
        return has_drained
