"""Two clusters for the session; for each test a pair of connections, with names that no other test uses.

Tests of groups have two more clusters, with settings that make parked requests recognisable.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest

from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.differential.groups.support.group_clusters import KAFKA_SETTINGS, SETTINGS, GroupCluster
from tests.differential.groups.support.group_pair import GroupPair
from tests.differential.groups.support.group_requests import Profile
from tests.differential.groups.support.group_runs import MakeGroupPair
from tests.support.differential.pair import Marker, Pair, Side, cluster_id, server_settings, wait_for_coordinators
from tests.support.differential.plain import Naming

MakePair = Callable[[], Pair]
NewGroupPair = Callable[..., GroupPair]


@pytest.fixture(scope="session")
def make_pair(kafka_cluster: Cluster, kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[MakePair]:
    """Makes pairs of connections to the same two clusters; the caller closes them."""
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


@pytest.fixture(scope="session")
def kafka_for_groups(kafka_cluster_factory: Callable[..., Cluster]) -> GroupCluster:
    return GroupCluster.at(kafka_cluster_factory(properties={**SETTINGS, **KAFKA_SETTINGS}).bootstrap)


@pytest.fixture(scope="session")
def kcoord_for_groups(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> GroupCluster:
    return GroupCluster.at(kcoord_cluster_factory(settings=SETTINGS).bootstrap)


@pytest.fixture(scope="session")
def make_group_pair(kafka_for_groups: GroupCluster, kcoord_for_groups: GroupCluster) -> MakeGroupPair:
    """Makes pairs for sequences; the caller deletes their groups."""

    def make(actors: Sequence[Profile], grid: float) -> GroupPair:
        return GroupPair(kafka_for_groups.side(grid), kcoord_for_groups.side(grid), actors)

    return make


@pytest.fixture
def new_groups(make_group_pair: MakeGroupPair) -> Iterator[NewGroupPair]:
    """Makes new groups for these actors: `new_groups(Profile(instance_id="i"), …)`; without actors, for nine identical
    ones."""
    made: list[GroupPair] = []

    def new(*actors: Profile) -> GroupPair:
        made.append(make_group_pair(actors or [Profile()] * 9, 1.0))
        return made[-1]

    yield new
    for pair in made:
        pair.delete_groups()


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
