"""A disk that fails during a compaction, or a process that ends in it: the log is unchanged, or compacted."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.durability.support.faulty import BEGINS, Plan
from tests.durability.support.rounds import Life
from tests.durability.support.seeds import SEED, format_failure
from tests.durability.support.serving import Kind

_COMPACTING: Final = {
    "log.cleaner.backoff.ms": "20",
    "kcoord.compaction.bytes": "1000",
    "log.cleaner.delete.retention.ms": "0",
    "offsets.topic.num.partitions": "1",
}
_LOG: Final = "__consumer_offsets-0"


# The first compaction renames twice and syncs three times: a file, and a folder after each rename. It replaces one
# segment, and those after it two, of which one is deleted in between.
@pytest.mark.parametrize(("call", "first"), [("rename", 1), ("rename", 4), ("sync", 1), ("sync", 3), ("delete", 6)])
def test_a_compaction_that_fails_leaves_all_that_was_acknowledged(tmp_path: Path, call: str, first: int) -> None:
    plan = Plan(how="refuse", calls=(call,), error=errno.EIO, first=first, only=_LOG)
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=_COMPACTING), is_patient=True)
    with life.serve() as served:
        life.begin(served)
        life.wait_for_line(BEGINS, served)
        life.be_well_again(served)
        life.kill(served)
    _audit_after_restart(life)


@pytest.mark.parametrize(
    ("call", "first", "only"),
    [
        ("write", 1, ".cleaned"),
        ("write", 3, ".cleaned"),
        ("rename", 1, ".log."),
        ("rename", 2, ".log."),
        ("rename", 3, ".log."),
        ("rename", 4, ".log."),
        ("delete", 1, ""),
        ("delete", 4, ""),
        ("delete", 5, ""),
    ],
)
def test_a_server_that_dies_while_it_compacts_has_lost_nothing_acknowledged(
    tmp_path: Path, call: str, first: int, only: str
) -> None:
    plan = Plan(how="die", calls=(call,), first=first, only=only or _LOG)
    life = Life(tmp_path / "data", SEED, Kind(plan=plan, settings=_COMPACTING))
    with life.serve() as served:
        life.be_busy_until_it_dies(served)
    _audit_after_restart(life)


def _audit_after_restart(life: Life) -> None:
    life.kind = replace(life.kind, plan=None)
    with life.serve() as served:
        wrong = life.audit(served)
    assert not wrong, format_failure(wrong, "tests/durability/test_failing_compaction.py")
