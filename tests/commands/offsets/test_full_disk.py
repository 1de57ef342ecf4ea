"""Tests with a full disk: the file is named, nothing was changed, or the changes made before are still reported."""

import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.offsets.expectations import BEFORE, undo_file
from tests.commands.terminal import KCOORD, PATIENCE, quiet_environment
from tests.support.admin.fake_cluster import LiveFixture, assigned
from tests.support.admin.offsets_scene import OffsetsScene

FULL = Path("/dev/full")
LITTLE = 100  # bytes: fewer than any file that kcoord writes
UNCHANGED = "File too large: it is not written, and nothing was changed"


def run(scene: OffsetsScene, *arguments: str, stdout: int = subprocess.PIPE, has_room: bool = True) -> tuple[int, str]:
    """Runs a command, with or without room on the disk. Returns exit code and stderr."""

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE, LITTLE))

    done = subprocess.run(
        [*KCOORD, *arguments, "-b", scene.bootstrap],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=quiet_environment(PYTHONDONTWRITEBYTECODE="1"),
        preexec_fn=None if has_room else without_room,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


RESET = ("--all-topics", "--to", "earliest")


def committed(scene: OffsetsScene, group: str) -> dict[tuple[str, int], int]:
    return {tp: offset for tp, (offset, _, _) in scene.committed(group).items()}


OLD = {("orders", 0): 50, ("orders", 1): 60}


@pytest.mark.parametrize(
    "command",
    [
        lambda group: ("offsets", "reset", group, *RESET, "--execute", "--undo", "mine.json"),
        lambda group: ("offsets", "reset", group, *RESET, "--execute", "--plan", "mine.json"),
        lambda group: ("offsets", "delete", group, "--all-topics", "--execute", "--undo", "mine.json"),
        lambda group: ("groups", "delete", group, "--execute", "--undo", "mine.json"),
        lambda group: ("offsets", "export", group, "-f", "mine.json"),
    ],
    ids=["undo", "plan", "offsets-delete", "groups-delete", "export"],
)
def test_a_file_that_cannot_be_written_is_named_and_nothing_is_changed(
    scene: OffsetsScene, group: str, folder: Path, command: Callable[[str], tuple[str, ...]]
) -> None:
    exit_code, stderr = run(scene, *command(group), has_room=False)
    assert (exit_code, stderr) == (1, f"kcoord: mine.json: {UNCHANGED}\n")
    assert committed(scene, group) == OLD
    assert not list(folder.iterdir())


def test_an_undo_file_with_a_name_by_date_is_named_too(scene: OffsetsScene, group: str, folder: Path) -> None:
    exit_code, stderr = run(scene, "offsets", "reset", group, *RESET, "--execute", has_room=False)
    assert exit_code == 1
    assert re.fullmatch(rf"kcoord: kcoord-undo-\S+\.json: {UNCHANGED}\n", stderr)
    assert committed(scene, group) == OLD
    assert not list(folder.iterdir())


def test_a_file_that_would_be_replaced_stays_as_it_was(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "mine.json").write_text("before")
    exit_code, stderr = run(scene, "offsets", "export", group, "-f", "mine.json", "--force", has_room=False)
    assert (exit_code, stderr) == (1, f"kcoord: mine.json: {UNCHANGED}\n")
    assert (folder / "mine.json").read_text() == "before"


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
def test_what_was_changed_is_told_although_stdout_is_on_a_full_disk(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    full = os.open(FULL, os.O_WRONLY)
    try:
        exit_code, stderr = run(scene, "offsets", "reset", group, *RESET, "--execute", stdout=full)
        assert exit_code == 1
        assert committed(scene, group) == {("orders", 0): 0, ("orders", 1): 10}
        assert "2 partitions were changed.\n" in stderr
        assert f"To take it back: kcoord offsets undo {undo_file(folder)} --execute" in stderr
        assert stderr.endswith("kcoord: stdout: No space left on device\n")

        scene.commit(group, BEFORE)
        exit_code, stderr = run(scene, "groups", "delete", group, "--execute", "--undo", "deleted.json", stdout=full)
        assert exit_code == 1
        assert "1 of 1 deleted.\nTo bring the offsets back: kcoord offsets undo deleted.json --execute" in stderr

        with LiveFixture(scene.bootstrap) as live:
            live.join(group, assignment=assigned("orders", 0))
            remove = ("groups", "remove-member", group, "--all-members", "--execute")
            exit_code, stderr = run(scene, *remove, stdout=full)
        assert (exit_code, stderr) == (1, "1 of 1 removed.\nkcoord: stdout: No space left on device\n")
    finally:
        os.close(full)
