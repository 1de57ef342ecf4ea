"""The examples of docs/assignors.md: their plans, and the pictures there, which the tool has drawn."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from kcoord.assignors.plan import Plan, Subscriber, Topics, list_partitions
from kcoord.assignors.scenario import Scenario, add_members
from kcoord.assignors.strategies import STRATEGIES

DOCS: Final = Path(__file__).parent.parent.parent / "docs"
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


def plan(strategy: str, counts: dict[str, int], members: int) -> dict[str, list[str]]:
    group = [Subscriber(member_id=f"c{number}", topics=tuple(counts)) for number in range(members)]
    return texts(STRATEGIES[strategy].assign(group, Topics(counts=counts)))


def texts(made: Plan) -> dict[str, list[str]]:
    return {member: [f"{topic}p{number}" for topic, number in list_partitions(held)] for member, held in made.items()}


def test_range_gives_the_first_member_one_more_of_each_topic() -> None:
    assert plan("range", {"t0": 4, "t1": 4}, 3) == {
        "c0": ["t0p0", "t0p1", "t1p0", "t1p1"],
        "c1": ["t0p2", "t1p2"],
        "c2": ["t0p3", "t1p3"],
    }


def test_round_robin_deals_out_both_topics_in_one_circle() -> None:
    assert plan("roundrobin", {"t0": 4, "t1": 4}, 3) == {
        "c0": ["t0p0", "t0p3", "t1p2"],
        "c1": ["t0p1", "t1p0", "t1p3"],
        "c2": ["t0p2", "t1p1"],
    }


def test_sticky_takes_from_each_member_only_what_a_third_one_needs() -> None:
    group = [Subscriber(member_id=f"c{number}", topics=("t",)) for number in range(2)]
    sticky, cooperative, round_robin = (
        add_members(Scenario.of(group, Topics(counts={"t": 6})), 1).outcome(each.assign, each.style)
        for each in (STRATEGIES["sticky"], STRATEGIES["cooperative-sticky"], STRATEGIES["roundrobin"])
    )
    assert texts(sticky.plan) == {"c0": ["tp0", "tp2"], "c1": ["tp1", "tp3"], "new-1": ["tp4", "tp5"]}
    assert texts(cooperative.plan) == texts(sticky.plan)
    assert (len(sticky.moved), len(sticky.paused)) == (2, 6)
    assert (len(cooperative.moved), len(cooperative.paused)) == (2, 2)
    assert (len(round_robin.moved), len(round_robin.paused)) == (4, 6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_six_members_three_have_nothing_to_do(strategy: str) -> None:
    assert sorted(map(len, plan(strategy, {"t": 3}, 6).values())) == [0, 0, 0, 1, 1, 1]


def examples() -> list[tuple[str, str]]:
    """Returns each command of the page that stands above a picture, and the picture."""
    page = (DOCS / "assignors.md").read_text()
    return re.findall(r"^    (kcoord assign compare .*)\n\n!\[.*\]\((.*\.svg)\)$", page, re.MULTILINE)


@pytest.mark.parametrize(("command", "picture"), examples())
def test_the_pictures_of_the_page_are_those_that_its_commands_draw(tmp_path: Path, command: str, picture: str) -> None:
    drawn = tmp_path / "drawn.svg"
    done = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--svg", str(drawn)])
    assert done.exit_code == 0, done.output
    assert drawn.read_text() == (DOCS / picture).read_text()


def test_the_page_has_three_pictures() -> None:
    assert len(examples()) == 3
