"""Tests of `kcoord offsets copy` from one cluster to another, with a plan, checks and an undo file."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcoord.testing.embedded import EmbeddedCluster
from tests.commands.offsets.expectations import BEFORE, MINUTE, START, cells, undo_file
from tests.support.admin.offsets_scene import OffsetsScene, Run, kcoord


@pytest.fixture(scope="module")
def other(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[OffsetsScene]:
    """Another cluster with a topic `orders` of 3 partitions; 0 and 1 have offsets 0 to 100."""
    with kcoord_cluster_factory() as cluster:
        scene = OffsetsScene(cluster.bootstrap)
        scene.make_topic("orders", 3)
        for partition in (0, 1):
            scene.produce("orders", partition, [START + number * MINUTE for number in range(100)])
        yield scene


def copy(source: OffsetsScene, target: OffsetsScene, group: str, *options: str) -> Run:
    clusters = ("--from", f"broker:{source.bootstrap}", "--to", target.bootstrap)
    return kcoord("offsets", "copy", *clusters, "--group", group, *options)


def test_a_plan_is_shown_and_nothing_is_changed(scene: OffsetsScene, other: OffsetsScene, group: str) -> None:
    run = copy(scene, other, group, "--ignore-topic-ids")

    assert run.exit_code == 0
    assert [line[:5] for line in cells(run)[1:]] == [
        [group, "orders", "0", "-", "50"],
        [group, "orders", "1", "-", "60"],
    ]
    assert run.stderr.endswith("Nothing was changed: add --execute to do it.\n")
    assert other.offsets(group) == {}


def test_what_was_copied_can_be_taken_back_by_the_command_that_is_shown(
    scene: OffsetsScene, other: OffsetsScene, group: str, folder: Path
) -> None:
    done = copy(scene, other, group, "--ignore-topic-ids", "--execute")

    assert done.exit_code == 0
    assert other.offsets(group) == {("orders", 0): 50, ("orders", 1): 60}
    assert scene.committed(group) == BEFORE, "where they came from they stay"
    undo = f"kcoord offsets undo {undo_file(folder)} --execute -b {other.bootstrap}"
    assert f"To take it back: {undo}\n" in done.stderr
    assert kcoord(*undo.split()[1:]).exit_code == 0
    assert other.offsets(group) == {}


def test_the_commands_that_are_shown_reach_the_cluster_by_the_same_options(
    scene: OffsetsScene, other: OffsetsScene, group: str, folder: Path
) -> None:
    (folder / "my client.properties").write_text(f"bootstrap.servers={other.bootstrap}\n")
    options = ("--command-config", "my client.properties", "-X", "client.id=the mover", "--ignore-topic-ids")
    copying = ("offsets", "copy", "--from", f"broker:{scene.bootstrap}", "--group", group, *options)

    planned = kcoord(*copying, "--to", "cluster:", "--plan", "p.json")
    (proposed,) = re.findall(r"^Nothing was changed: kcoord (.*) does it\.$", planned.stderr, re.MULTILINE)
    assert kcoord(*shlex.split(proposed)).exit_code == 0
    assert other.offsets(group) == {("orders", 0): 50, ("orders", 1): 60}

    other.commit(group, {("orders", 0): (7, -1, ""), ("orders", 1): (7, -1, "")})
    done = kcoord(*copying, "--to", f"broker:{other.bootstrap}", "--undo", "mine.json", "--execute")
    (proposed,) = re.findall(r"^To take it back: kcoord (.*)$", done.stderr, re.MULTILINE)
    assert proposed.endswith(f" -b {other.bootstrap} --command-config 'my client.properties' -X 'client.id=the mover'")
    assert kcoord(*shlex.split(proposed)).exit_code == 0
    assert other.offsets(group) == {("orders", 0): 7, ("orders", 1): 7}


def test_to_the_same_topics_leader_epochs_and_metadata_go_along(scene: OffsetsScene, group: str) -> None:
    run = copy(scene, scene, group, "-o", "json")
    document = json.loads(run.stdout)

    assert (run.exit_code, document["verb"], document["target"]) == (0, "copy", f"broker:{scene.bootstrap}")
    (of_group,) = document["groups"]
    assert [
        (each["new"]["offset"], each["new"]["leader_epoch"], each["new"]["metadata"]) for each in of_group["partitions"]
    ] == [
        (50, 0, "note\x00"),
        (60, -1, ""),
    ]


def test_topics_that_only_have_the_same_names_are_refused(scene: OffsetsScene, other: OffsetsScene, group: str) -> None:
    run = copy(scene, other, group, "--execute")

    assert run.exit_code == 1
    assert "if that is meant, say --ignore-topic-ids" in run.stderr
    assert other.offsets(group) == {}


def test_a_group_with_members_is_left_alone(scene: OffsetsScene, other: OffsetsScene, group: str) -> None:
    with other.member(group, "orders"):
        run = copy(scene, other, group, "--ignore-topic-ids", "--execute")

    assert run.exit_code == 1
    assert group in run.stderr
    assert "member" in run.stderr


def test_only_groups_whose_whole_name_matches_are_copied(scene: OffsetsScene, other: OffsetsScene, group: str) -> None:
    scene.commit(f"{group}-too", BEFORE)

    run = copy(scene, other, group, "--ignore-topic-ids", "--execute")

    assert run.exit_code == 0
    assert (set(other.offsets(group)), other.offsets(f"{group}-too")) == ({("orders", 0), ("orders", 1)}, {})


def test_no_group_of_that_name_is_said_in_one_line(scene: OffsetsScene, other: OffsetsScene) -> None:
    run = copy(scene, other, "no-such-group")

    assert run.exit_code == 1
    assert "kcoord: no group's name is 'no-such-group'" in run.stderr
    assert len(run.stderr.splitlines()) == 1
