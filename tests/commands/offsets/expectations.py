"""The state of the cluster that the tests of `kcoord offsets` begin with, and helpers to read output."""

import re
from pathlib import Path

from tests.support.admin.offsets_scene import Commit, Partition, Run

MINUTE = 60_000
START = 1_700_000_000_000  # 2023-11-14T22:13:20Z

BEFORE: dict[Partition, int | Commit] = {("orders", 0): (50, 0, "note\x00"), ("orders", 1): (60, -1, "")}


def undo_file(folder: Path) -> str:
    (found,) = folder.glob("kcoord-undo-*.json")
    return found.name


def cells(run: Run) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in run.stdout.splitlines()]
