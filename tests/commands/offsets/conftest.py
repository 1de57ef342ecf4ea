"""An embedded cluster for each file of tests of `kcoord offsets`, a group for each, and a folder that it runs in."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.telling import BEFORE, MINUTE, START
from tests.integration.offsets_scene import OffsetsScene


@pytest.fixture(scope="module")
def scene(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[OffsetsScene]:
    """orders: 0 is from 0 to 100, 1 from 10 to 100, 2 is empty; a record every minute."""
    with kcoord_cluster_factory() as cluster:
        scene = OffsetsScene(cluster.bootstrap)
        scene.make_topic("orders", 3)
        for partition in (0, 1):
            scene.produce("orders", partition, [START + number * MINUTE for number in range(100)])
        scene.delete_records("orders", 1, 10)
        yield scene


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def group(scene: OffsetsScene, request: pytest.FixtureRequest) -> str:
    """A group of the test's own: 50 of partition 0, with a leader epoch and metadata, 60 of 1, nothing of 2."""
    name = re.sub(r"\W+", "-", request.node.name)[-100:]
    scene.commit(name, BEFORE)
    return name
