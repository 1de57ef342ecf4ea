"""Tests of `kcoord offsets undo` after the cluster has changed since the change."""

import json
from pathlib import Path

from tests.commands.offsets.expectations import BEFORE, START, undo_file
from tests.support.admin.offsets_scene import OffsetsScene


def test_offsets_of_a_topic_that_is_gone_are_left_out_and_the_rest_is_brought_back(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    scene.make_topic("passing")
    scene.produce("passing", 0, [START] * 10)
    scene.commit(group, {("passing", 0): 7})
    assert scene.kcoord("reset", group, "--all-topics", "--to", "20", "--execute").exit_code == 0
    path = undo_file(folder)
    scene.delete_topic("passing")

    run = scene.kcoord("undo", path, "--execute")

    assert run.exit_code == 1
    assert f"kcoord: group '{group}', passing-0: left out, the cluster does not show this topic\n" in run.stderr
    assert {tp: commit for tp, commit in scene.committed(group).items() if tp[0] == "orders"} == BEFORE


def test_offsets_of_a_partition_that_is_gone_are_left_out_and_the_rest_is_brought_back(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    assert scene.kcoord("reset", group, "--all-topics", "--to", "20", "--execute").exit_code == 0
    path = folder / undo_file(folder)
    document = json.loads(path.read_text())
    first = document["groups"][0]["partitions"][0]
    document["groups"][0]["partitions"].append({**first, "partition": 9, "after": None})
    path.write_text(json.dumps(document))

    run = scene.kcoord("undo", path.name, "--execute")

    assert run.exit_code == 1
    assert "orders-9: left out, the topic does not have this partition" in run.stderr
    assert scene.committed(group) == BEFORE


def test_a_forced_undo_in_a_topic_that_was_made_anew_brings_no_leader_epochs_back(
    scene: OffsetsScene, group: str, folder: Path
) -> None:
    assert scene.kcoord("reset", group, "--all-topics", "--to", "20", "--execute").exit_code == 0
    path = folder / undo_file(folder)
    document = json.loads(path.read_text())
    for line in document["groups"][0]["partitions"]:
        line["topic_id"] = "AAAAAAAAAAAAAAAAAAAAAA"
    path.write_text(json.dumps(document))

    refused = scene.kcoord("undo", path.name, "--execute")
    assert refused.exit_code == 1
    assert "the topic was made anew" in refused.stderr

    assert scene.kcoord("undo", path.name, "--execute", "--force").exit_code == 0
    assert scene.committed(group) == {("orders", 0): (50, -1, "note\x00"), ("orders", 1): (60, -1, "")}


def test_where_the_undo_file_is_is_the_first_thing_that_is_told(scene: OffsetsScene, group: str, folder: Path) -> None:
    run = scene.kcoord("reset", group, "--all-topics", "--to", "20", "--execute")
    assert run.stderr.splitlines()[0] == f"The undo file is {undo_file(folder)}."
