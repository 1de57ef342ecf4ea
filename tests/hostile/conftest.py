"""Servers for hostile clients; each is checked for faults afterwards."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcoord.testing.embedded import EmbeddedCluster
from tests.support.hostile.scene import Scene

Serve = Callable[..., Scene]


@pytest.fixture(scope="module")
def shared(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[Scene]:
    # Topics must not be created automatically, so that the same request gets the same answer each time.
    with kcoord_cluster_factory(topics={"here": 1}, settings={"auto.create.topics.enable": "false"}) as cluster:
        yield Scene(cluster)


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    """A server with the topic `here`, shared by a file's tests, and checked for faults after each of them."""
    yield shared
    shared.assert_well()


@pytest.fixture
def serve(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[Serve]:
    """Starts servers for one test: serve(topics={"t": 1}, settings={…})."""
    served: list[Scene] = []

    def start(**options: Any) -> Scene:
        served.append(Scene(kcoord_cluster_factory(**options)))
        return served[-1]

    yield start
    for each in served:
        each.assert_well()
        each.cluster.stop()
