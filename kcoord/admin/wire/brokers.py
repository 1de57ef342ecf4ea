"""Connections to the brokers of a cluster: one to each, used in parallel, each API in the newest version of both sides.

A connection that broke is opened again at the next request. Requests to many brokers run in as many threads, each with
a connection of its own: the work is waiting.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kcoord.admin.cluster_client import Refused
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Node
from kcoord.admin.waiting import Waits
from kcoord.admin.wire.apis import API_VERSIONS, METADATA, Api
from kcoord.client.client import Client
from kcoord.client.client_codec import schema_codec
from kcoord.client.connect_errors import LoginFailed, NoAnswer, Unreachable, format_address
from kcoord.errors import ErrorCode
from kcoord.protocol.frames import BadFrame, CorruptMessage

SILENT_FOR: Final = 15.0  # seconds without requests to a broker that did not answer in time
IN_FLIGHT = 4  # requests in flight on one connection: a broker that finishes one already has the next


class SilentBroker(NoAnswer):
    """A broker did not answer while connecting, so that no request was sent to it."""


class Unsupported(Refused):
    """A broker has no version of an API that we support."""


class Question(NamedTuple):
    """A request to one broker: field values as `Client.ask` takes them, those of every version together."""

    node: int
    api: Api
    values: Mapping[str, Any]


class Answer(NamedTuple):
    """A response and its version."""

    version: int
    response: Any


Outcome = Answer | ConnectionError | Unsupported


_WHO_IS_THERE: Final = Question(-1, METADATA, {"topics": []})


class Brokers:
    """The brokers of one cluster, discovered through the bootstrap servers of the connection.

    `bootstrap_extra` is sent to the first of them together with the first Metadata request, each in the oldest version
    that we support; it has no responses if that broker does not support them.

    An endpoint that did not answer in time gets no requests for a while: a command has several requests to each broker,
    and would wait for each of them.
    """

    def __init__(self, connection: Connection, *, early: Sequence[Question] = (), waits: Waits | None = None) -> None:
        self.waits = waits or Waits()
        self._connection = connection
        self._silent: dict[str, tuple[float, SilentBroker]] = {}  # by endpoint: until when, and the error to raise
        self._first = (_WHO_IS_THERE, *early)
        self.early: Sequence[Answer] = ()
        self._links: dict[int, _Link] = {}
        self.cluster_id: str | None = None
        self.nodes: dict[int, Node] = {}
        self._meet()

    def ask_any(self, api: Api, **values: Any) -> Answer:
        """Sends a request to one broker, or to the next if that one cannot be reached."""
        failure: ConnectionError | None = None
        for node in sorted(self.nodes, key=lambda node: not self._is_linked(node)):
            (outcome,) = self._ask_pipelined(node, [Question(node, api, values)])
            if isinstance(outcome, Answer):
                return outcome
            if not isinstance(outcome, ConnectionError):
                raise outcome
            failure = outcome
        raise Unreachable(f"no broker of the cluster can be reached: {failure or 'it names none'}") from failure

    def ask_each(self, questions: Sequence[Question]) -> list[Outcome]:
        """Sends all requests, to the brokers in parallel; the outcomes are in the order of the requests."""
        by_node: dict[int, list[int]] = defaultdict(list)
        for place, question in enumerate(questions):
            by_node[question.node].append(place)
        outcomes: list[Outcome] = [Unreachable("not asked")] * len(questions)

        def ask_one(node: int) -> None:
            places = by_node[node]
            asked = [questions[place] for place in places]
            for place, outcome in zip(places, self._ask_pipelined(node, asked), strict=True):
                outcomes[place] = outcome

        self._side_by_side(list(by_node), ask_one)
        return outcomes

    def versions(self, nodes: Collection[int], api: Api) -> dict[int, int]:
        """Returns the version that a request to each broker would have. Brokers that cannot be reached or do not
        support the API are missing."""
        self._side_by_side(list(nodes), self._open)
        found = {node: self._links[node].version_of(api) for node in nodes if self._is_linked(node)}
        return {node: version for node, version in found.items() if version is not None}

    @property
    def only_node(self) -> int | None:
        """The broker of a cluster of one; None if there are more."""
        return next(iter(self.nodes)) if len(self.nodes) == 1 else None

    def close(self) -> None:
        while self._links:
            self._links.popitem()[1].close()

    def refresh(self) -> None:
        """Fetches the list of brokers again."""
        self.remember(self.ask_any(METADATA, topics=[]).response)

    def remember(self, metadata: Any) -> None:
        """Takes over the brokers of a Metadata response. One without brokers is ignored: a broker that has just started
        knows of none yet."""
        if not metadata.brokers:
            return
        self.cluster_id = metadata.cluster_id
        self.nodes = {
            broker.node_id: Node(id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in metadata.brokers
        }
        for gone in [node for node in self._links if node not in self.nodes]:
            self._links.pop(gone).close()

    def _meet(self) -> None:
        failures = []
        for place in self._connection.bootstrap:
            try:
                link, (metadata, *early) = self._who_is_there(place)
            except LoginFailed:
                raise  # the other brokers would refuse it too, and repeated wrong passwords may lock an account
            except ConnectionError as error:
                failures.append(error)
                continue
            self.early = early
            self.remember(metadata.response)
            self._keep_or_close(link)
            return
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable("no broker can be reached: " + "; ".join(map(str, failures)))

    def _who_is_there(self, place: str) -> "tuple[_Link, Sequence[Answer]]":
        link = self._connected(place, first=self._first)
        try:
            return link, link.first or [link.ask(METADATA, _WHO_IS_THERE.values)]
        except BaseException:
            link.close()
            raise

    def _keep_or_close(self, link: "_Link") -> None:
        """Reuses the bootstrap connection for its broker, if that advertises the same endpoint."""
        for node in self.nodes.values():
            if format_address(node.host, node.port) == link.address:
                self._links[node.id] = link
                return
        link.close()

    def _is_linked(self, node: int) -> bool:
        return node in self._links and not self._links[node].is_broken

    def _link(self, node: int) -> "_Link":
        if node not in self.nodes:
            raise Unreachable(f"broker {node} is not part of the cluster now")
        place = format_address(self.nodes[node].host, self.nodes[node].port)
        link = self._links.get(node)
        if link and not link.is_broken and link.address == place:
            return link
        if link:
            link.close()
        self._links[node] = self._connected(place)
        return self._links[node]

    def _open(self, node: int) -> None:
        with suppress(ConnectionError):
            self._link(node)

    def _ask_pipelined(self, node: int, questions: Sequence[Question]) -> list[Outcome]:
        try:
            link = self._link(node)
            with self.waits.on(f"broker {node} at {link.address}"):
                outcomes = link.ask_all(questions)
        except ConnectionError as error:
            return [error] * len(questions)
        return outcomes

    def _connected(self, place: str, *, first: Sequence[Question] = ()) -> "_Link":
        """Opens a connection to an endpoint, unless that failed to answer a moment ago."""
        until, why = self._silent.get(place, (0.0, None))
        if why is not None and time.monotonic() < until:
            raise why
        try:
            with self.waits.on(place):
                return _Link(self._connection, place, first=first)
        except NoAnswer as error:
            silent = self._silent_broker(error)
            self._silent[place] = (time.monotonic() + SILENT_FOR, silent)
            raise silent from None

    def _silent_broker(self, error: NoAnswer) -> "SilentBroker":
        setup_timeout, request_timeout = self._connection.setup_timeout, self._connection.request_timeout
        hint = "; to wait longer: -X socket.connection.setup.timeout.ms=…" if setup_timeout < request_timeout else ""
        return SilentBroker(f"{error}{hint}")

    def _side_by_side(self, nodes: Sequence[int], do: Callable[[int], None]) -> None:
        try:
            _side_by_side(nodes, do)
        except BaseException:
            self.close()  # responses still in flight would be taken for those to the next requests
            raise


class _Link:
    """One connection, and the API versions of its broker.

    `first_requests` are sent in the oldest version that we support, without waiting for the ApiVersions response, so
    that all responses come together. A broker that does not support such a version closes the connection, and there are
    no responses.
    """

    def __init__(self, connection: Connection, address: str, *, first: Sequence[Question] = ()) -> None:
        self.address = address
        self.is_broken = False
        self.first: Sequence[Answer] = ()
        self._connection = connection
        self._client = self._connect()
        try:
            self._versions = self._ask_versions(first)
            if all(self._speaks(each.api, each.api.oldest) for each in first):
                self.first = [self._receive(each.api, each.api.oldest) for each in first]
            else:
                self.close()
                self._client = self._connect()
        except (CorruptMessage, BadFrame) as error:
            self.close()
            raise self._unreadable(error) from None
        except BaseException:
            self.close()
            raise

    def version_of(self, api: Api) -> int | None:
        _, newest = self._versions.get(api.key, (0, -1))
        version = min(newest, api.newest)
        return version if version >= api.oldest and self._speaks(api, version) else None

    def _speaks(self, api: Api, version: int) -> bool:
        oldest, newest = self._versions.get(api.key, (0, -1))
        return oldest <= version <= newest

    def ask(self, api: Api, values: Mapping[str, Any]) -> Answer:
        (outcome,) = self.ask_all([Question(-1, api, values)])
        if isinstance(outcome, Answer):
            return outcome
        raise outcome

    def ask_all(self, questions: Sequence[Question]) -> list[Outcome]:
        """Sends requests with several in flight at a time; if the connection breaks, those without a response fail."""
        versions = [self.version_of(question.api) for question in questions]
        spoken = [place for place, version in enumerate(versions) if version is not None]
        outcomes: list[Outcome] = [self._unsupported(question.api) for question in questions]
        sent = 0
        try:
            for done, place in enumerate(spoken):
                while sent < len(spoken) and sent < done + IN_FLIGHT:
                    self._send(questions[spoken[sent]], versions[spoken[sent]])
                    sent += 1
                outcomes[place] = self._receive(questions[place].api, versions[place])
        except (OSError, CorruptMessage, BadFrame) as error:
            self._break()
            failure = error if isinstance(error, ConnectionError) else self._unreadable(error)
            for place in spoken:
                if not isinstance(outcomes[place], Answer):
                    outcomes[place] = failure
        except BaseException:
            self._break()  # responses still in flight would be taken for those to the next requests
            raise
        return outcomes

    def close(self) -> None:
        self._client.close()

    def _break(self) -> None:
        self.is_broken = True
        self.close()

    def _send(self, question: Question, version: int | None) -> None:
        assert version is not None
        self._client.send(question.api.key, version, **question.values)

    def _receive(self, api: Api, version: int | None) -> Answer:
        assert version is not None
        return Answer(version, self._client.receive(api.key, version))

    def _unsupported(self, api: Api) -> Unsupported:
        return Unsupported(f"{self.address} has no version of {api.name} that kcoord knows")

    def _unreadable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self.address} does not answer as a Kafka broker does: {error}")

    def _connect(self) -> Client:
        host, _, port = self.address.rpartition(":")
        return Client(
            host.strip("[]"),
            int(port),
            security=self._connection.security,
            client_id=self._connection.client_id,
            timeout=min(self._connection.setup_timeout, self._connection.request_timeout),
            codec=schema_codec,
        )

    def _ask_versions(self, first: Sequence[Question]) -> dict[int, tuple[int, int]]:
        self._client.send(API_VERSIONS.key, API_VERSIONS.newest)
        for each in first:
            self._send(each, each.api.oldest)
        response = self._client.receive(API_VERSIONS.key, API_VERSIONS.newest)
        self._client.set_response_timeout(self._connection.request_timeout)
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def _side_by_side(nodes: Sequence[int], do: Callable[[int], None]) -> None:
    """Runs a function for each broker in a thread of its own, for the last one in this thread. Raises the first failure
    when all have finished."""
    failures: list[Exception] = []

    def do_and_tell(node: int) -> None:
        try:
            do(node)
        except Exception as error:  # a thread that ends with an exception only prints it
            failures.append(error)

    threads = [threading.Thread(target=do_and_tell, args=(node,), daemon=True) for node in nodes[:-1]]
    for thread in threads:
        thread.start()
    for node in nodes[-1:]:
        do_and_tell(node)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def refusing(outcome: ConnectionError | Unsupported) -> tuple[ErrorCode, str]:
    """Maps a failed request to an error of the protocol and a message."""
    if isinstance(outcome, Unsupported):
        return ErrorCode.unsupported_version, str(outcome)
    if isinstance(outcome, SilentBroker):
        return ErrorCode.broker_not_available, str(outcome)
    if isinstance(outcome, NoAnswer):
        return ErrorCode.request_timed_out, str(outcome)
    return ErrorCode.network_exception, str(outcome)


def in_chunks(items: Collection[Any], size: int) -> list[list[Any]]:
    ordered = list(items)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
