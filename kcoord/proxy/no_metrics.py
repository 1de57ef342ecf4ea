"""The no-op MetricsSink, for a proxy without --metrics."""

from kcoord.proxy.forwarding.interceptors import ClientInfo


class NoMetrics:
    """A MetricsSink that counts nothing, for a proxy without `--metrics`."""

    def opened(self, client: ClientInfo) -> None:
        """Does nothing: clients are not counted."""

    def closed(self, client: ClientInfo) -> None:
        """Does nothing: clients are not counted."""

    def answered(self, api_key: int, api_version: int, seconds: float) -> None:
        """Does nothing: requests are not counted."""

    def refused(self, api_key: int, api_version: int) -> None:
        """Does nothing: requests are not counted."""

    def sent(self, to_upstream: int, to_client: int) -> None:
        """Does nothing: bytes are not counted."""

    def not_connected(self, node_id: int | None) -> None:
        """Does nothing: failures are not counted."""

    def hung_up(self, reason: str) -> None:
        """Does nothing: failures are not counted."""
