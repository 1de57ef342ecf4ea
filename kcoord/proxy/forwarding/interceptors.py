"""What stands between a client and a broker may ask and say: the hooks of forwarding.

A connection of a client is worked on in order. Most frames pass as they come, seen by nobody. An interceptor names the
APIs whose requests it wants to see whole; each of them becomes one of these:

    PASS      it goes to the broker, unless an interceptor behind this one says otherwise
    Instead   the broker gets another frame in its place, and what it answers may be amended before the client gets it
    Answer    the broker never sees it: this is the answer, sent when all requests before it have theirs
    Take      the broker never sees it, and the answer comes later. `begin` is called when all requests before it have
              their answers, as a broker works on one request at a time; nothing more is read of the client's requests
              until `ClientInfo.answer`

Hooks are called in the event loop and must not wait. They may raise BadBody for a request that cannot be read: the
client is hung up on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable


class Request(NamedTuple):  # of all that is frozen the quickest to make, and one is made for each heartbeat
    """A client's request, whole: `frame` is without its length, and begins with the header."""

    frame: bytes
    api_key: int
    api_version: int
    correlation_id: int


class Pass:
    """Not for me."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PASS"


PASS: Final = Pass()


Amended = Callable[[bytes], bytes]


class Instead(NamedTuple):
    """Frames without their lengths. What is forwarded has the API, version and correlation id of the request.

    Interceptors behind this one are asked about `frame`; `amended`, where there is one, makes of the broker's response
    what the client gets, before addresses in it are replaced, and after `Interceptor.response` has seen it. Such a
    response waits until it is whole, whatever becomes of others of its API.
    """

    frame: bytes
    amended: Amended | None = None


class Answer(NamedTuple):
    """The pieces of a frame with its length, as Codec.response_pieces makes them; none if nothing is to be said."""

    pieces: list[bytes]


class Take(NamedTuple):
    begin: Callable[[], None]


Decision = Pass | Instead | Answer | Take


class ClientInfo(Protocol):
    """A client's connection, as hooks see it: one object for as long as it lives, so it can be a key."""

    @property
    def peer(self) -> str:
        """host:port of the client."""

    @property
    def host(self) -> str: ...

    @property
    def node_id(self) -> int | None:
        """The broker that the client means; None: any, as it came to the bootstrap port."""

    @property
    def principal(self) -> str | None:
        """Who it is, where that is known here: `User:alice`."""

    @property
    def client_id(self) -> str:
        """Of the last request that was seen whole."""

    def answer(self, pieces: list[bytes]) -> None:
        """The answer to what was taken. A client that has gone is not told anything."""

    def hang_up(self, reason: str) -> None:
        """Close the connection; the reason is one line of the log."""


Screen = Callable[[bytes], bool]
"""Whether a request, a frame with or without its length, has to be shown to the interceptor: False if it would pass."""


@runtime_checkable
class Screening(Protocol):
    """An Interceptor that can tell at a glance, as of a Fetch, that most requests are none of its business."""

    def screen(self, api_key: int) -> Screen | None:
        """None: all requests of this API have to be shown to it."""


class Interceptor(Protocol):
    @property
    def interests(self) -> frozenset[int]:
        """API keys whose requests it wants to see whole."""

    @property
    def watched(self) -> frozenset[int]:
        """API keys whose responses it wants to see whole; and so their requests, which `response` is told."""

    @property
    def limits(self) -> Mapping[int, range]:
        """Which versions clients are told of at most, by API key; an empty range hides the API.

        What interceptors see whole is cut to the versions that kio knows without that being said here.
        """

    def request(self, client: ClientInfo, request: Request) -> Decision: ...

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """What the broker answered, or who took the request; without its length, before addresses are replaced."""

    def gone(self, client: ClientInfo) -> None:
        """The client hung up, or was hung up on. Called once, if it was ever asked about a request of it or not."""


class Meter(Protocol):
    """What is counted, on the hottest path: implementations add up and do nothing else."""

    def opened(self, client: ClientInfo) -> None: ...

    def closed(self, client: ClientInfo) -> None: ...

    def answered(self, api_key: int, api_version: int, seconds: float) -> None:
        """The broker, or who took the request, has begun to answer; so long after the request began to arrive.

        A request that asks for no answer is counted when it has been sent, with 0 seconds.
        """

    def refused(self, api_key: int, api_version: int) -> None:
        """An interceptor answered in the broker's place, at once."""

    def sent(self, to_upstream: int, to_client: int) -> None:
        """So many bytes were passed on; added up and told now and then."""

    def not_connected(self, node_id: int | None) -> None:
        """An upstream broker could not be reached, or did not let us in."""

    def broken(self, reason: str) -> None:
        """A client was hung up on for what it sent, or an upstream for what it answered."""


Interceptors = Sequence[Interceptor]
