"""Tests of `kcoord groups delete` on an embedded cluster."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.testing.cluster import Cluster

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

OFFSETS = {TopicPartition("orders", 0): Committed(3, 0, "here"), TopicPartition("orders", 2): Committed(0)}


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: Callable[..., Cluster]) -> Cluster:
    return kcoord_cluster_factory(topics={"orders": 3})


@pytest.fixture
def live(cluster: Cluster) -> Iterator[ClusterClient]:
    with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as live:
        yield live


@pytest.fixture
def kcoord(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `kcoord …` in a temporary folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "-b", cluster.bootstrap], prog_name="kcoord")

    return run


def test_nothing_is_deleted_without_execute(kcoord: Callable[..., Result], live: ClusterClient, tmp_path: Path) -> None:
    live.commit("still-here", OFFSETS)

    done = kcoord("groups", "delete", "still-here")

    assert done.exit_code == 0
    assert "will be deleted" in done.stdout
    assert "add --execute" in done.stderr
    assert live.committed(["still-here"]).found["still-here"] == OFFSETS
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_group_comes_back_by_its_undo_file_with_epochs_and_metadata(
    kcoord: Callable[..., Result], live: ClusterClient, tmp_path: Path
) -> None:
    live.commit("gone", OFFSETS)

    done = kcoord("groups", "delete", "gone", "--execute", "-o", "json")

    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [(group["group"], group["against"]) for group in document["groups"]] == [("gone", None)]
    assert "gone" not in live.list_groups().found
    (undo,) = tmp_path.iterdir()
    assert document["undo"] == undo.name

    assert kcoord("offsets", "undo", undo.name, "--execute").exit_code == 0
    assert live.committed(["gone"]).found["gone"] == OFFSETS


def test_a_group_with_members_is_left_alone_and_the_others_are_deleted(
    kcoord: Callable[..., Result], live: ClusterClient, cluster: Cluster
) -> None:
    live.commit("pattern-empty", OFFSETS)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "pattern-full"})
    try:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.1)

        done = kcoord("groups", "delete", "--regex", "^pattern-", "--execute")

        assert done.exit_code == 1
        assert "it has 1 member: stop its members first" in done.stdout
        assert "1 of 2 deleted." in done.stderr
        assert {"pattern-full"} == {name for name in live.list_groups().found if name.startswith("pattern-")}
    finally:
        consumer.close()


def test_a_group_that_no_one_knows_is_named_and_the_exit_code_is_1(kcoord: Callable[..., Result]) -> None:
    done = kcoord("groups", "delete", "no-such-group", "--execute")

    assert done.exit_code == 1
    assert "group no-such-group: GROUP_ID_NOT_FOUND" in done.stderr


def test_a_pattern_that_matches_nothing_is_an_error(kcoord: Callable[..., Result]) -> None:
    done = kcoord("groups", "delete", "--regex", "^nobody-$", "--execute")

    assert done.exit_code == 1


def test_a_group_without_offsets_is_deleted_without_an_undo_file(
    kcoord: Callable[..., Result], live: ClusterClient, cluster: Cluster, tmp_path: Path
) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bare", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()

    done = kcoord("groups", "delete", "bare", "--execute")

    assert done.exit_code == 0, done.output
    assert "1 of 1 deleted." in done.stderr
    assert "undo" not in done.stderr
    assert "bare" not in live.list_groups().found
    assert list(tmp_path.iterdir()) == []
