"""Counters of forwarding, plain numbers by API key: API names are looked up only when Prometheus scrapes."""

from kcoord.metrics.counts import Histogram
from kcoord.proxy.forwarding.interceptors import ClientInfo


class ProxyCounters:
    """A MetricsSink that counts clients, requests and bytes of a proxy, for Prometheus."""

    def __init__(self) -> None:
        self.clients_opened = 0
        self.clients_closed = 0
        self.clients_broken = 0
        self.durations: dict[int, Histogram] = {}  # of requests that a broker or a handling interceptor answered
        self.answered_here: dict[int, int] = {}  # requests that an interceptor answered at once
        self.bytes_to_upstream = 0
        self.bytes_to_clients = 0
        self.upstream_failures = 0

    def opened(self, client: ClientInfo) -> None:
        """Counts a client that was admitted."""
        self.clients_opened += 1

    def closed(self, client: ClientInfo) -> None:
        """Counts a client whose connection has closed."""
        self.clients_closed += 1

    def answered(self, api_key: int, api_version: int, seconds: float) -> None:
        """Adds the duration of a request to the histogram of its API."""
        durations = self.durations.get(api_key)
        if durations is None:
            durations = self.durations[api_key] = Histogram()
        durations.add(seconds)

    def refused(self, api_key: int, api_version: int) -> None:
        """Counts a request that an interceptor answered at once."""
        self.answered_here[api_key] = self.answered_here.get(api_key, 0) + 1

    def sent(self, to_upstream: int, to_client: int) -> None:
        """Adds numbers of forwarded bytes."""
        self.bytes_to_upstream += to_upstream
        self.bytes_to_clients += to_client

    def not_connected(self, node_id: int | None) -> None:
        """Counts a failed attempt to connect to a broker."""
        self.upstream_failures += 1

    def hung_up(self, reason: str) -> None:
        """Counts a client that was hung up on."""
        self.clients_broken += 1
