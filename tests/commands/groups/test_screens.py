"""Tests of `kcoord groups` and of plans of `kcoord offsets` on screens of 80 and 200 columns, with long names."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner

from kcoord.admin.model import Committed, TopicPartition
from kcoord.protocol.records.record import Record
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, assigned

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/
measure: Any = import_module("kcoord.commands.output.printable").width

TOPIC = "company.department.orders.events-received-from-the-warehouse-in-north-america.v2.retry"
LONG = "a-group-with-a-very-long-name.that-some-platform-has-generated.for-the-orders-0123456789"
STATIC, WIDE = "static", "結算服務-消費者群組-東亞寬字元"
RECORDS = 3000


@pytest.fixture(scope="module")
def live(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[LiveFixture]:
    """The groups of the tests: `static` has a static member, the others have none. All have lag in a topic with a
    long name."""
    with kcoord_cluster_factory(topics={TOPIC: 3}) as cluster, LiveFixture(cluster.bootstrap) as live:
        partitions = [TopicPartition(TOPIC, number) for number in range(3)]
        for tp in partitions:
            live.produce(tp, [Record(timestamp=1_700_000_000_000, value=b"v")] * RECORDS)
        for group in (LONG, STATIC, WIDE):
            live.cluster.commit(group, {tp: Committed(1000 * tp.partition) for tp in partitions})
        live.join(STATIC, assignment=assigned(TOPIC, 0, 1, 2), instance_id="static-instance-eu-central-1a-0")
        yield live


def shown(live: LiveFixture, *arguments: str, columns: int | None) -> list[str]:
    environment = {"COLUMNS": str(columns or ""), "KCOORD_BOOTSTRAP_SERVER": live.bootstrap}
    done = CliRunner().invoke(cli, [*arguments], prog_name="kcoord", env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


SCREENS = {
    "list": ("groups", "list"),
    "describe": ("groups", "describe", "--all-groups", "--no-time"),
    "state": ("groups", "describe", "--all-groups", "--state", "--no-time"),
    "lag": ("groups", "lag", "--all-groups", "--by", "partition"),
    "doctor": ("groups", "doctor", "--all-groups"),
    "delete": ("groups", "delete", LONG, WIDE),
    "plan": ("offsets", "reset", LONG, "--all-topics", "--to", "earliest"),
}


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("screen", SCREENS)
def test_no_line_is_wider_than_the_screen(live: LiveFixture, screen: str, columns: int) -> None:
    lines = shown(live, *SCREENS[screen], columns=columns)
    assert [line for line in lines if measure(line) > columns] == []


@pytest.mark.parametrize("verb", [("list",), ("describe", STATIC, "--no-time")])
def test_all_columns_are_not_folded_to_pieces_but_left_to_the_terminal(
    live: LiveFixture, verb: tuple[str, ...]
) -> None:
    def rows(columns: int | None) -> list[str]:
        return [line for line in shown(live, "groups", *verb, "-o", "wide", columns=columns) if TOPIC in line]

    assert len(rows(80)) >= 3
    assert rows(80) == rows(None)


def test_where_a_static_group_is_wider_than_the_screen_hosts_are_told_of_members_alone(live: LiveFixture) -> None:
    partitions = ["TOPIC", "PARTITION", "OFFSET", "LOG-END", "LAG", "BEHIND", "CLIENT-ID"]
    assert _header(shown(live, "groups", "describe", STATIC, "--offsets", columns=80)) == [*partitions, "INSTANCE-ID"]
    wide = _header(shown(live, "groups", "describe", STATIC, "--offsets", columns=200))
    assert wide == [*partitions, "HOST", "INSTANCE-ID"]
    members = shown(live, "groups", "describe", STATIC, "--members", columns=80)
    assert any("HOST" in line for line in members)


def test_the_heading_of_a_group_is_broken_between_its_facts(live: LiveFixture) -> None:
    first, second, *_ = shown(live, "groups", "describe", STATIC, "--no-time", columns=80)
    assert first == "static · Stable · classic range · 1 member ·"
    assert second.startswith("coordinator 127.0.0.1:")
    assert second.endswith("(id 1) · lag 6,000")


def test_states_on_a_small_screen_are_told_without_epochs(live: LiveFixture) -> None:
    small, large = (_header(shown(live, *SCREENS["state"], columns=columns)) for columns in (80, 200))
    assert [name for name in large if name not in small] == ["EPOCH", "ASSIGNMENT-EPOCH"]


def test_what_a_plan_does_is_told_with_whole_numbers(live: LiveFixture) -> None:
    lines = shown(live, *SCREENS["plan"], columns=80)
    assert any("replays 1,000" in line for line in lines)
    assert any("replays 2,000" in line for line in lines)


def _header(lines: list[str]) -> list[str]:
    return next(line.split() for line in lines if line.isupper())
