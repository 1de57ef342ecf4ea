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
from kcoord.client.connect_errors import LoginFailed, NoAnswer, Unreachable
from kcoord.endpoints import format_endpoint
from kcoord.errors import ErrorCode
from kcoord.exceptions import CorruptData

SILENT_FOR: Final = 15.0  # seconds without requests to a broker that did not answer in time
IN_FLIGHT = 4  # requests in flight on one connection: a broker that finishes one already has the next


class SilentBroker(NoAnswer):
    """An error: a broker did not answer while connecting, so that no request was sent to it."""


class Unsupported(Refused):
    """An error: a broker has no version of an API that we support."""


class ApiRequest(NamedTuple):
    """A request to one broker, by its node id: field values as `Client.ask` takes them, those of every version
    together."""

    node: int
    api: Api
    values: Mapping[str, Any]


class ApiResponse(NamedTuple):
    """A broker's response, as kio's entity or an object with the same fields, and its API version."""

    version: int
    response: Any


Outcome = ApiResponse | ConnectionError | Unsupported


_METADATA_REQUEST: Final = ApiRequest(-1, METADATA, {"topics": []})


class Brokers:
    """Connections to all brokers of one cluster, discovered through the bootstrap servers.

    `bootstrap_extra` is sent to the first of them together with the first Metadata request, each in the oldest version
    that we support; it has no responses if that broker does not support them.

    An endpoint that did not answer in time gets no requests for a while: a command has several requests to each broker,
    and would wait for each of them.
    """

    def __init__(
        self, connection: Connection, *, bootstrap_extra: Sequence[ApiRequest] = (), waits: Waits | None = None
    ) -> None:
        self.waits = waits or Waits()
        self._connection = connection
        self._silent: dict[str, tuple[float, SilentBroker]] = {}  # by endpoint: until when, and the error to raise
        self._bootstrap_requests = (_METADATA_REQUEST, *bootstrap_extra)
        self.extra_responses: Sequence[ApiResponse] = ()
        self._links: dict[int, _Link] = {}
        self.cluster_id: str | None = None
        self.nodes: dict[int, Node] = {}
        self._bootstrap()

    def ask_any(self, api: Api, **values: Any) -> ApiResponse:
        """Sends a request to one broker, or to the next if that one cannot be reached, and returns the response. Raises
        ConnectionError, Unsupported."""
        failure: ConnectionError | None = None
        for node in sorted(self.nodes, key=lambda node: not self._is_linked(node)):
            (outcome,) = self._ask_pipelined(node, [ApiRequest(node, api, values)])
            if isinstance(outcome, ApiResponse):
                return outcome
            if not isinstance(outcome, ConnectionError):
                raise outcome
            failure = outcome
        raise Unreachable(f"no broker of the cluster can be reached: {failure or 'it names none'}") from failure

    def ask_each(self, requests: Sequence[ApiRequest]) -> list[Outcome]:
        """Sends each request to its broker, to the brokers in parallel; the responses or errors are in the order of the
        requests."""
        by_node: dict[int, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            by_node[request.node].append(index)
        outcomes: list[Outcome] = [Unreachable("not asked")] * len(requests)

        def ask_one(node: int) -> None:
            indexes = by_node[node]
            asked = [requests[index] for index in indexes]
            for index, outcome in zip(indexes, self._ask_pipelined(node, asked), strict=True):
                outcomes[index] = outcome

        self._in_parallel(list(by_node), ask_one)
        return outcomes

    def versions(self, nodes: Collection[int], api: Api) -> dict[int, int]:
        """Returns, by broker, the version of this API that both sides support. Brokers that cannot be reached or do not
        support the API are missing."""
        self._in_parallel(list(nodes), self._open)
        found = {node: self._links[node].version_of(api) for node in nodes if self._is_linked(node)}
        return {node: version for node, version in found.items() if version is not None}

    @property
    def only_node(self) -> int | None:
        """The id of the only broker, if the cluster has just one; otherwise None."""
        return next(iter(self.nodes)) if len(self.nodes) == 1 else None

    def close(self) -> None:
        """Closes all connections."""
        while self._links:
            self._links.popitem()[1].close()

    def refresh(self) -> None:
        """Fetches the list of brokers again, by a Metadata request."""
        self.update_nodes(self.ask_any(METADATA, topics=[]).response)

    def update_nodes(self, metadata: Any) -> None:
        """Replaces the list of brokers by that of a Metadata response. One without brokers is ignored: a broker that
        has just started knows of none yet."""
        if not metadata.brokers:
            return
        self.cluster_id = metadata.cluster_id
        self.nodes = {
            broker.node_id: Node(id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in metadata.brokers
        }
        for gone in [node for node in self._links if node not in self.nodes]:
            self._links.pop(gone).close()

    def _bootstrap(self) -> None:
        failures = []
        for endpoint in self._connection.bootstrap:
            try:
                link, (metadata, *extra) = self._fetch_metadata(endpoint)
            except LoginFailed:
                raise  # the other brokers would refuse it too, and repeated wrong passwords may lock an account
            except ConnectionError as error:
                failures.append(error)
                continue
            self.extra_responses = extra
            self.update_nodes(metadata.response)
            self._reuse_or_close(link)
            return
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable("no broker can be reached: " + "; ".join(map(str, failures)))

    def _fetch_metadata(self, endpoint: str) -> "tuple[_Link, Sequence[ApiResponse]]":
        link = self._connect_to(endpoint, first_requests=self._bootstrap_requests)
        try:
            return link, link.first_responses or [link.ask(METADATA, _METADATA_REQUEST.values)]
        except BaseException:
            link.close()
            raise

    def _reuse_or_close(self, link: "_Link") -> None:
        """Reuses the bootstrap connection for its broker, if that advertises the same endpoint."""
        for node in self.nodes.values():
            if format_endpoint(node.host, node.port) == link.address:
                self._links[node.id] = link
                return
        link.close()

    def _is_linked(self, node: int) -> bool:
        return node in self._links and not self._links[node].is_broken

    def _link(self, node: int) -> "_Link":
        if node not in self.nodes:
            raise Unreachable(f"broker {node} is not part of the cluster now")
        endpoint = format_endpoint(self.nodes[node].host, self.nodes[node].port)
        link = self._links.get(node)
        if link and not link.is_broken and link.address == endpoint:
            return link
        if link:
            link.close()
        self._links[node] = self._connect_to(endpoint)
        return self._links[node]

    def _open(self, node: int) -> None:
        with suppress(ConnectionError):
            self._link(node)

    def _ask_pipelined(self, node: int, requests: Sequence[ApiRequest]) -> list[Outcome]:
        try:
            link = self._link(node)
            with self.waits.on(f"broker {node} at {link.address}"):
                outcomes = link.ask_all(requests)
        except ConnectionError as error:
            return [error] * len(requests)
        return outcomes

    def _connect_to(self, endpoint: str, *, first_requests: Sequence[ApiRequest] = ()) -> "_Link":
        """Opens a connection to an endpoint, unless that failed to answer a moment ago."""
        until, why = self._silent.get(endpoint, (0.0, None))
        if why is not None and time.monotonic() < until:
            raise why
        try:
            with self.waits.on(endpoint):
                return _Link(self._connection, endpoint, first_requests=first_requests)
        except NoAnswer as error:
            silent = self._silent_broker(error)
            self._silent[endpoint] = (time.monotonic() + SILENT_FOR, silent)
            raise silent from None

    def _silent_broker(self, error: NoAnswer) -> "SilentBroker":
        setup_timeout, request_timeout = self._connection.setup_timeout, self._connection.request_timeout
        hint = "; to wait longer: -X socket.connection.setup.timeout.ms=…" if setup_timeout < request_timeout else ""
        return SilentBroker(f"{error}{hint}")

    def _in_parallel(self, nodes: Sequence[int], do: Callable[[int], None]) -> None:
        try:
            _in_parallel(nodes, do)
        except BaseException:
            self.close()  # responses still in flight would be taken for those to the next requests
            raise


class _Link:
    """One connection, and the API versions of its broker.

    `first_requests` are sent in the oldest version that we support, without waiting for the ApiVersions response, so
    that all responses come together. A broker that does not support such a version closes the connection, and there are
    no responses.
    """

    def __init__(self, connection: Connection, address: str, *, first_requests: Sequence[ApiRequest] = ()) -> None:
        self.address = address
        self.is_broken = False
        self.first_responses: Sequence[ApiResponse] = ()
        self._connection = connection
        self._client = self._connect()
        try:
            self._versions = self._ask_versions(first_requests)
            if all(self._speaks(each.api, each.api.oldest) for each in first_requests):
                self.first_responses = [self._receive(each.api, each.api.oldest) for each in first_requests]
            else:
                self.close()
                self._client = self._connect()
        except CorruptData as error:
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

    def ask(self, api: Api, values: Mapping[str, Any]) -> ApiResponse:
        (outcome,) = self.ask_all([ApiRequest(-1, api, values)])
        if isinstance(outcome, ApiResponse):
            return outcome
        raise outcome

    def ask_all(self, requests: Sequence[ApiRequest]) -> list[Outcome]:
        """Sends requests with several in flight at a time; if the connection breaks, those without a response fail."""
        versions = [self.version_of(request.api) for request in requests]
        supported = [index for index, version in enumerate(versions) if version is not None]
        outcomes: list[Outcome] = [self._unsupported(request.api) for request in requests]
        sent = 0
        try:
            for done, index in enumerate(supported):
                while sent < len(supported) and sent < done + IN_FLIGHT:
                    self._send(requests[supported[sent]], versions[supported[sent]])
                    sent += 1
                outcomes[index] = self._receive(requests[index].api, versions[index])
        except (OSError, CorruptData) as error:
            self._break()
            failure = error if isinstance(error, ConnectionError) else self._unreadable(error)
            for index in supported:
                if not isinstance(outcomes[index], ApiResponse):
                    outcomes[index] = failure
        except BaseException:
            self._break()  # responses still in flight would be taken for those to the next requests
            raise
        return outcomes

    def close(self) -> None:
        self._client.close()

    def _break(self) -> None:
        self.is_broken = True
        self.close()

    def _send(self, request: ApiRequest, version: int | None) -> None:
        assert version is not None
        self._client.send(request.api.key, version, **request.values)

    def _receive(self, api: Api, version: int | None) -> ApiResponse:
        assert version is not None
        return ApiResponse(version, self._client.receive(api.key, version))

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

    def _ask_versions(self, first_requests: Sequence[ApiRequest]) -> dict[int, tuple[int, int]]:
        self._client.send(API_VERSIONS.key, API_VERSIONS.newest)
        for each in first_requests:
            self._send(each, each.api.oldest)
        response = self._client.receive(API_VERSIONS.key, API_VERSIONS.newest)
        self._client.set_response_timeout(self._connection.request_timeout)
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def _in_parallel(nodes: Sequence[int], do: Callable[[int], None]) -> None:
    """Runs a function for each broker in a thread of its own, for the last one in this thread. Raises the first failure
    when all have finished."""
    failures: list[Exception] = []

    def run_and_record(node: int) -> None:
        try:
            do(node)
        except Exception as error:  # a thread that ends with an exception only prints it
            failures.append(error)

    threads = [threading.Thread(target=run_and_record, args=(node,), daemon=True) for node in nodes[:-1]]
    for thread in threads:
        thread.start()
    for node in nodes[-1:]:
        run_and_record(node)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def error_of(outcome: ConnectionError | Unsupported) -> tuple[ErrorCode, str]:
    """Returns Kafka's error code, and a message, for a request that failed without a response."""
    if isinstance(outcome, Unsupported):
        return ErrorCode.unsupported_version, str(outcome)
    if isinstance(outcome, SilentBroker):
        return ErrorCode.broker_not_available, str(outcome)
    if isinstance(outcome, NoAnswer):
        return ErrorCode.request_timed_out, str(outcome)
    return ErrorCode.network_exception, str(outcome)


def chunked(items: Collection[Any], size: int) -> list[list[Any]]:
    """Splits items into lists of at most this size."""
    ordered = list(items)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
