"""Opening a live cluster: over our own connections, or through librdkafka where only that can log in."""

from collections.abc import Iterator
from contextlib import contextmanager

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.live import LiveCluster


@contextmanager
def open_cluster(connection: Connection) -> Iterator[LiveCluster]:
    cluster = _open(connection)
    try:
        yield cluster
    finally:
        cluster.close()


def _open(connection: Connection) -> LiveCluster:
    if connection.needs_librdkafka:
        from kcoord.admin.librdkafka.cluster import LibrdkafkaCluster

        return LibrdkafkaCluster(connection)
    from kcoord.admin.wire.cluster import WireCluster

    return WireCluster(connection)
