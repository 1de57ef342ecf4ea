"""Tests of `kcoord assign compare`: of groups that are only described, and of groups of an embedded cluster."""

import csv
import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from kcoord.admin.model import Committed, TopicPartition
from kcoord.protocol.consumer_protocol import Subscription, write_subscription
from kcoord.protocol.records.record import Record
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, orders

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

TWO_TOPICS = ("--topic", "a:4", "--topic", "b:4", "--members", "3")


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["assign", "compare", *arguments], prog_name="kcoord")


def document(*arguments: str, exit_code: int = 0) -> Any:
    done = compare(*arguments, "-o", "json")
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


def strategies(*arguments: str) -> dict[str, Any]:
    return {each["strategy"]: each for each in document(*arguments)["strategies"]}


def owned(strategy: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    return {each["member_id"]: each["partitions"] for each in strategy["assignment"]}


# Groups that are described


def test_each_strategy_has_a_row_and_says_who_gets_what() -> None:
    done = compare(*TWO_TOPICS)
    assert done.exit_code == 0
    assert "a group of 3 members, 8 partitions\n" in done.stdout
    assert "range: 2 to 4 partitions per member\n" in done.stdout
    assert "member-1      4  ████████████████████████  a 0-1; b 0-1\n" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()[2:8]]
    assert [row[:4] for row in rows] == [
        ["range", "eager", "2", "4"],
        ["roundrobin", "eager", "2", "3"],
        ["sticky", "eager", "2", "3"],
        ["cooperative-sticky", "cooperative", "2", "3"],
        ["uniform", "incremental", "2", "3"],
        ["server-range", "incremental", "2", "4"],
    ]


def test_csv_has_a_row_for_each_member_and_topic() -> None:
    done = compare(*TWO_TOPICS, "--strategy", "range", "-o", "csv")
    assert list(csv.reader(StringIO(done.stdout)))[:3] == [
        ["strategy", "member_id", "topic", "partitions", "count"],
        ["range", "member-1", "a", "0-1", "2"],
        ["range", "member-1", "b", "0-1", "2"],
    ]


def test_a_what_if_costs_what_the_style_of_a_strategy_makes_it_cost() -> None:
    found = strategies(*TWO_TOPICS, "--add-members", "1")
    costs = {name: (len(each["moved"]), len(each["paused"]), each["rebalances"]) for name, each in found.items()}
    assert costs["sticky"] == (2, 8, 1)
    assert costs["cooperative-sticky"] == (2, 2, 2)
    assert costs["uniform"] == (2, 2, 0)


def test_members_are_described_one_by_one() -> None:
    found = document(
        "--topic", "a:2", "--topic", "b:2", "--member", "x@i1/r1:a", "--member", "y", "--strategy", "range"
    )
    assert found["members"] == [
        {"member_id": "x", "instance_id": "i1", "rack": "r1", "topics": ["a"]},
        {"member_id": "y", "instance_id": None, "rack": None, "topics": ["a", "b"]},
    ]
    assert owned(found["strategies"][0]) == {"x": {"a": [0]}, "y": {"a": [1], "b": [0, 1]}}


