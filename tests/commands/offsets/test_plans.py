"""Tests of saved plans: they are applied exactly, or refused because the cluster has changed since."""

import json
from pathlib import Path

from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.expectations import BEFORE, START, undo_file
from tests.support.admin.offsets_scene import OffsetsScene, kcoord


def saved_plan(scene: OffsetsScene, group: str) -> None:
    run = scene.kcoord("reset", group, "--topic", "orders:0-1", "--to", "20", "--plan", "plan.json")
    assert run.exit_code == 0, run.stderr
    assert f"kcoord offsets apply plan.json --execute -b {scene.bootstrap} does it" in run.stderr


def refused(scene: OffsetsScene, group: str, expected: str) -> None:
    """Asserts that the plan is refused with and without --execute, that the difference is named, and that nothing
    changed."""
    before = scene.committed(group)
    for options in ([], ["--execute"]):
        run = scene.kcoord("apply", "plan.json", *options)
        assert run.exit_code == 1
        assert expected in run.stderr
        assert "nothing was changed, because the plan no longer holds" in run.stderr
    assert scene.committed(group) == before
    assert not list(Path().glob("kcoord-undo-*"))


def test_a_saved_plan_is_done_exactly_once(scene: OffsetsScene, group: str, folder: Path) -> None:
    saved_plan(scene, group)
    assert scene.committed(group) == BEFORE
    checked = scene.kcoord("apply", "plan.json")
    assert (checked.exit_code, scene.committed(group)) == (0, BEFORE)
    assert "The plan still holds" in checked.stderr
    done = scene.kcoord("apply", "plan.json", "--execute", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert scene.offsets(group) == {("orders", 0): 20, ("orders", 1): 20}
    document = json.loads(done.stdout)
    assert document["kcoord"] == "offsets-applied/v1"
    assert [(each["now"]["offset"], each["result"]) for each in document["partitions"]] == [(20, "done")] * 2
    assert document["undo"] == undo_file(folder)
    (folder / document["undo"]).unlink()
    refused(scene, group, "the plan found offset 50 of leader epoch 0 with the metadata 'note\\x00'")


def test_a_plan_is_refused_when_an_offset_was_committed_since(scene: OffsetsScene, group: str) -> None:
    saved_plan(scene, group)
    scene.commit(group, {("orders", 1): 61})
    refused(scene, group, "orders-1: the plan found offset 60, and now there is offset 61")


def test_a_plan_is_refused_when_a_member_has_joined_since(scene: OffsetsScene, group: str) -> None:
    saved_plan(scene, group)
    with scene.member(group, "orders"):
        refused(scene, group, f"group '{group}': it is Stable and has 1 member")


def test_a_plan_is_refused_when_the_topic_was_made_anew(scene: OffsetsScene) -> None:
    scene.make_topic("fleeting")
    scene.produce("fleeting", 0, [START] * 30)
    scene.commit("fleeting-group", {("fleeting", 0): 30})
    assert scene.kcoord("reset", "fleeting-group", "--all-topics", "--to", "20", "--plan", "plan.json").exit_code == 0
    scene.delete_topic("fleeting")
    scene.make_topic("fleeting")
    scene.produce("fleeting", 0, [START] * 30)
    scene.commit("fleeting-group", {("fleeting", 0): 30})
    refused(scene, "fleeting-group", "fleeting-0: the topic was made anew: its id was ")


def test_a_plan_is_refused_when_the_log_no_longer_has_the_offset(scene: OffsetsScene) -> None:
    scene.make_topic("shrinking")
    scene.produce("shrinking", 0, [START] * 30)
    scene.commit("shrinking-group", {("shrinking", 0): 30})
    assert scene.kcoord("reset", "shrinking-group", "--all-topics", "--to", "5", "--plan", "plan.json").exit_code == 0
    scene.delete_records("shrinking", 0, 6)
    refused(scene, "shrinking-group", "5 is no longer in the log, which is from 6 to 30")


def test_a_plan_is_refused_by_another_cluster(scene: OffsetsScene, group: str, kcoord_cluster: EmbeddedCluster) -> None:
    saved_plan(scene, group)
    run = kcoord("offsets", "apply", "plan.json", "--execute", "-b", kcoord_cluster.bootstrap)
    assert run.exit_code == 1
    assert f"and this is '{kcoord_cluster.cluster_id}'" in run.stderr


def test_a_plan_file_is_not_written_over_unless_it_is_told_to(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "plan.json").write_text("mine")
    reset = ("reset", group, "--all-topics", "--to-latest", "--plan", "plan.json")
    run = scene.kcoord(*reset)
    assert run.exit_code == 1
    assert run.stderr == "kcoord: plan.json is there already: take another name, or say --force\n"
    assert (folder / "plan.json").read_text() == "mine"
    assert scene.kcoord(*reset, "--force").exit_code == 0
    assert json.loads((folder / "plan.json").read_text())["kcoord"] == "reset-plan/v1"


def test_nothing_is_changed_if_the_undo_file_cannot_be_written(scene: OffsetsScene, group: str, folder: Path) -> None:
    (folder / "undo.json").write_text("mine")
    run = scene.kcoord("reset", group, "--all-topics", "--to-latest", "--execute", "--undo", "undo.json")
    assert run.exit_code == 1
    assert "undo.json is there already" in run.stderr
    assert scene.committed(group) == BEFORE
