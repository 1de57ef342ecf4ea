"""Fixtures of `kcoord offsets` tests: an embedded cluster for each file, and a group and a working folder for each
test."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.expectations import BEFORE, MINUTE, START
from tests.support.admin.offsets_scene import OffsetsScene


@pytest.fixture(scope="module")
def scene(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[OffsetsScene]:
    """The topic `orders`: partition 0 has offsets 0 to 100, partition 1 has 10 to 100, and 2 is empty, with a record
    every minute."""
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
    """A group for this test: offset 50 for partition 0, with a leader epoch and metadata, 60 for partition 1, and
    none for 2."""
    name = re.sub(r"\W+", "-", request.node.name)[-100:]
    scene.commit(name, BEFORE)
    return name
