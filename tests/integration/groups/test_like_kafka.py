"""Every figure of `kcoord groups` is the one that kafka-consumer-groups prints: on three brokers, and over SASL_SSL."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kcoord.admin.connecting.connection import ConnectionOptions, librdkafka_configuration, resolve_connection
from kcoord.testing.cluster import Cluster
from kcoord.testing.tools import JavaTools

from ..support.secure_kafka import SecureKafka
from .group_fixture import GROUPS, GroupFixture, group_fixture

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


OFFSET_COLUMNS = (
    *("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
MEMBER_COLUMNS = (
    *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH"),
    *("CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"),
)
STATE_COLUMNS = (
    *("GROUP", "COORDINATOR", "ID", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"),
    "#MEMBERS",
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Groups, and the client.properties with which both tools reach them."""

    groups: GroupFixture
    bootstrap: str
    config: Path


@pytest.fixture(scope="module", params=["three-brokers", "one-broker-sasl-ssl-scram"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if request.param == "three-brokers":
        make: Callable[..., Cluster] = request.getfixturevalue("kafka_cluster_factory")
        bootstrap = make(brokers=3, properties={"group.initial.rebalance.delay.ms": "0"}).bootstrap
        config = tmp_path_factory.mktemp("clients") / "client.properties"
        config.write_text(f"bootstrap.servers={bootstrap}\n")
    else:
        secure: SecureKafka = request.getfixturevalue("secure_kafka")
        bootstrap, config = secure.bootstrap("SECURE"), secure.properties("scram")
    client = librdkafka_configuration(resolve_connection(ConnectionOptions(command_config=config), {}))
    with group_fixture(client) as groups:
        yield Target(groups=groups, bootstrap=bootstrap, config=config)


def kcoord(target: Target, *arguments: str) -> Any:
    options = ["--command-config", str(target.config), "-o", "json"]
    result = CliRunner().invoke(cli, ["groups", *arguments, *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def kcoord_assign(target: Target, group: str, *arguments: str) -> Any:
    options = ["--command-config", str(target.config), "-o", "json"]
    result = CliRunner().invoke(cli, ["assign", "compare", "--group", group, *arguments, *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def kafka(target: Target, java_tools: JavaTools, *arguments: str) -> list[dict[str, str]]:
    """Returns the rows of kafka-consumer-groups, by the columns of their header."""
    options = ("--bootstrap-server", target.bootstrap, "--command-config", target.config)
    run = java_tools.run("consumer-groups", *options, *arguments)
    assert run.exit_code == 0, run.stderr
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    for line in run.stdout.replace("COORDINATOR (ID)", "COORDINATOR ID").splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            columns = words
        elif columns and len(words) == len(columns):
            rows.append(dict(zip(columns, words, strict=True)))
    return rows


def of_our_groups(rows: Collection[tuple[str, ...]]) -> int:
    """Counts the rows of the groups made here: a shared broker has groups of other tests."""
    return sum(row[0] in GROUPS for row in rows)


def format_cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def test_groups_are_listed_with_the_states_and_types_that_kafka_prints(target: Target, java_tools: JavaTools) -> None:
    theirs = {
        (row["GROUP"], row["TYPE"].lower(), row["STATE"])
        for row in kafka(target, java_tools, "--list", "--state", "--type")
    }

    ours = {(row["group"], row["type"], row["state"]) for row in kcoord(target, "list")["groups"]}

    assert ours == theirs
    assert of_our_groups(ours) == 5


def test_offsets_ends_lags_and_owners_are_those_that_kafka_prints(target: Target, java_tools: JavaTools) -> None:
    theirs = {
        tuple(row[name] for name in OFFSET_COLUMNS)
        for row in kafka(target, java_tools, "--describe", "--all-groups", "--offsets", "--verbose")
    }

    described = kcoord(target, "describe", "--all-groups")["groups"]
    ours = set()
    for group in described:
        members = {member["member_id"]: member for member in group["members"]}
        for row in group["partitions"]:
            owner = members.get(row["owner"], {})
            figures = (row["partition"], row["leader_epoch"], row["offset"], row["log_end"], row["lag"])
            names = (row["owner"], owner.get("host"), owner.get("client_id"))
            ours.add((group["group"], row["topic"], *map(format_cell, figures), *map(format_cell, names)))

    assert ours == theirs
    assert of_our_groups(ours) == 3 * 6 + 3 + 1


def test_members_and_their_assignments_are_those_that_kafka_prints(target: Target, java_tools: JavaTools) -> None:
    theirs = {
        tuple(row.get(name, "-") for name in MEMBER_COLUMNS)
        for row in kafka(target, java_tools, "--describe", "--all-groups", "--members", "--verbose")
    }

    ours = set()
    for group in kcoord(target, "describe", "--all-groups", "--members")["groups"]:
        for member in group["members"]:
            ids = (member["member_id"], member["instance_id"], member["host"], member["client_id"])
            count = sum(map(len, member["assignment"].values()))
            assignments = (assignment(member["assignment"]), assignment(member["target_assignment"]))
            ours.add((group["group"], *map(format_cell, (*ids, count, member["epoch"])), *assignments))

    assert ours == theirs
    assert of_our_groups(ours) == 5


def assignment(by_topic: dict[str, list[int]] | None) -> str:
    if not by_topic:
        return "-"
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in sorted(by_topic.items()))


def test_states_coordinators_and_epochs_are_those_that_kafka_prints(target: Target, java_tools: JavaTools) -> None:
    theirs = {
        tuple(row[name].strip("()") for name in STATE_COLUMNS)
        for row in kafka(target, java_tools, "--describe", "--all-groups", "--state", "--verbose")
    }

    ours = set()
    for group in kcoord(target, "describe", "--all-groups")["groups"]:
        node = group["coordinator"]
        figures = (group["protocol"], group["state"], group["epoch"], group["assignment_epoch"], len(group["members"]))
        ours.add((group["group"], f"{node['host']}:{node['port']}", str(node["id"]), *map(format_cell, figures)))

    assert ours == theirs
    assert of_our_groups(ours) == 5


def test_the_lag_of_groups_adds_up_what_kafka_prints(target: Target, java_tools: JavaTools) -> None:
    theirs: dict[tuple[str, str], int] = {}
    for row in kafka(target, java_tools, "--describe", "--all-groups", "--offsets"):
        if row["LAG"] != "-":
            key = (row["GROUP"], row["TOPIC"])
            theirs[key] = theirs.get(key, 0) + max(0, int(row["LAG"]))

    by_topic = kcoord(target, "lag", "--all-groups", "--by", "topic")
    by_partition = kcoord(target, "lag", "--all-groups", "--by", "partition")

    assert {(row["group"], row["topic"]): row["lag"] for row in by_topic["lag"] if row["lag"] is not None} == theirs
    assert by_topic["total"]["lag"] == by_partition["total"]["lag"] == sum(theirs.values())


def test_lag_in_time_is_the_age_of_the_next_record_by_its_own_timestamp(target: Target) -> None:
    (asleep,) = kcoord(target, "describe", "asleep")["groups"]
    first, caught_up, _ = asleep["partitions"]

    written_at = (
        target.groups.started_ms / 1000 - 3600 + 10 * 30
    )  # the record at offset 10, one every 30 s from an hour ago
    read_at = _seconds(kcoord(target, "describe", "asleep")["at"])
    assert _seconds(first["next_record_at"]) == pytest.approx(written_at, abs=0.001)
    assert first["lag_seconds"] == pytest.approx(read_at - written_at, abs=60)
    assert caught_up["lag"] == 0
    assert caught_up["lag_seconds"] == 0


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_the_uniform_assignor_leaves_the_plan_of_the_brokers_own_one_as_it_is(target: Target) -> None:
    (uniform,) = kcoord_assign(target, "modern", "--strategy", "uniform")["strategies"]
    assert (uniform["moved"], uniform["started"], uniform["stopped"]) == ([], [], [])


def test_the_lag_of_a_compared_group_is_that_of_its_partitions(target: Target) -> None:
    """A partition without a committed offset lags by its whole log."""
    compared = kcoord_assign(target, "shop", "--strategy", "range")
    described = kcoord(target, "describe", "shop")["groups"][0]
    never_read = [each["log_end"] for each in described["partitions"] if each["lag"] is None]
    assert sum(each["lag"] for each in compared["now"]["assignment"]) == described["total_lag"] + sum(never_read)
