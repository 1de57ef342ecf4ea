"""Groups of every kind on a real Kafka: printed as by Kafka's own tools, and rid of members that are gone."""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner

from kcoord.admin.model import GroupType, TopicPartition
from kcoord.client.client import Client
from kcoord.protocol.records.record import Record
from kcoord.testing.cluster import Cluster
from kcoord.testing.tools import JavaTools, ToolRun
from tests.support.admin.fake_cluster import LiveFixture

from ...support.admin.group_kinds import (
    ConsumerMember,
    PlannedMember,
    ShareMember,
    StreamsMember,
    create_topic,
    set_group,
    until,
)

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
FIRST_TIME = 1_700_000_000_000


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A topic on the shared cluster; names are unique."""

    live: LiveFixture
    client: Client
    name: str

    @property
    def topic(self) -> str:
        return f"{self.name}-in"

    def group(self, word: str) -> str:
        return f"{self.name}-{word}"

    def described(self, word: str) -> Any:
        return kcoord(self, "describe", self.group(word))["groups"][0]


@pytest.fixture(scope="module")
def scene(kafka_cluster: Cluster) -> Iterator[Scene]:
    """A topic with two partitions of ten records, each in a batch of its own."""
    host, _, port = kafka_cluster.bootstrap.rpartition(":")
    with LiveFixture(kafka_cluster.bootstrap) as live, Client(host, int(port)) as client:
        scene = Scene(live=live, client=client, name=f"kinds-{secrets.token_hex(3)}")
        create_topic(client, scene.topic, 2)
        batches = [[Record(timestamp=FIRST_TIME + 1000 * number, value=b"v")] for number in range(10)]
        for partition in range(2):
            live.produce(TopicPartition(scene.topic, partition), *batches)
        yield scene


def kcoord(scene: Scene, *arguments: str) -> Any:
    command = ["groups", *arguments, "-b", scene.live.bootstrap, "-o", "json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def kafka(scene: Scene, java_tools: JavaTools, tool: str, *arguments: str) -> ToolRun:
    run = java_tools.run(tool, "--bootstrap-server", scene.live.bootstrap, "--describe", *arguments)
    assert run.exit_code == 0, run.stderr
    return run


def rows(run: ToolRun) -> list[dict[str, str]]:
    """Parses a tool's output by the columns of its header."""
    header, *lines = [line.split() for line in run.stdout.splitlines() if line.strip()]
    return [dict(zip(header, line, strict=True)) for line in lines]


def format_cell(value: object) -> str:
    return "-" if value is None else str(value)


