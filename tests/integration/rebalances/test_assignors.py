"""Java's eager assignors over two topics, each with its own plan. CooperativeSticky has a file of its own."""

import json
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner

from tests.integration.support.group_scene import GroupScene

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def assert_planned_by(scene: GroupScene, strategy: str) -> None:
    """Checks that `kcoord assign compare` computes exactly the plan that the leader of the live group has made."""
    arguments = ["--group", scene.group, "-b", scene.bootstrap, "--strategy", strategy, "-o", "json"]
    done = CliRunner().invoke(cli, ["assign", "compare", *arguments])
    assert done.exit_code == 0, done.output
    compared = json.loads(done.stdout)
    (outcome,) = compared["strategies"]
    assert compared["strategy"] == strategy
    assert (outcome["moved"], outcome["started"], outcome["stopped"]) == ([], [], [])
    assert outcome["spread"] == compared["now"]["spread"]


@pytest.mark.parametrize(
    ("assignor", "first_has", "second_has"),
    [
        ("range", ["a-0", "a-1", "b-0", "b-1"], ["a-2", "b-2"]),
        ("roundrobin", ["a-0", "a-2", "b-1"], ["a-1", "b-0", "b-2"]),
    ],
    ids=["range", "roundrobin"],
)
def test_a_java_assignor_shares_out_two_topics(
    scene: GroupScene, assignor: str, first_has: list[str], second_has: list[str]
) -> None:
    for suffix in "ab":
        scene.topic(suffix, partitions=3)
    first, second = scene.start("java", "first", "second", assignor=assignor)

    first.join()
    alone = scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)
    assert_planned_by(scene, assignor)

    assert alone.owned == {"first": scene.partitions}
    assert both.owned == {
        "first": {f"{scene.group}-{name}" for name in first_has},
        "second": {f"{scene.group}-{name}" for name in second_has},
    }
    assert both.generation == alone.generation + 1
    scene.conclude()


def test_java_members_with_the_sticky_assignor_keep_what_they_can(scene: GroupScene) -> None:
    for suffix in "ab":
        scene.topic(suffix, partitions=3)
    first, second, third = scene.start("java", "first", "second", "third", assignor="sticky")

    first.join()
    alone = scene.wait_until_stable(first)
    second.join()
    two = scene.wait_until_stable(first, second)
    third.join()
    three = scene.wait_until_stable(first, second, third)
    assert_planned_by(scene, "sticky")
    third.leave()
    again = scene.wait_until_stable(first, second)

    assert two.shares() == {"first": 3, "second": 3}
    assert three.shares() == {"first": 2, "second": 2, "third": 2}
    assert again.shares() == {"first": 3, "second": 3}
    for name in ("first", "second"):
        assert three.owned[name] < two.owned[name]
        assert three.owned[name] < again.owned[name]
    generations = [two.generation, three.generation, again.generation]
    assert generations == [alone.generation + 1, alone.generation + 2, alone.generation + 3]
    scene.conclude()
