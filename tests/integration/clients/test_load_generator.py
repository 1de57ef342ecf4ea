"""The load generator of the benchmarks: this test finds out when it is broken."""

from collections.abc import Iterator

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.testing.embedded import EmbeddedCluster
from tests.bench.support.generator import Generator


@pytest.fixture(scope="module")
def load() -> Iterator[Generator]:
    with Generator() as generator:
        yield generator


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with EmbeddedCluster(topics={"a": 4, "b": 4}, settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize("inflight", [1, 8])
def test_heartbeats_are_counted(load: Generator, cluster: EmbeddedCluster, inflight: int) -> None:
    seen = load.flood("heartbeat", cluster, members=3, groups=2, inflight=inflight, warmup="100ms", window="500ms")
    assert seen.requests > 0
    assert seen.refused == 0
    assert 0.4 < seen.seconds < 30
    assert 0 < seen.p50 <= seen.p99


def test_commits_are_counted_and_each_is_of_another_offset(load: Generator, cluster: EmbeddedCluster) -> None:
    before = _offsets(cluster)
    seen = load.flood("commit", cluster, members=3, topics="a,b", partitions=4, warmup="100ms", window="500ms")
    assert seen.requests > 0
    assert seen.refused == 0
    (of_this,) = [offsets for group_id, offsets in _offsets(cluster).items() if group_id not in before]
    assert len(of_this) == 8
    assert min(of_this) > 1


def test_a_commit_to_what_is_not_there_is_an_error(load: Generator, cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError, match="OffsetCommit got error 3"):
        load.flood("commit", cluster, members=1, topics="absent", warmup="100ms", window="100ms")


def test_every_round_of_rebalances_is_timed(load: Generator, cluster: EmbeddedCluster) -> None:
    seen = load.rebalance(cluster, members=5, groups=2, warmup_rounds=1, rounds=4)
    assert len(seen.rounds) == 4
    assert all(0 < seconds < 30 for seconds in seen.rounds)


def _offsets(cluster: EmbeddedCluster) -> dict[str, list[int]]:
    """Returns the committed offsets, by group."""
    host, port = cluster.bootstrap.split(":")
    with Client(host, int(port)) as client:
        group_ids = [group.group_id for group in client.ask(ApiKey.LIST_GROUPS, 4).groups]
        fetched = {
            group_id: client.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None) for group_id in group_ids
        }
    return {
        group_id: [line.committed_offset for topic in answer.topics for line in topic.partitions]
        for group_id, answer in fetched.items()
    }