def test_a_file_describes_a_group_with_what_its_members_own(tmp_path: Path) -> None:
    path = tmp_path / "group.yaml"
    path.write_text(
        """
        topics:
          a: 4
          b: {partitions: 2, racks: [[r1], [r2]]}
        members:
          - {id: x, topics: [a, b], rack: r2, owns: {a: 0-3}}
          - {id: y, instance: i1, rack: r1, owns: {b: [0, 1]}}
        """
    )
    found = document("--file", str(path))
    assert found["now"]["spread"] == {"min": 2, "max": 4, "deviation": 1}
    by_name = {each["strategy"]: each for each in found["strategies"]}
    assert by_name["uniform"]["moved"] == [{"topic": "a", "partition": 3}]
    assert owned(by_name["range"])["y"]["b"] == [0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: {a: x}", "the partitions of topic a: a number, not 'x'"),
        ("topics: {a: -1}", "the partitions of topic a: a number, not -1"),
        ("topics: [a]", "topics: names with values, not ['a']"),
        ("topics: {a: 1}\nmembers: [{topics: [a]}]", "a member has no id"),
        ("topics: {a: 1}\nmembers: [{id: x}, {id: x}]", "two members have the id or the instance id x"),
        ("topics: {a: 1}\nmembers: [{id: x, owns: {a: 1-0}}]", "x owns of a '1-0': write 0-5,7 or a list"),
        (
            "topics: {a: 1}\nmembers: [{id: x, rak: r1}]",
            "a member has 'rak'; known are id, instance, owns, rack, topics",
        ),
        ("topics: {a: {partitions: 1, racks: [[x], [y]]}}", "topic a has 1 partitions, and racks of 2"),
        ("topics: {a: {partitions: null}}", "the partitions of topic a: a number, not None"),
        ("topics: {a: {partitions: '2', racks: [[x]]}}", "the partitions of topic a: a number, not '2'"),
        ("topics: {a: {partitions: 2, racks: x}}", "racks of a: a list, not 'x'"),
        ("topics: {a: 1}\nmembers: [{id: x, owns: {a: [1]}}]", "x owns a-1, which does not exist"),
        ("topics: {a: 1}\nmembers: [{id: x, owns: {a: 0}}, {id: y, owns: {a: 0}}]", "x and y both own a-0"),
        ("", "it describes no topics"),
        ("topics: {a: 1}", "it describes no members"),
        ("a: [", "is not YAML in line 1"),
    ],
)
def test_a_malformed_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "group.yaml"
    path.write_text(text)
    done = compare("--file", str(path))
    assert done.exit_code == 1
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which group"),
        (("--topic", "a:1"), "the partitions need members"),
        (("--members", "2"), "members need topics"),
        (("--topic", "a", "--members", "2"), "'a' is not TOPIC:PARTITIONS"),
        (("--topic", "a:99999999999", "--members", "2"), "with 1 to 10,000,000 partitions"),
        (("--topic", "a:1", "--member", "@i"), "'@i' has no id"),
        (("--topic", "a:1", "--member", "x", "--member", "x"), "the id or the instance id 'x'"),
        (("--topic", "a:1", "--members", "1", "--replicas", "2"), "name the racks"),
        (("--topic", "a:1", "--members", "1", "--strategy", "best"), "'best' is not one of"),
        (("--topic", "a:1", "--members", "1", "--group", "g"), "give one group only"),
        (("--group", ""), "say which group"),
        (("--topic", "a:1", "--topic", "a:2", "--members", "1"), "topic a is named twice"),
        (("--topic", "a:0", "--members", "1"), "with 1 to 10,000,000 partitions"),
        (("--topic", "a:1", "--member", "x:b"), "a member is subscribed to 'b', which no --topic describes"),
        (("--topic", "a:1", "--member", "x@i", "--member", "y@i"), "the instance id 'i'"),
        (("--topic", "a:1", "--members", "1", "--racks", "a,,b"), "name the racks"),
        (("--topic", "a:1", "--members", "1", "--client-strategies", ""), "'' is none of"),
    ],
)
def test_contradictory_options_are_a_usage_error(arguments: tuple[str, ...], message: str) -> None:
    done = compare(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_a_group_without_members_after_a_what_if_has_empty_plans() -> None:
    found = document("--topic", "a:4", "--member", "x", "--remove-member", "x", "--strategy", "sticky")
    (sticky,) = found["strategies"]
    assert sticky["assignment"] == []
    assert len(sticky["stopped"]) == 4


def test_a_leader_of_another_library_makes_another_plan() -> None:
    """librdkafka compares a static member with another one by their member ids; Java has static members first."""
    group = ("--topic", "a:4", "--member", "x@i", "--member", "b")
    found = document(*group, "--strategy", "range", "--leader", "librdkafka")
    assert owned(found["strategies"][0]) == {"x": {"a": [0, 1]}, "b": {"a": [2, 3]}}
    (leader,) = found["leaders"]
    assert (leader["library"], leader["strategy"], leader["not_as_java"]) == ("librdkafka", "range", 4)
    assert owned(leader) == {"b": {"a": [0, 1]}, "x": {"a": [2, 3]}}
    shown = compare(*group, "--strategy", "range", "--leader", "all").stdout
    assert {"librdkafka", "franz-go", "sarama", "kafka-python"} <= set(shown.split())


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_a_balanced_group_moves_nothing_under_any_leader(tmp_path: Path, strategy: str) -> None:
    """What the members own is of the latest generation, which some libraries need to know."""
    path = tmp_path / "group.yaml"
    members = "".join(f"  - {{id: m{number}, owns: {{a: {4 * number}-{4 * number + 3}}}}}\n" for number in range(3))
    path.write_text(f"topics: {{a: 12}}\nmembers:\n{members}")
    found = document("--file", str(path), "--strategy", strategy, "--leader", "all")
    moved = {each["library"]: each["moved"] for each in found["leaders"]}
    assert moved.keys() >= {"franz-go", "sarama", "kafka-python"}
    assert not any(moved.values())
    assert found["strategies"][0]["moved"] == []


def test_a_leader_whose_racks_are_not_planned_says_so_where_they_matter() -> None:
    group = ("--topic", "a:4", "--members", "2", "--strategy", "range", "--leader", "all")
    for racks, expected in ((("--racks", "x,y,z"), {"franz-go"}), (("--racks", "x,y"), set()), ((), set())):
        found = document(*group, *racks)["leaders"]
        assert {each["library"] for each in found if each["racks"]} == expected
    shown = compare(*group, "--racks", "x,y,z").stdout
    assert shown.count("Racks are not considered here") == 1


def test_libraries_that_refuse_a_list_of_strategies_are_shown_with_their_error() -> None:
    mixed = document(*TWO_TOPICS, "--client-strategies", "range,cooperative-sticky")["client_strategies"]
    refusals = {each["library"]: each["refusal"] for each in mixed}
    assert {library for library, error in refusals.items() if error} == {"librdkafka", "kafka-python"}
    assert "must have the same protocol type" in refusals["librdkafka"]
    assert not any(
        each["refusal"]
        for each in document(*TWO_TOPICS, "--client-strategies", "range,roundrobin")["client_strategies"]
    )
    done = compare(*TWO_TOPICS, "--client-strategies", "range,uniform")
    assert done.exit_code == 2
    assert "'uniform' is none of range, roundrobin, sticky, cooperative-sticky" in done.output


def test_a_picture_has_a_box_for_each_partition_of_each_strategy(tmp_path: Path) -> None:
    path = tmp_path / "plans.svg"
    done = compare(
        "--topic", "<a>:4", "--members", "2", "--strategy", "range", "--strategy", "sticky", "--svg", str(path)
    )
    assert done.exit_code == 0
    picture = ElementTree.parse(path)
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(filter(None, titles[1:])) == sorted(f"<a>-{number}" for number in range(4) for _ in range(2))


def test_a_picture_of_too_many_partitions_is_refused(tmp_path: Path) -> None:
    done = compare("--topic", "a:30000", "--members", "2", "--strategy", "range", "--svg", str(tmp_path / "p.svg"))
    assert "a picture shows up to 20,000 partitions" in str(done.exception)


def test_many_members_are_a_summary_unless_their_plans_are_asked_for() -> None:
    done = compare("--topic", "a:60", "--members", "60", "--strategy", "range")
    assert "member-01" not in done.stdout
    assert "--plans shows them" in done.stderr
    assert "member-01" in compare("--topic", "a:60", "--members", "60", "--strategy", "range", "--plans").stdout


# Groups of a live cluster


@pytest.fixture(scope="module")
def live(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[LiveFixture]:
    """The group `shop` has one member that owns two of three partitions of orders, with lag in one of them; `asleep`
    has no members; `connect` assigns no partitions."""
    with (
        kcoord_cluster_factory(topics={"orders": 3}) as cluster,
        LiveFixture(cluster.bootstrap) as live,
    ):
        live.produce(TopicPartition("orders", 0), [Record(timestamp=1_700_000_000_000, value=b"v")] * 10)
        now = round(time.time() * 1000)
        live.produce(
            TopicPartition("orders", 1),
            [Record(timestamp=now - 100_000 + 10_000 * number, value=b"v") for number in range(10)],
        )
        live.cluster.commit("shop", {TopicPartition("orders", 0): Committed(4)})
        live.cluster.commit("asleep", {TopicPartition("orders", 0): Committed(4)})
        subscription = Subscription(topics=("orders",), rack="r1")
        live.join(
            "shop", assignment=orders(0, 1), subscription=write_subscription(subscription), instance_id="worker-1"
        )
        live.join("connect", assignment=b"", subscription=b"", protocol_type="connect")
        yield live


def test_a_live_group_starts_from_its_present_assignment(live: LiveFixture) -> None:
    found = document("--group", "shop", "-b", live.bootstrap, "--add-members", "1")
    assert found["group"] == "shop"
    assert found["members"][0] == {
        "member_id": found["members"][0]["member_id"],
        "instance_id": "worker-1",
        "rack": "r1",
        "topics": ["orders"],
    }
    assert found["now"]["lag_spread"]["max"] == 16
    sticky = next(each for each in found["strategies"] if each["strategy"] == "sticky")
    assert sticky["moved"] == []
    assert sticky["started"] == [{"topic": "orders", "partition": 2}]
    assert sticky["lag_spread"] == {"min": 0, "max": 16, "deviation": 8}


def test_the_rate_of_a_young_log_is_taken_since_its_first_record(live: LiveFixture) -> None:
    """Ten records were written to one partition within 100 s; those of the other one are older than an hour."""
    found = document("--group", "shop", "-b", live.bootstrap, "--strategy", "range")
    assert found["now"]["rate_spread"]["max"] == pytest.approx(0.1, rel=0.2)
    assert document("--group", "shop", "-b", live.bootstrap, "--rates-over", "0s")["now"]["rate_spread"] is None


def test_a_live_group_is_shown_with_its_lag(live: LiveFixture) -> None:
    done = compare("--group", "shop", "-b", live.bootstrap, "--strategy", "range")
    assert done.exit_code == 0
    assert "group shop of 1 member, 3 partitions\n" in done.stdout
    assert "LAG-MOST" in done.stdout
    assert "worker-1" in done.stdout


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("asleep", "asleep is Empty and has no members whose subscriptions could be read"),
        ("connect", "connect assigns no partitions: its protocol type is 'connect'"),
        ("nobody", "group nobody: GROUP_ID_NOT_FOUND"),
    ],
)
def test_a_group_that_cannot_be_compared_is_one_line(live: LiveFixture, group: str, message: str) -> None:
    done = compare("--group", group, "-b", live.bootstrap)
    assert done.exit_code == 1
    assert message in f"{done.output} {done.exception}"


def test_partitions_that_nobody_would_read_are_counted() -> None:
    done = compare("--topic", "a:2", "--topic", "b:1", "--member", "x", "--member", "y:b", "--remove-member", "x")
    assert "UNREAD" in done.stdout
    assert "2 have no reader any more" in done.stdout


def test_racks_show_how_many_partitions_are_read_in_the_own_rack() -> None:
    lines = compare("--topic", "a:6", "--members", "3", "--racks", "x,y,z", "--replicas", "1").stdout.splitlines()
    local = {line.split()[0]: line.split()[-1] for line in lines[2:8]}
    assert local["range"] == "6"
    assert local["uniform"] == "2"


def test_the_present_strategy_of_a_live_group_costs_nothing_without_a_what_if(live: LiveFixture) -> None:
    shown = compare("--group", "shop", "-b", live.bootstrap, "--no-plans").stdout
    now = next(line.split() for line in shown.splitlines() if line.startswith("now ("))
    assert now[1] == "(range)"
    row = next(line.split() for line in shown.splitlines() if line.startswith("range "))
    assert row[-2:] == ["-", "-"]
