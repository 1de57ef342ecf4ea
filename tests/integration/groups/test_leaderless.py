"""A partition without a leader, and a broker that is stopped: the rest is printed soon, and the missing part is named.

The request timeout is longer than any test may take: a command that waited for it would not end.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.model import Committed, TopicPartition
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.cluster import Cluster
from tests.support.admin.fake_cluster import LiveFixture
from tests.support.admin.offsets_scene import Run, kcoord
from tests.support.procs import stopped

from ...support.admin.group_kinds import LONG, until

ORDERS = [TopicPartition("orders", number) for number in range(3)]
NODES = (1, 2, 3)
VERY_LONG = "3600"


@pytest.fixture(scope="module")
def kafka(kafka_cluster_factory: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Three brokers, each of which has one of the partitions of `orders`; the groups survive any of them."""
    with kafka_cluster_factory(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as kafka:
        host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
        assignments = [{"partition_index": tp.partition, "broker_ids": [NODES[tp.partition]]} for tp in ORDERS]
        topic = {"name": "orders", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        with Client(host, int(port)) as client:
            client.ask(ApiKey.CREATE_TOPICS, 7, topics=[{**topic, "configs": ()}], timeout=LONG, validate_only=False)
        with LiveFixture(kafka.bootstrap) as live:
            until(lambda: _has_committed(live) or None)
        yield kafka


def _has_committed(live: LiveFixture) -> bool:
    done = live.cluster.commit("shop", {tp: Committed(0) for tp in ORDERS})
    return set(done.found.values()) == {ErrorCode.none}


def _has_noticed(address: str) -> bool:
    """Whether this broker knows that the third is gone, and which broker coordinates the group now."""
    with LiveFixture(address) as live:
        leader = live.cluster.topics(["orders"]).found["orders"].leaders[2]
        commits = live.cluster.committed(["shop"]).found.get("shop", Commits())
        is_listed = "shop" in live.cluster.list_groups().found
        return leader < 0 and live.cluster.nodes().keys() == {1, 2} and is_listed and len(commits) == len(ORDERS)


def run(kafka: Cluster, *arguments: str) -> Run:
    return kcoord(*arguments, "-b", kafka.bootstrap, "--request-timeout", VERY_LONG)


def test_a_stopped_broker_is_named_and_the_others_answer(kafka: Cluster) -> None:
    pid = next(broker.pid for broker in kafka.brokers if broker.node == 3)
    assert pid is not None
    with stopped(pid):
        listed = run(kafka, "groups", "list", "--names")
    assert listed.exit_code == 1
    assert "broker 3: " in listed.stderr


def test_a_partition_without_a_leader_is_named_and_the_others_are_shown_and_reset(kafka: Cluster) -> None:
    kafka.kill(3)
    for address in kafka.bootstrap.split(",")[:2]:
        until(lambda address=address: _has_noticed(address) or None)  # type: ignore[misc]

    listed = run(kafka, "groups", "list", "-o", "json")
    assert [each["group"] for each in json.loads(listed.stdout)["groups"]] == ["shop"]
    described = run(kafka, "groups", "describe", "shop", "-o", "json")
    (group,) = json.loads(described.stdout)["groups"]
    assert [each["log_end"] for each in group["partitions"]] == [0, 0, None]
    for done in (listed, described):
        assert done.exit_code == 1
        assert "kcoord: partition orders-2: LEADER_NOT_AVAILABLE\n" in done.stderr

    for target in ("earliest", "@-1h"):
        reset = run(kafka, "offsets", "reset", "shop", "--all-topics", "--to", target, "-o", "json")
        (plan,) = json.loads(reset.stdout)["groups"]
        assert [each["partition"] for each in plan["partitions"]] == [0, 1]
        assert reset.exit_code == 1
        assert "group 'shop': orders 2 left out, as the logs cannot be asked: partition orders-2: " in reset.stderr
    only_that = run(kafka, "offsets", "reset", "shop", "--topic", "orders:2", "--to", "earliest")
    assert only_that.exit_code == 1
    assert "the logs of orders 2 cannot be asked: partition orders-2: LEADER_NOT_AVAILABLE" in only_that.stderr
