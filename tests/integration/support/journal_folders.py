"""Folders of `__consumer_offsets`, moved from a broker to kcoord and back."""

import os
import shutil
import signal
from pathlib import Path
from typing import Final

from kcoord.testing.cluster import Cluster
from tests.support.differential.pair import wait_until

OFFSETS_FOLDERS: Final = "__consumer_offsets-*"


def stop_cleanly(kafka: Cluster) -> None:
    """Stops the only broker of a cluster, which can be started again."""
    (broker,) = kafka.brokers
    assert broker.pid
    os.kill(broker.pid, signal.SIGTERM)
    wait_until(lambda: kafka.brokers[0].pid is None, timeout=60)


def copy_offsets_topic(source: Path, target: Path) -> None:
    for folder in source.glob(OFFSETS_FOLDERS):
        shutil.copytree(folder, target / folder.name)


def give_to_broker(ours: Path, theirs: Path) -> None:
    """Follows docs/moving-groups.md: our segments replace everything in the folder except partition.metadata."""
    folders = sorted(theirs.glob(OFFSETS_FOLDERS))
    assert {folder.name for folder in folders} == {folder.name for folder in ours.glob(OFFSETS_FOLDERS)}
    for folder in folders:
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for segment in ours.joinpath(folder.name).glob("*.log"):
            shutil.copy(segment, folder)
