"""Undo files: their names, and what they restore."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.offsets.files.documents import BadDocument, write_atomically
from kcoord.admin.offsets.files.undo_files import Undo, UndoDestination, UndoStep, read_undo, undo_names, write_undo

STEP = UndoStep(tp=TopicPartition("orders", 0), topic_id="id", before=Committed(50, 3, "note\x00"), after=Committed(5))
UNDO = Undo(
    operation="reset to-offset 5",
    cluster_id="cluster",
    made_at=datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC),
    groups=(("g", (STEP, UndoStep(tp=TopicPartition("orders", 1), topic_id=None, before=None, after=Committed(5)))),),
)


def test_an_undo_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    path = write_undo(UNDO, UndoDestination(folder=tmp_path))
    assert path == tmp_path / "kcoord-undo-g-20261116T120000Z.json"
    assert read_undo(path) == UNDO
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("../../etc/passwd", "kcoord-undo-.._.._etc_passwd-20261116T120000Z.json"),
        ("a b\x1b[31m\n", "kcoord-undo-a_b__31m_-20261116T120000Z.json"),
        ("ümläut", "kcoord-undo-_ml_ut-20261116T120000Z.json"),
        ("x" * 300, f"kcoord-undo-{'x' * 80}-20261116T120000Z.json"),
    ],
)
def test_any_name_of_a_group_makes_a_safe_name_of_a_file(group: str, name: str) -> None:
    assert next(undo_names(replace(UNDO, groups=((group, (STEP,)),)))) == name


def test_the_undo_of_many_groups_is_one_file() -> None:
    many = replace(UNDO, groups=(("a", (STEP,)), ("b", (STEP,))))
    assert next(undo_names(many)) == "kcoord-undo-2-groups-20261116T120000Z.json"


def test_undo_files_of_one_second_have_numbers_and_none_is_written_over(tmp_path: Path) -> None:
    paths = [write_undo(UNDO, UndoDestination(folder=tmp_path)) for _ in range(3)]
    assert [path.name for path in paths] == list(islice(undo_names(UNDO), 3))
    assert paths[2].name.endswith("Z-3.json")
    with pytest.raises(FileExistsError, match=r"is there already: take another name$"):
        write_undo(UNDO, UndoDestination(path=paths[0]))


def test_a_folder_that_cannot_be_written_to_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        write_undo(UNDO, UndoDestination(folder=tmp_path / "missing"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kcoord": "reset-plan/v1"}, "this is no offsets-undo of kcoord, but 'reset-plan/v1'"),
        ({"groups": []}, "there is nothing in it to undo"),
        ({"groups": [{"group": "g", "partitions": [{"topic": "t"}]}]}, "'partition' is missing"),
        ({"groups": [{"group": "g", "partitions": [{"topic": "t", "partition": 0}] * 2}]}, "'t-0' is in it twice"),
        ({"made_at": None}, "'made_at' is not a text"),
    ],
)
def test_a_file_that_is_no_undo_is_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_undo(UNDO, UndoDestination(folder=tmp_path))
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(BadDocument, match=message):
        read_undo(path)


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_asked_for(tmp_path: Path) -> None:
    wanted = tmp_path / "nowhere" / "plan.json"
    with pytest.raises(OSError, match="No such file or directory") as raised:
        write_atomically(wanted, "text", overwrites=False)
    assert raised.value.filename == str(wanted)


@pytest.mark.parametrize("is_there", [False, True])
def test_only_its_owner_may_read_a_file_that_is_written(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "plan.json"
    if is_there:
        path.write_text("before")
        path.chmod(0o644)
    write_atomically(path, "text", overwrites=is_there)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("text", 0o600)