def test_a_share_group_has_the_start_offsets_the_lag_and_the_members_that_kafka_prints(
    scene: Scene, java_tools: JavaTools
) -> None:
    name = scene.group("share")
    set_group(scene.client, name, {"share.auto.offset.reset": "earliest"})
    member = ShareMember(scene.client, name)
    topic = member.take_assignment(scene.topic)
    accepted = member.accept(topic.topic_id, 0, records=4)
    assert 0 < accepted < 10

    group = scene.described("share")
    offsets = rows(kafka(scene, java_tools, "share-groups", "--group", name))
    members = rows(kafka(scene, java_tools, "share-groups", "--group", name, "--members", "--verbose"))

    assert (group["type"], group["state"], group["protocol"]) == ("share", "Stable", "simple")
    assert {
        (name, each["topic"], format_cell(each["partition"]), format_cell(each["offset"]), format_cell(each["lag"]))
        for each in group["partitions"]
    } == {(row["GROUP"], row["TOPIC"], row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in offsets}
    first, second = group["partitions"]
    assert (first["lag"], second["lag"]) == (10 - accepted, None)
    assert first["next_record_at"] == f"2023-11-14T22:13:{20 + first['offset']}.000Z"
    (ours,), (theirs,) = group["members"], members
    assert (ours["member_id"], ours["client_id"], ours["host"]) == (
        *(theirs["CONSUMER-ID"], theirs["CLIENT-ID"]),
        theirs["HOST"],
    )
    assert f"{scene.topic}:{','.join(map(str, ours['assignment'][scene.topic]))}" == theirs["ASSIGNMENT"]
    assert str(ours["epoch"]) == theirs["MEMBER-EPOCH"]


def test_a_streams_group_has_the_offsets_the_lag_and_the_tasks_that_kafka_prints(
    scene: Scene, java_tools: JavaTools
) -> None:
    name = scene.group("streams")
    set_group(scene.client, name, {"streams.initial.rebalance.delay.ms": "0"})
    member = StreamsMember(scene.client, name)
    member.take_assignment(scene.topic)
    member.commit(scene.topic, {0: 3, 1: 10})

    group = scene.described("streams")
    offsets = rows(kafka(scene, java_tools, STREAMS_GROUPS, "--group", name, "--verbose"))

    assert (group["type"], group["state"]) == ("streams", "Stable")
    assert {
        tuple(map(format_cell, (each["topic"], each["partition"], each["offset"], each["log_end"], each["lag"])))
        for each in group["partitions"]
    } == {
        (row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["OFFSET-LAG"])
        for row in offsets
    }
    assert [each["lag"] for each in group["partitions"]] == [7, 0]
    (ours,) = group["members"]
    assert (ours["member_id"], ours["epoch"]) == (member.member_id, member.epoch)
    assert ours["tasks"] == {"active": {"0": [0, 1]}, "standby": {}, "warmup": {}}
    assert ours["assignment"] == ours["target_assignment"] == {scene.topic: [0, 1]}
    assert {each["owner"] for each in group["partitions"]} == {member.member_id}


def test_a_group_that_reconciles_tells_what_its_members_have_and_what_they_shall_have(
    scene: Scene, java_tools: JavaTools
) -> None:
    name = scene.group("reconciling")
    first, second = (ConsumerMember(scene.client, name) for _ in range(2))
    first.take_assignment(scene.topic)
    before = scene.described("reconciling")
    second.join(scene.topic)
    group = until(lambda: reconciling(scene, second))
    run = kafka(scene, java_tools, "consumer-groups", "--group", name, "--members", "--verbose")
    theirs = {row["CONSUMER-ID"]: row for row in rows(run)}

    assert (before["state"], group["state"]) == ("Stable", "Reconciling")
    ours = {each["member_id"]: each for each in group["members"]}
    assert ours.keys() == theirs.keys() == {first.member_id, second.member_id}
    for member_id, member in ours.items():
        row = theirs[member_id]
        assert assigned(member["target_assignment"]) == row["TARGET-ASSIGNMENT"]
        assert assigned(member["assignment"]) == row["CURRENT-ASSIGNMENT"]
        assert str(member["epoch"]) == row["CURRENT-EPOCH"]
    holding, waiting = ours[first.member_id], ours[second.member_id]
    assert holding["assignment"] == {scene.topic: [0, 1]} != holding["target_assignment"]
    assert waiting["assignment"] == {} != waiting["target_assignment"]
    assert "TARGET" in table(scene, "describe", name, "--members")


def reconciling(scene: Scene, member: ConsumerMember) -> Any:
    """Returns the group once its coordinator has made a plan: at a heartbeat, and not sooner than its settings
    allow."""
    member.beat()
    group = scene.described("reconciling")
    return None if group["state"] == "Assigning" else group


def assigned(by_topic: dict[str, list[int]]) -> str:
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in sorted(by_topic.items())) or "-"


def table(scene: Scene, *arguments: str) -> str:
    return CliRunner().invoke(cli, ["groups", *arguments, "-b", scene.live.bootstrap]).stdout


