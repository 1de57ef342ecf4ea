"""The interceptor API: hooks that may change, answer or observe requests between a client and a broker.

The requests of one connection are processed in order. Most frames are forwarded as they arrive and no interceptor sees
them. An interceptor names the APIs whose requests it wants to see whole, and decides on each of them:

    PASS      The broker gets the request, unless a later interceptor decides otherwise.
    Replace   The broker gets another frame instead, and its response may be transformed before the client gets it.
    Answer    The broker never sees the request. The client gets this answer after those to all earlier requests.
    Handle    The broker never sees the request, and the answer comes later. `begin` is called once all earlier requests
              have their answers, since a broker too works on one request of a connection at a time. No further request
              of the client is processed until `ClientInfo.answer` is called.

Hooks are called in the event loop and must not block. A hook may raise CorruptMessage for a request that it cannot
read: the client is then hung up on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable


class Request(NamedTuple):  # the quickest frozen type to make: one is made per heartbeat
    """One whole request frame of a client. `frame` begins with the request header and has no length prefix."""

    frame: bytes
    api_key: int
    api_version: int
    correlation_id: int


class Pass:
    """An interceptor's decision to leave a request as it is: it is forwarded."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PASS"


PASS: Final = Pass()


ResponseTransform = Callable[[bytes], bytes]


class Replace(NamedTuple):
    """An interceptor's decision to forward another frame, with the request's API, version and correlation id.

    Neither `frame` nor what `transform` takes and returns has a length prefix. Later interceptors are asked about
    `frame`. `transform` turns the broker's response into what the client gets; it runs after `Interceptor.response` and
    before addresses are replaced. A response to be transformed is buffered until it is whole, even if other responses
    of its API are streamed.
    """

    frame: bytes
    transform: ResponseTransform | None = None


class Answer(NamedTuple):
    """An interceptor's decision to answer a request at once, without a broker. `pieces` make up a response frame with
    its length, as from Codec.response_pieces; they are empty for a request that gets no response.
    """

    pieces: list[bytes]


class Handle(NamedTuple):
    """An interceptor's decision to answer a request itself, later, by `ClientInfo.answer`. `begin` is called when all
    earlier requests are answered.
    """

    begin: Callable[[], None]


Decision = Pass | Replace | Answer | Handle


class ClientInfo(Protocol):
    """A client's connection as interceptors see it. It is the same object throughout, so it can be a dictionary key."""

    @property
    def peer(self) -> str:
        """The client's host:port."""

    @property
    def host(self) -> str:
        """The client's host."""

    @property
    def node_id(self) -> int | None:
        """The broker that the client has connected to; None for the bootstrap port, which means any."""

    @property
    def principal(self) -> str | None:
        """The client's principal, such as `User:alice`, if it logged in at the proxy."""

    @property
    def client_id(self) -> str:
        """Kafka's client.id in the client's last request that was seen whole."""

    def answer(self, pieces: list[bytes]) -> None:
        """Sends the response, as pieces of a frame, to the request that is being handled; does nothing if the client
        has disconnected.
        """

    def hang_up(self, reason: str) -> None:
        """Closes the client's connection and logs the reason in one line."""


Prefilter = Callable[[bytes], bool]
"""Decides from a request's frame, with or without its length, whether the interceptor must see it; False: it passes."""


@runtime_checkable
class HasPrefilter(Protocol):
    """An Interceptor with a prefilter, a cheap test by which it excludes most requests of an API, such as Fetch."""

    def prefilter(self, api_key: int) -> Prefilter | None:
        """Returns the prefilter of this API, which tells from a frame whether the interceptor must see the request;
        None if it must see all of them.
        """


class Interceptor(Protocol):
    """A plug-in of the proxy that changes, answers or observes the requests of the APIs that it names."""

    @property
    def interests(self) -> frozenset[int]:
        """The keys of the APIs whose requests it intercepts: `request` gets each one whole."""

    @property
    def observed(self) -> frozenset[int]:
        """The keys of the APIs whose responses it observes: `response` gets each one whole, with its request."""

    @property
    def limits(self) -> Mapping[int, range]:
        """The versions that clients may use, by API key; an empty range hides the API.

        APIs that interceptors see whole are limited to the versions that kio knows in any case.
        """

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Decides what becomes of a client's request: Pass, Replace, Answer or Handle. Raises CorruptMessage for a
        malformed one.
        """

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Observes a response of the broker, or of the interceptor that handled the request. The frame has no length
        prefix, and its addresses are not yet replaced.
        """

    def on_closed(self, client: ClientInfo) -> None:
        """Called once when the client's connection has closed, even if this interceptor never saw a request of it."""


class MetricsSink(Protocol):
    """Receives what the proxy counts, on the hottest path: implementations add up and do nothing else."""

    def opened(self, client: ClientInfo) -> None:
        """Counts a client that was admitted."""

    def closed(self, client: ClientInfo) -> None:
        """Counts a client whose connection has closed."""

    def answered(self, api_key: int, api_version: int, seconds: float) -> None:
        """Counts a request that a broker or a handling interceptor began to answer, `seconds` after it began to arrive.

        A request that wants no response (acks=0) is counted with 0 seconds when it has been forwarded.
        """

    def refused(self, api_key: int, api_version: int) -> None:
        """Counts a request that an interceptor answered at once, such as a guard that refuses it."""

    def sent(self, to_upstream: int, to_client: int) -> None:
        """Adds numbers of forwarded bytes, which are reported in sums now and then."""

    def not_connected(self, node_id: int | None) -> None:
        """Counts a failed attempt to connect to a broker, which could not be reached or refused the proxy."""

    def hung_up(self, reason: str) -> None:
        """Counts a client that was hung up on for what it sent, or for what its broker answered."""


Interceptors = Sequence[Interceptor]
