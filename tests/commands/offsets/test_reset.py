"""Tests of `kcoord offsets reset` and `delete`, and of undoing them."""

import json
from pathlib import Path

import pytest

from tests.commands.offsets.expectations import BEFORE, cells, undo_file
from tests.support.admin.offsets_scene import OffsetsScene


def test_a_reset_shows_its_plan_and_changes_nothing(scene: OffsetsScene, group: str, folder: Path) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders", "--to-offset", "20")
    assert run.exit_code == 0, run.stderr
    header, *rows = cells(run)
    assert header == ["GROUP", "TOPIC", "PARTITION", "OLD", "NEW", "DIFFERENCE", "EFFECT", "FLAGS"]
    assert [row[1:] for row in rows] == [
        ["orders", "0", "50", "20", "-30", "replays 30 records spanning 29m"],
        ["orders", "1", "60", "20", "-40", "replays 40 records spanning 39m"],
        ["orders", "2", "-", "0", "-", "first commit, lag 0", "clamped-to-end"],
    ]
    assert run.stderr.splitlines() == [
        "1 group, 3 partitions; replays 70 records; 1 flagged (-o wide says why).",
        "Nothing was changed: add --execute to do it.",
    ]
    assert scene.committed(group) == BEFORE
    assert list(folder.iterdir()) == []


def test_a_reset_is_done_told_and_taken_back_exactly(scene: OffsetsScene, group: str, folder: Path) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders", "--to", "20", "--execute")
    assert run.exit_code == 0, run.stderr
    after = {("orders", 0): (20, -1, ""), ("orders", 1): (20, -1, ""), ("orders", 2): (0, -1, "")}
    assert scene.committed(group) == after
    assert [row[2:7] for row in cells(run)[1:]] == [
        ["0", "50", "20", "20", "done"],
        ["1", "60", "20", "20", "done"],
        ["2", "-", "0", "0", "done"],
    ]
    name = undo_file(folder)
    assert f"kcoord offsets undo {name} --execute" in run.stderr

    shown = scene.kcoord("undo", name)
    assert shown.exit_code == 0, shown.stderr
    assert scene.committed(group) == after
    undone = scene.kcoord("undo", name, "--execute", "--undo", "again.json")
    assert undone.exit_code == 0, undone.stderr
    assert scene.committed(group) == BEFORE
    again = scene.kcoord("undo", "again.json", "--execute", "--undo-dir", str(folder))
    assert again.exit_code == 0, again.stderr
    assert scene.committed(group) == after


def test_undoing_twice_has_nothing_to_do(scene: OffsetsScene, group: str, folder: Path) -> None:
    scene.kcoord("reset", group, "--all-topics", "--to-latest", "--execute")
    name = undo_file(folder)
    assert scene.kcoord("undo", name, "--execute").exit_code == 0
    run = scene.kcoord("undo", name, "--execute")
    assert (run.exit_code, run.stdout, run.stderr) == (0, "", "Nothing to change.\n")


def test_an_undo_is_refused_if_something_else_was_committed_since(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    scene.kcoord("reset", group, "--all-topics", "--to-latest", "--execute")
    scene.commit(group, {("orders", 0): 77})
    run = scene.kcoord("undo", undo_file(folder), "--execute", "--undo", "second.json")
    assert run.exit_code == 1
    assert "orders-0: the undo file expects offset 100, and now there is offset 77" in run.stderr
    assert "say --force" in run.stderr
    assert scene.offsets(group) == {("orders", 0): 77, ("orders", 1): 100}
    assert not (folder / "second.json").exists()
    forced = scene.kcoord("undo", undo_file(folder), "--execute", "--undo", "second.json", "--force")
    assert forced.exit_code == 0, forced.stderr
    assert "changed-since" in forced.stdout
    assert scene.committed(group) == BEFORE


def test_the_wide_table_says_why_a_partition_is_flagged(scene: OffsetsScene, group: str) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders:1", "--shift-by", "-55", "-o", "wide")
    assert "clamped-to-start" in run.stdout
    assert "5 is before the start of the log, 10" in run.stdout


def test_a_shift_of_what_is_not_committed_is_refused_whole(scene: OffsetsScene, group: str) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders", "--shift-by", "-1", "--execute")
    assert run.exit_code == 1
    assert "nothing is committed for orders 2, so there is nothing to shift" in run.stderr
    assert scene.committed(group) == BEFORE


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        (["--to", "earliest"], 0),
        (["--to", "latest"], 100),
        (["--to", "current"], 50),
        (["--to", "7"], 7),
        (["--to", "@2023-11-14T22:43:20Z"], 30),
        (["--to", "@-1w"], 100),
        (["--to-datetime", "2023-11-14T23:43:20.001+01:00"], 31),
        (["--to-datetime", "1969-12-31T23:59:59.999"], 0),
        (["--by-duration", "P30000D"], 0),
        (["--shift-by", "+5"], 55),
    ],
)
def test_every_way_to_say_where(scene: OffsetsScene, group: str, where: list[str], offset: int) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders:0", *where, "-o", "json")
    assert run.exit_code == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["kcoord"] == "offsets-plan/v1"
    assert document["groups"][0]["partitions"][0]["new"]["offset"] == offset


