"""A disk that is full, fails, or tears a write: nothing acknowledged is lost, and the rest is served.

Most disks here are those of tests/durability/support/faulty.py. One is the system's own: no file may grow beyond a
size, so a write beyond it is torn there, and what follows is refused.
"""

import errno
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.durability.support.faulty import IS_OVER, Plan
from tests.durability.support.forgetful import after_power_cut
from tests.durability.support.rounds import LEAST, Life
from tests.durability.support.seeds import KILLS, SEED, format_failure
from tests.durability.support.serving import Kind

_HERE: Final = "tests/durability/test_failing_disk.py"
_SMALL: Final = {"log.segment.bytes": "20000", "offsets.topic.num.partitions": "5"}


def _audit_after_restart(life: Life) -> None:
    life.kind = replace(life.kind, plan=None)
    with life.serve() as served:
        wrong = life.audit(served)
    assert not wrong, format_failure(wrong, _HERE)


@pytest.mark.parametrize("number", range(max(1, KILLS // 6)))
def test_a_server_that_dies_within_a_write_has_lost_nothing_acknowledged(tmp_path: Path, number: int) -> None:
    """It dies twice: on a new folder, and on what that run has left."""
    random = Random(f"{SEED} {number}")
    life = Life(tmp_path / "data", SEED + number)
    for _ in range(2):
        plan = Plan(how="die", first=random.randint(120, 900), only=random.choice(("", ".log", "__consumer_offsets")))
        life.kind = Kind(plan=plan, settings=_SMALL)
        with life.serve() as served:
            wrong = life.audit(served)
            assert not wrong, format_failure(wrong, _HERE)
            life.be_busy_until_it_dies(served)
    _audit_after_restart(life)


@pytest.mark.parametrize(
    ("how", "calls", "error"),
    [
        ("refuse", ("write",), errno.ENOSPC),
        ("refuse", ("write", "open", "make_folder", "rename"), errno.EIO),
        ("tear", ("write",), errno.ENOSPC),
        ("tear", ("write", "rename", "sync"), errno.EIO),
        ("scar", ("write",), errno.EIO),
    ],
)
def test_a_server_goes_on_when_its_disk_has_failed_for_a_while(
    tmp_path: Path, how: str, calls: tuple[str, ...], error: int
) -> None:
    random = Random(f"{SEED} {how} {calls}")
    plan = Plan(how=how, calls=calls, error=error, first=random.randint(150, 400), count=random.randint(1, 60))
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=_SMALL), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        life.wait_for_line(IS_OVER, served)
        life.be_well_again(served)
        life.kill(served)
    assert sum(writer.refused for writer in life.writers) > 0
    assert life.acknowledged >= LEAST
    _audit_after_restart(life)


def test_a_server_goes_on_when_its_files_could_not_grow_for_a_while(tmp_path: Path) -> None:
    random = Random(SEED)
    life = Life(tmp_path / "data", SEED, Kind(settings=_SMALL), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        for _ in range(3):
            life.be_well_again(served)
            served.let_files_grow_to(random.randint(1000, 20_000))
            time.sleep(random.random() * 0.5)
            served.let_files_grow()
        life.be_well_again(served)
        life.kill(served)
    assert sum(writer.refused for writer in life.writers) > 0
    _audit_after_restart(life)


def test_a_server_that_is_killed_while_its_files_cannot_grow_has_lost_nothing(tmp_path: Path) -> None:
    random = Random(SEED)
    life = Life(tmp_path / "data", SEED, Kind(settings=_SMALL), is_patient=True)
    for _ in range(2):
        with life.serve() as served:
            wrong = life.audit(served)
            assert not wrong, format_failure(wrong, _HERE)
            life.begin(served)
            life.be_well_again(served)
            served.let_files_grow_to(random.randint(1000, 20_000))
            time.sleep(random.random() * 0.5)
            life.kill(served)
    _audit_after_restart(life)


def test_a_file_that_cannot_be_synced_takes_nothing_more_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    plan = Plan(how="refuse", calls=("sync",), error=errno.EIO, first=300, count=3)
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=_SMALL, is_synced=True), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        life.wait_for_line(IS_OVER, served)
        time.sleep(1.5)  # Groups are loaded again, and requested.
        life.kill(served)
    assert sum(writer.refused for writer in life.writers) > 0
    _audit_after_restart(life)


@pytest.mark.parametrize("number", range(max(1, KILLS // 10)))
def test_with_fsync_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, number: int) -> None:
    life = Life(tmp_path / "0", SEED + number)
    for cut in range(2):
        synced_copy, found = tmp_path / f"kept-{cut}", tmp_path / str(cut + 1)
        plan = Plan(folder=str(life.folder), synced_copy=str(synced_copy))
        life.kind = Kind(plan=plan, settings=_SMALL, is_synced=True)
        with life.serve() as served:
            wrong = life.audit(served)
            assert not wrong, format_failure(wrong, _HERE)
            assert life.be_busy(served)
        after_power_cut(synced_copy, found)
        life.folder = found
    _audit_after_restart(life)
