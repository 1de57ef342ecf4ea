"""The selection of groups, on an embedded cluster that has three."""

from collections.abc import Callable, Iterator

import pytest

from kcoord.admin.groups.selection import NoGroupSelected, matching_names, select_groups
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.wire.cluster import WireCluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture

NAMES = ["prod-a", "prod-b", "test-a"]


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[WireCluster]:
    with kcoord_cluster_factory(topics={"orders": 1}) as embedded, LiveFixture(embedded.bootstrap) as live:
        for name in reversed(NAMES):
            live.cluster.commit(name, {TopicPartition("orders", 0): Committed(0)})
        yield live.cluster


def test_a_pattern_is_found_anywhere_in_a_name_and_names_come_in_order() -> None:
    assert matching_names(["b-a", "a", "c"], "a") == ["a", "b-a"]
    assert matching_names(["b-a", "a", "c"], "^a$") == ["a"]


def test_what_is_no_pattern_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match=r"'\[a' is no regular expression: unterminated character set"):
        matching_names(["a"], "[a")


def test_names_are_taken_as_they_are_each_once(cluster: WireCluster) -> None:
    assert select_groups(cluster, names=["x.*", "prod-a", "x.*"]) == (["x.*", "prod-a"], ())


def test_a_pattern_adds_to_the_names(cluster: WireCluster) -> None:
    assert select_groups(cluster, names=["new", "prod-b"], pattern="^prod") == (["new", "prod-b", "prod-a"], ())


def test_all_groups_come_in_the_order_of_their_names(cluster: WireCluster) -> None:
    assert select_groups(cluster, everything=True) == (NAMES, ())


def test_a_pattern_that_matches_nothing_is_an_error_that_says_how_many_there_are(cluster: WireCluster) -> None:
    with pytest.raises(NoGroupSelected, match="no group matches 'stage': there are 3, see `kcoord groups list`"):
        select_groups(cluster, pattern="stage")


def test_all_groups_of_a_cluster_that_has_none_are_an_error(kcoord_cluster: EmbeddedCluster) -> None:
    with (
        LiveFixture(kcoord_cluster.bootstrap) as live,
        pytest.raises(NoGroupSelected, match="the cluster has no groups"),
    ):
        select_groups(live.cluster, everything=True)