def test_a_group_that_does_not_exist_is_created_and_taken_back(scene: OffsetsScene, folder: Path) -> None:
    run = scene.kcoord("reset", "brand-new", "--topic", "orders:0", "--to-latest")
    assert "creates the group, lag 0" in run.stdout
    run = scene.kcoord("reset", "brand-new", "--topic", "orders:0", "--to-latest", "--execute")
    assert run.exit_code == 0, run.stderr
    assert scene.offsets("brand-new") == {("orders", 0): 100}
    undone = scene.kcoord("undo", undo_file(folder), "--execute")
    assert undone.exit_code == 0, undone.stderr
    assert scene.offsets("brand-new") == {}


def test_of_many_groups_the_one_with_members_is_refused_and_the_others_are_done(
    scene: OffsetsScene, folder: Path
) -> None:
    for name in ("many-a", "many-b", "many-c"):
        scene.commit(name, {("orders", 0): 50})
    with scene.member("many-b", "orders"):
        run = scene.kcoord("reset", "--regex", "^many-", "--all-topics", "--to", "5", "--execute")
    assert run.exit_code == 1
    assert "group 'many-b': it is Stable and has 1 member: stop its members first" in run.stderr
    assert [scene.offsets(f"many-{name}")["orders", 0] for name in "abc"] == [5, 50, 5]
    assert undo_file(folder).startswith("kcoord-undo-2-groups-")
    assert scene.kcoord("undo", undo_file(folder), "--execute").exit_code == 0
    assert [scene.offsets(f"many-{name}")["orders", 0] for name in "abc"] == [50, 50, 50]


def test_offsets_of_a_file_are_taken_for_the_group_that_is_named(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "three.csv").write_text("orders,0,11\norders,1,5\n")
    run = scene.kcoord("reset", group, "--from-file", "three.csv", "--execute", "-o", "json")
    assert run.exit_code == 0, run.stderr
    assert scene.offsets(group) == {("orders", 0): 11, ("orders", 1): 10}
    (folder / "four.csv").write_text(f'"{group}",orders,0,12\nother,orders,0,13\n')
    assert scene.kcoord("reset", group, "--from-file", "four.csv", "--execute").exit_code == 0
    assert scene.offsets(group)["orders", 0] == 12
    missing = scene.kcoord("reset", "absent", "--from-file", "four.csv")
    assert (missing.exit_code, missing.stderr) == (1, "kcoord: the file has no offsets of group 'absent'\n")


def test_partitions_of_a_file_can_be_chosen(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "three.csv").write_text("orders,0,11\norders,1,15\n")
    run = scene.kcoord("reset", group, "--from-file", "three.csv", "--topic", "orders:1", "-o", "csv")
    assert len(run.stdout.splitlines()) == 2
    assert f"{group},orders,1,60,15,-45," in run.stdout


# Delete


def test_offsets_are_deleted_and_taken_back(scene: OffsetsScene, group: str, folder: Path) -> None:
    shown = scene.kcoord("delete", group, "--topic", "orders:0")
    assert shown.exit_code == 0
    assert "forgets the offset" in shown.stdout
    assert scene.committed(group) == BEFORE
    run = scene.kcoord("delete", group, "--topic", "orders:0", "--execute")
    assert run.exit_code == 0, run.stderr
    assert scene.offsets(group) == {("orders", 1): 60}
    assert scene.kcoord("undo", undo_file(folder), "--execute").exit_code == 0
    assert scene.committed(group) == BEFORE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nobody", "--topic", "orders"], "group 'nobody' does not exist"),
        (["GROUP", "--topic", "orders:2"], "nothing is committed for what was named"),
        (["GROUP", "--topic", "elsewhere"], "nothing is committed for what was named"),
    ],
)
def test_what_is_not_there_cannot_be_deleted(
    scene: OffsetsScene, group: str, arguments: list[str], expected: str
) -> None:
    run = scene.kcoord("delete", *[group if each == "GROUP" else each for each in arguments], "--execute")
    assert run.exit_code == 1
    assert expected in run.stderr


def test_offsets_of_a_group_with_members_are_not_deleted(scene: OffsetsScene, group: str) -> None:
    with scene.member(group, "orders"):
        run = scene.kcoord("delete", group, "--all-topics", "--execute")
    assert run.exit_code == 1
    assert "it is Stable and has 1 member" in run.stderr
    assert scene.committed(group) == BEFORE


def test_a_partition_that_stays_where_it_is_does_not_count_as_changed(scene: OffsetsScene, group: str) -> None:
    shown = scene.kcoord("reset", group, "--topic", "orders:0-1", "--to", "50")
    assert shown.stderr.startswith("1 group, 2 partitions; replays 10 records; 1 partition stays.\n")
    run = scene.kcoord("reset", group, "--topic", "orders:0-1", "--to", "50", "--execute")
    assert [row[2:] for row in cells(run)[1:]] == [
        ["0", "50", "50", "50", "unchanged", "stays"],
        ["1", "60", "50", "50", "done", "replays 10 records spanning 9m"],
    ]
    assert "1 partition was changed, 1 stays where it was.\n" in run.stderr


def test_where_every_offset_stays_as_it_is_there_is_nothing_to_take_back(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    target = ("--topic", "orders:0-1", "--to", "50")
    assert scene.kcoord("reset", group, *target, "--execute", "--undo", "first.json").exit_code == 0
    again = scene.kcoord("reset", group, *target, "--execute")
    assert again.stderr.splitlines()[1:] == [
        "0 partitions were changed, 2 stay where they were.",
        "The undo file was removed: nothing was changed.",
    ]
    assert [path.name for path in folder.iterdir()] == ["first.json"]


def test_one_record_has_no_span(scene: OffsetsScene, group: str) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders:0", "--shift-by", "-1")
    assert cells(run)[1][5:] == ["-1", "replays 1 record"]
