"""The auditor works: it notices servers with a deliberate fault, and folders that have lost something."""

import shutil
from pathlib import Path

import pytest

from tests.durability.support.faulty import BEGINS, Plan
from tests.durability.support.forgetful import after_power_cut
from tests.durability.support.rounds import Life
from tests.durability.support.serving import Kind

SEED = 1


def _found_wrong(life: Life) -> list[str]:
    """Audits the folder with a server that has no fault."""
    life.kind = Kind()
    with life.serve() as served:
        return life.audit(served)


def test_answers_that_leave_before_they_are_written_are_noticed(tmp_path: Path) -> None:
    """Tries several seeds: the write in which a server dies may be one that had no response."""
    assert any(_dies_with_answers_first(tmp_path / f"data-{seed}", seed) for seed in range(SEED, SEED + 5))


def _dies_with_answers_first(folder: Path, seed: int) -> list[str]:
    plan = Plan(how="die", first=300, only="__consumer_offsets", answers_first=True)
    life = Life(folder, seed, Kind(plan=plan, settings={"offsets.topic.num.partitions": "5"}))
    with life.serve() as served:
        life.be_busy_until_it_dies(served)
    return _found_wrong(life)


@pytest.mark.parametrize("log", ["__consumer_offsets", "produced"])
def test_a_write_that_was_dropped_is_noticed(tmp_path: Path, log: str) -> None:
    plan = Plan(how="drop", first=10, only=f"{log}-0/0")
    settings = {"offsets.topic.num.partitions": "1"}
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=settings), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        life.wait_for_line(BEGINS, served)
        life.be_well_again(served)
        life.kill(served)
    assert _found_wrong(life)


@pytest.mark.parametrize("log", ["__consumer_offsets", "produced"])
def test_writes_that_are_done_later_are_noticed(tmp_path: Path, log: str) -> None:
    plan = Plan(how="delay", only=f"{log}-0/0")
    settings = {"offsets.topic.num.partitions": "1"}
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=settings), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        life.wait_for_line(BEGINS, served)
        life.rest()  # Otherwise the last write, which is missing, may be one without a response.
        served.kill()
    assert _found_wrong(life)


def test_a_power_cut_without_fsync_is_noticed(tmp_path: Path) -> None:
    life = Life(
        tmp_path / "data", SEED, Kind(plan=Plan(folder=str(tmp_path / "data"), synced_copy=str(tmp_path / "kept")))
    )
    with life.serve() as served:
        life.be_busy(served)
    after_power_cut(tmp_path / "kept", tmp_path / "found")
    life.folder = tmp_path / "found"
    assert _found_wrong(life)


def test_a_folder_from_before_is_noticed_by_everything_that_has_changed(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", SEED)
    assert life.run(1) == []
    shutil.copytree(life.folder, tmp_path / "before")
    assert life.run(3) == []
    life.folder = tmp_path / "before"
    wrong = "\n".join(_found_wrong(life))
    for what in ("group nobody-", "group members-", "generation", "topic topics-", "log produced-", "log topics-"):
        assert what in wrong
    assert "is missing" in wrong
