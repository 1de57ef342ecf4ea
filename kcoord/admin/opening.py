"""Opens a client of a live cluster: over our own connections, or through librdkafka if only that supports the login."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.waiting import Waits


@contextmanager
def open_cluster(
    connection: Connection, *, about: Sequence[str] = (), waits: Waits | None = None
) -> Iterator[ClusterClient]:
    """Connects an admin client to a live cluster, and closes it at the end of the context. `about` names the groups of
    the first requests, if they are known beforehand. `waits` registers what the client is waiting for."""
    cluster = _open(connection, about, waits)
    try:
        yield cluster
    finally:
        cluster.close()


def _open(connection: Connection, about: Sequence[str], waits: Waits | None) -> ClusterClient:
    if connection.needs_librdkafka:
        from kcoord.admin.librdkafka.cluster import LibrdkafkaCluster

        return LibrdkafkaCluster(connection, waits=waits)
    from kcoord.admin.wire.cluster import WireCluster

    return WireCluster(connection, about=about, waits=waits)
