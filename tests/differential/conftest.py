"""Two clusters for the session; for each test a pair of connections and names of its own."""

from collections.abc import Callable, Iterator

import pytest

from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.differential.pair import Marker, Pair, Side, cluster_id, server_settings, wait_for_coordinators
from tests.differential.plain import Naming

MakePair = Callable[[], Pair]


@pytest.fixture(scope="session")
def make_pair(kafka_cluster: Cluster, kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[MakePair]:
    """Pairs of connections to the same two clusters, to be closed by who makes them."""
    kafka, kcoord = _address(kafka_cluster.bootstrap), _address(kcoord_cluster_factory().bootstrap)
    ids = {address: cluster_id(address) for address in (kafka, kcoord)}
    settings = server_settings(kafka) | server_settings(kcoord)
    marker = Marker(kafka)
    wait_for_coordinators(kafka)

    def side(address: tuple[str, int]) -> Side:
        naming = Naming(port=address[1], cluster_id=ids[address], server_settings=settings)
        return Side(address=address, naming=naming)

    yield lambda: Pair(side(kafka), side(kcoord), marker)
    marker.close()


@pytest.fixture
def pair(make_pair: MakePair) -> Iterator[Pair]:
    pair = make_pair()
    yield pair
    pair.close()


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