def test_a_member_of_a_kip_848_group_that_still_speaks_the_classic_protocol_is_shown_so_and_can_be_removed(
    scene: Scene,
) -> None:
    """Such members exist while a group is upgraded member by member."""
    name = scene.group("mixed")
    new = ConsumerMember(scene.client, name)
    new.take_assignment(scene.topic)
    topic = scene.topic.encode()
    wanted = b"\0\0" + b"\0\0\0\1" + len(topic).to_bytes(2) + topic + b"\xff\xff\xff\xff"
    old = scene.live.join(name, assignment=b"", subscription=wanted)

    group = scene.described("mixed")
    assert group["type"] == "consumer"
    assert {each["member_id"]: each["is_classic"] for each in group["members"]} == {new.member_id: False, old: True}
    done = kcoord(scene, "remove-member", name, "--member-id", old, "--execute")
    assert [each["error"] for each in done["members"]] == [None]
    assert [each["member_id"] for each in scene.described("mixed")["members"]] == [new.member_id]


def test_groups_of_every_kind_are_listed_by_their_type(scene: Scene) -> None:
    kinds: dict[GroupType, type[PlannedMember]] = {
        GroupType.SHARE: ShareMember,
        GroupType.STREAMS: StreamsMember,
        GroupType.CONSUMER: ConsumerMember,
    }
    for kind, member in kinds.items():
        name = scene.group(f"listed-{kind.value}")
        member(scene.client, name).join(scene.topic)
        listed = kcoord(scene, "list", "--type", kind.value, "--regex", f"^{scene.name}-listed")["groups"]
        assert [(each["group"], each["type"], each["members"]) for each in listed] == [(name, kind.value, 1)]


CONSUMERS = """
import sys, time
from confluent_kafka import Consumer

bootstrap, topic, name = sys.argv[1:]
common = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": False}
classic = {**common, "session.timeout.ms": 300000, "max.poll.interval.ms": 300000}
consumers = [
    Consumer({**classic, "group.id": f"{name}-dynamic"}),
    Consumer({**classic, "group.id": f"{name}-static", "group.instance.id": "worker-1"}),
    Consumer({**common, "group.id": f"{name}-planned", "group.protocol": "consumer"}),
]
for consumer in consumers:
    consumer.subscribe([topic])
while not all(len(consumer.assignment()) == 2 for consumer in consumers):
    for consumer in consumers:
        consumer.poll(0.1)
print("ready", flush=True)
time.sleep(600)
"""


def test_members_that_are_gone_are_removed_from_groups_of_every_kind(scene: Scene, java_tools: JavaTools) -> None:
    """Consumers that were killed hold their partitions until their sessions expire, minutes later, or until they are
    removed."""
    set_group(scene.client, scene.group("planned"), {"consumer.session.timeout.ms": "60000"})
    command = [sys.executable, "-c", CONSUMERS, scene.live.bootstrap, scene.topic, scene.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumers:
        try:
            assert consumers.stdout
            assert consumers.stdout.readline() == "ready\n"
        finally:
            consumers.kill()
    ShareMember(scene.client, scene.group("sharing")).take_assignment(scene.topic)
    set_group(scene.client, scene.group("streaming"), {"streams.initial.rebalance.delay.ms": "0"})
    StreamsMember(scene.client, scene.group("streaming")).take_assignment(scene.topic)

    words = ["dynamic", "static", "planned", "sharing", "streaming"]
    for word in words:
        (member,) = scene.described(word)["members"]
        assert member["assignment"] == {scene.topic: [0, 1]}
        by = ["--instance-id", "worker-1"] if word == "static" else ["--member-id", member["member_id"]]
        kcoord(scene, "remove-member", scene.group(word), *by)
        assert len(scene.described(word)["members"]) == 1, "not without --execute"
        done = kcoord(scene, "remove-member", scene.group(word), *by, "--execute")
        assert [(each["member_id"], each["error"]) for each in done["members"]] == [(member["member_id"], None)]
        assert (scene.described(word)["members"], scene.described(word)["state"]) == ([], "Empty")

    names = [option for word in words[:3] for option in ("--group", scene.group(word))]
    run = kafka(scene, java_tools, "consumer-groups", *names, "--state")
    for word in words[:3]:
        (line,) = [line for line in run.stdout.splitlines() if line.split()[:1] == [scene.group(word)]]
        assert line.split()[-2:] == ["Empty", "0"]
