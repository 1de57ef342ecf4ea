"""A client's connection to a node: it preserves order, has latency, and may break.

Like the real connection, it answers in the order of requests: requests behind a parked one wait.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kcoord.groups.replies import Reply
from tests.simulation.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A request, its sender, and the callback for the reply."""

    who: str
    decide: Callable[..., Any]
    request: Any
    then: Callable[[Any], None]


class Node(Protocol):
    def decide(self, link: "Link", call: Call) -> Reply | None: ...


class Link:
    def __init__(self, environment: Environment, node: Node, node_id: int, on_closed: Callable[["Link"], None]) -> None:
        self.node_id = node_id
        self.is_open = True
        self.prevalidated: dict[
            object, tuple[Any, Any]
        ] = {}  # used by the node: prevalidated requests, with their replies
        self._environment = environment
        self._node = node
        self._on_closed = on_closed
        self._is_served = True  # the node still listens to it
        self._parked: Call | None = None
        self._behind: deque[Call] = deque()
        self._arrives_at = 0.0
        self._answer_arrives_at = 0.0

    # The client's end.

    def send(self, call: Call) -> None:
        assert self.is_open
        self._arrives_at = max(self._arrives_at, self._environment.now + self._travel_time())
        self._environment.later(self._arrives_at - self._environment.now, lambda: self._arrive(call))

    def drop(self) -> None:
        """Closes the link from the client's side, or by the network. Sent requests may arrive all the same."""
        if not self.is_open:
            return
        self.is_open = False
        if self._environment.rng.random() < 0.5:
            self._is_served = False
        else:
            self._environment.later(self._travel_time(), self.forget)
        self._environment.later(self._travel_time(), lambda: self._on_closed(self))

    # The node's end.

    def forget(self) -> None:
        """The node notices that the client hung up."""
        self._is_served = False
        self._behind.clear()

    def break_off(self) -> None:
        """The node hangs up; sent replies may arrive before the client notices."""
        self.forget()
        self._environment.later(self._travel_time(), self.drop)

    def answer(self, call: Call, reply: Reply) -> None:
        """Sends the reply to the parked request and decides the next requests."""
        assert self._parked is call
        self._parked = None
        self._send_back(call, reply)
        while self._behind and self._parked is None and self._is_served:
            self._decide(self._behind.popleft())

    def _arrive(self, call: Call) -> None:
        if not self._is_served:
            return
        if self._parked is not None:
            self._behind.append(call)
        else:
            self._decide(call)

    def _decide(self, call: Call) -> None:
        self._parked = call
        reply = self._node.decide(self, call)
        if reply is not None:
            self._parked = None
            self._send_back(call, reply)

    def _send_back(self, call: Call, reply: Reply) -> None:
        self._answer_arrives_at = max(self._answer_arrives_at, self._environment.now + self._travel_time())
        self._environment.later(self._answer_arrives_at - self._environment.now, lambda: self._deliver(call, reply))

    def _deliver(self, call: Call, reply: Reply) -> None:
        if self.is_open:
            call.then(reply)

    def _travel_time(self) -> float:
        return self._environment.rng.expovariate(50) + (1.0 if self._environment.goes_wrong(0.01) else 0.0)
