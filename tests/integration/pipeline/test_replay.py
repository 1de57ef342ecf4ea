"""`kcoord assign replay` over histories of real clients, of which their coordinators left nothing but the log.

What is recorded is compared with what the same strategy would have cost: an exact assignor, replayed over the recorded
memberships, moves and pauses exactly what the clients' own assignor did.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from tests.clients.group_members.programs import Programs
from tests.integration.pipeline import pipeline_life
from tests.integration.pipeline.pipeline_life import BROKER_SETTINGS, COOPERATIVE, MODERN, SETTINGS, Stage
from tests.integration.support.group_member import Member
from tests.integration.support.group_scene import LONG, GroupScene
from tests.integration.support.journal_folders import copy_offsets_topic
from tests.support.differential.pair import wait_for_coordinators
from tests.support.pipeline.histories import interpreted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTARTS = "restarts"
SESSION_MS = 20_000  # of who is killed and is to expire: a busy machine must not expire it before
FIGURES = ("rebalances", "moved", "started", "paused", "spread")
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


@pytest.fixture(autouse=True)
def _interpreted(spark: "SparkSession") -> Iterator[None]:
    with interpreted(spark):
        yield


def replayed(log: Path, group: str, *options: str) -> dict[str, Any]:
    arguments = ["assign", "replay", str(log), "--group", group, "--each", *options, "-o", "json"]
    done = CliRunner().invoke(cli, arguments, prog_name="kcoord")
    assert done.exit_code == 0, done.stderr
    [found] = json.loads(done.stdout)["groups"]
    return dict(found)


def strategy(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in found["strategies"] if each["strategy"] == name)


def figures(of: dict[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(each[name] for name in FIGURES) for each in of["each"]]


def avoided(what_if: dict[str, Any]) -> list[int]:
    return [number for each in what_if["avoided"] for number in each["generations"]]


@pytest.fixture(scope="module")
def restarts(member_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a group of two, one of which is restarted, then killed until its session expires, and started."""
    folder = tmp_path_factory.mktemp("restarts")
    with EmbeddedCluster(settings=SETTINGS, data_dir=folder / "data") as cluster:
        wait_for_coordinators(_address(cluster.bootstrap))
        with Stage(cluster.bootstrap, member_programs, folder).group(RESTARTS) as scene:
            (steady,) = scene.start("confluent-kafka", "steady")
            first, third = scene.start("confluent-kafka", "worker", "worker")
            (second,) = scene.start("confluent-kafka", "worker", session_timeout_ms=SESSION_MS)
            steady.join()
            scene.wait_until_stable(steady)
            for worker, end in ((first, first.leave), (second, second.kill)):
                join_and_commit(scene, steady, worker)
                end()
                scene.wait_until_stable(steady)
            join_and_commit(scene, steady, third)
            scene.conclude()
    copy_offsets_topic(folder / "data", folder / "log")
    return folder / "log"


def join_and_commit(scene: GroupScene, steady: Member, worker: Member) -> None:
    """Lets a member join and read, and commit what it has read: its commits are the evidence of how it goes."""
    worker.join()
    scene.wait_until_stable(steady, worker)
    scene.wait_for_reads(worker)
    scene.wait_for(lambda: worker.events("committed"), f"{worker} to commit")


def test_the_strategy_that_clients_had_costs_what_was_recorded(restarts: Path) -> None:
    found = replayed(restarts, RESTARTS)
    assert found["protocols"] == ["range"]
    assert found["partitions"] == {f"{RESTARTS}-records": 6}
    assert figures(found["recorded"]) == figures(strategy(found, "range"))
    assert figures(found["recorded"]) == [(1, 0, 6, 0, 0), *[(1, 3, 0, 6, 0)] * 5]
    assert found["recorded"]["untimed"] == 0
    assert found["recorded"]["partition_ms"] > found["recorded"]["least_partition_ms"] >= 0
    sticky = strategy(found, "cooperative-sticky")
    assert (sticky["rebalances"], sticky["moved"], sticky["paused"]) == (9, 15, 15)


def test_a_member_that_left_is_told_from_one_that_expired_by_its_commits(restarts: Path) -> None:
    found = replayed(restarts, RESTARTS)
    left, expired = found["absences"]
    assert (left["departure"], expired["departure"]) == ("left", "expired")
    assert left["away_ms"] <= LONG
    assert expired["away_ms"] >= SESSION_MS
    assert {left["client_id"], expired["client_id"]} == {"worker"}
    assert left["new_member_id"] == expired["member_id"]


def test_static_members_would_have_spared_the_restart_and_longer_sessions_the_expiry(restarts: Path) -> None:
    [as_it_was] = replayed(restarts, RESTARTS)["what_ifs"]
    assert avoided(as_it_was) == [3, 4]
    static, session = replayed(restarts, RESTARTS, "--session-timeout", "10m")["what_ifs"]
    assert avoided(static) == [3, 4, 5, 6]
    assert avoided(session) == [5, 6]
    assert {each["strategy"]: each["moved"] for each in static["strategies"]} == dict.fromkeys(
        ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range"), 3
    )


@pytest.fixture(scope="module")
def broker_log(member_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a real broker with a cooperative group and a consumer group (KIP-848)."""
    folder = tmp_path_factory.mktemp("broker")
    with KafkaCluster(properties=BROKER_SETTINGS) as kafka:
        wait_for_coordinators(_address(kafka.bootstrap))
        stage = Stage(kafka.bootstrap, member_programs, folder)
        pipeline_life.modern_group(stage)
        pipeline_life.cooperative_group(stage)
        copy_offsets_topic(kafka.brokers[0].data_dir, folder / "log")
    return folder / "log"


def test_cooperative_rebalances_of_a_real_broker_cost_what_the_replayed_strategy_does(broker_log: Path) -> None:
    found = replayed(broker_log, COOPERATIVE)
    recorded, replays = found["recorded"], strategy(found, "cooperative-sticky")
    assert found["protocols"] == ["cooperative-sticky"]
    assert (recorded["moved"], recorded["paused"]) == (replays["moved"], replays["paused"])
    assert recorded["rebalances"] == replays["rebalances"]
    by_range = strategy(found, "range")
    assert by_range["rebalances"] > 1
    assert by_range["paused"] == (by_range["rebalances"] - 1) * 6, "each change after the first stops all"


def test_target_assignments_of_a_consumer_group_of_a_real_broker_are_replayed(broker_log: Path) -> None:
    found = replayed(broker_log, MODERN)
    assert found["protocols"] == ["uniform"]
    assert figures(found["recorded"]) == figures(strategy(found, "uniform"))
    assert [each["moved"] for each in found["recorded"]["each"]] == [0, 3, 3]
    assert strategy(found, "range")["rebalances"] == 3


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
