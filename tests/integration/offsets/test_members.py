"""Changes of offsets are refused while a group has members, whenever they join: in the end by the real broker."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.connecting.connection import ConnectionOptions, resolve_connection
from kcoord.admin.model import Answers, Committed, TopicPartition
from kcoord.admin.offsets.applying import Applied, Status, apply
from kcoord.admin.offsets.files.undo_files import UndoDestination
from kcoord.admin.offsets.planning import plan_delete, plan_reset
from kcoord.admin.offsets.plans import Plan
from kcoord.admin.offsets.resetting import ToOffset
from kcoord.admin.offsets.selecting import parse_selection
from kcoord.admin.opening import open_cluster
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.cluster import Cluster

from ...support.admin.group_kinds import ShareMember, StreamsMember, set_group
from ...support.admin.offsets_scene import OffsetsScene

TOPIC = "members-orders"
BEFORE = {(TOPIC, 0): (50, -1, "mine")}
PROTOCOLS = ("classic", "consumer")


@pytest.fixture(scope="module")
def scene(kafka_cluster: Cluster) -> Iterator[OffsetsScene]:
    scene = OffsetsScene(kafka_cluster.bootstrap)
    scene.make_topic(TOPIC)
    scene.produce(TOPIC, 0, [1_700_000_000_000] * 100)
    yield scene
    scene.delete_topic(TOPIC)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def group(scene: OffsetsScene, protocol: str, request: pytest.FixtureRequest) -> str:
    """A group of that type, which had a member and has none now."""
    name = request.node.name
    with scene.member(name, TOPIC, protocol):
        pass
    scene.commit(name, BEFORE)
    return str(name)


class JoinsBefore:
    """A client of a live cluster that lets a member join a group right before it is changed."""

    def __init__(self, cluster: ClusterClient, join: Callable[[], object]) -> None:
        self._cluster = cluster
        self._join = join

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Answers[TopicPartition, ErrorCode]:
        self._join()
        return self._cluster.commit(group, offsets)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, ErrorCode]:
        self._join()
        return self._cluster.delete_offsets(group, partitions)


def applied_while_joining(
    scene: OffsetsScene, group: str, protocol: str, make: Callable[[ClusterClient], Plan], *options: tuple[str, str]
) -> Applied:
    connection = resolve_connection(ConnectionOptions(bootstrap=scene.bootstrap, pairs=options), {})
    assert bool(connection.needs_librdkafka) == bool(options)
    with open_cluster(connection) as cluster, ExitStack() as stack:
        plan = make(cluster)
        joining: Any = JoinsBefore(cluster, lambda: stack.enter_context(scene.member(group, TOPIC, protocol)))
        return apply(joining, plan, undo=UndoDestination(), now=datetime.now(UTC))


THROUGH_LIBRDKAFKA = ("socket.keepalive.enable", "true")


@pytest.mark.parametrize("options", [(), (THROUGH_LIBRDKAFKA,)], ids=["wire", "librdkafka"])
def test_the_broker_refuses_a_commit_when_a_member_joined_after_the_last_look(
    scene: OffsetsScene, group: str, protocol: str, folder: Path, options: tuple[tuple[str, str], ...]
) -> None:
    def make(cluster: ClusterClient) -> Plan:
        planned = plan_reset(cluster, [group], scope=None, target=ToOffset(offset=5), now=datetime.now(UTC))
        assert planned.refused == ()
        return planned.plan

    applied = applied_while_joining(scene, group, protocol, make, *options)
    (outcome,) = applied.outcomes
    assert (outcome.status, outcome.now) == (Status.REFUSED, Committed(50, -1, "" if options else "mine"))
    assert "a member has joined the group meanwhile" in outcome.reason
    assert "UNKNOWN_MEMBER_ID" in outcome.reason
    assert scene.committed(group) == BEFORE
    assert applied.undo_path is None
    assert list(folder.iterdir()) == []


def test_the_broker_refuses_a_deletion_when_a_member_joined_after_the_last_look(
    scene: OffsetsScene, group: str, protocol: str, folder: Path
) -> None:
    def make(cluster: ClusterClient) -> Plan:
        scope = [parse_selection(TOPIC)]
        return plan_delete(cluster, group, scope=scope, target=TOPIC, now=datetime.now(UTC)).plan

    applied = applied_while_joining(scene, group, protocol, make)
    (outcome,) = applied.outcomes
    assert outcome.status is Status.REFUSED
    assert "a member of the group subscribes to this topic" in outcome.reason
    assert scene.committed(group) == BEFORE
    assert list(folder.iterdir()) == []


def test_a_group_with_members_is_refused_by_every_verb(
    scene: OffsetsScene, group: str, protocol: str, folder: Path
) -> None:
    """It is refused also if they joined after the plan was saved, and after the change that is to be undone."""
    done = scene.kcoord("reset", group, "--all-topics", "--to", "5", "--execute", "--undo", "undo.json")
    assert done.exit_code == 0, done.stderr
    scene.commit(group, {(TOPIC, 0): 5})
    assert scene.kcoord("reset", group, "--all-topics", "--to", "7", "--plan", "plan.json").exit_code == 0
    assert scene.kcoord("export", group, "-f", "out.jsonl").exit_code == 0
    with scene.member(group, TOPIC, protocol):
        for arguments in (
            ["apply", "plan.json"],
            ["reset", group, "--all-topics", "--to-earliest"],
            ["delete", group, "--all-topics"],
            ["import", "out.jsonl"],
            ["undo", "undo.json"],
        ):
            run = scene.kcoord(*arguments, "--execute")
            assert run.exit_code == 1, arguments
            assert f"group '{group}': it is Stable and has 1 member: stop its members first" in run.stderr
        exported = scene.kcoord("export", group)
        assert exported.exit_code == 0, exported.stderr
        assert json.loads(exported.stdout)["offset"] == 5
    assert scene.offsets(group) == {(TOPIC, 0): 5}
    assert sorted(path.name for path in folder.iterdir()) == ["out.jsonl", "plan.json", "undo.json"]
    done = scene.kcoord("apply", "plan.json", "--execute")
    assert done.exit_code == 0, done.stderr
    assert scene.offsets(group) == {(TOPIC, 0): 7}


def test_share_and_streams_groups_are_refused_in_words(scene: OffsetsScene) -> None:
    host, _, port = scene.bootstrap.rpartition(":")
    with Client(host, int(port)) as client:
        ShareMember(client, "members-share").take_assignment(TOPIC)
        set_group(client, "members-streams", {"streams.initial.rebalance.delay.ms": "0"})
        streams = StreamsMember(client, "members-streams")
        streams.take_assignment(TOPIC)
        streams.commit(TOPIC, {0: 3})
        run = scene.kcoord("reset", "members-share", "members-streams", "--topic", TOPIC, "--to", "9", "--execute")
        assert (run.exit_code, run.stdout) == (1, "")
        assert "'members-share': it is a share group, which commits no offsets: kafka-share-groups" in run.stderr
        assert "'members-streams': it is a streams group, whose offsets belong to its state" in run.stderr
        exported = scene.kcoord("export", "members-share", "members-streams", "--format", "csv")
    assert (exported.exit_code, exported.stdout) == (1, f"members-streams,{TOPIC},0,3\n")
    assert exported.stderr == "kcoord: group 'members-share' is a share group, which commits no offsets\n"
