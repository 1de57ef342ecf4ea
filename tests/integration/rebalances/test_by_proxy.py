"""The rebalance scenarios through `kcoord proxy` to a real Kafka of 3 brokers, with either kind of coordinator.

Each is played here with clients in turns; KCOORD_TEST_TARGET (conftest.py) plays all with every client. Two more tests
cover what only a proxy can get wrong: another group than without it, and a broker that is gone in the middle.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import pytest

from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.proxy import ProxyProcess
from tests.clients.group_members.programs import Programs
from tests.integration.conftest import COORDINATING
from tests.integration.rebalances import test_assignors as assignors
from tests.integration.rebalances import test_commits as commits
from tests.integration.rebalances import test_cooperative as cooperative
from tests.integration.rebalances import test_mixed as mixed
from tests.integration.rebalances import test_rebalances as rebalances
from tests.integration.rebalances import test_static as static
from tests.integration.rebalances.group_crew import Crew, coordinated_by
from tests.integration.support.group_scene import GroupScene, StableGeneration
from tests.support.differential.pair import wait_for_coordinators

Scenario = Callable[..., None]

IN_BOTH_WAYS: Final[Mapping[Scenario, tuple[str, str]]] = {
    # The clients: for groups upstream, for groups that the proxy coordinates.
    rebalances.test_a_new_member_gets_its_share_and_gives_it_back_when_it_leaves: ("confluent-kafka", "kafka-python"),
    rebalances.test_a_killed_member_is_missed_when_its_session_runs_out: ("franz-go", "aiokafka"),
    rebalances.test_a_member_that_works_too_long_is_out_until_it_polls_again: ("aiokafka", "confluent-kafka"),
    rebalances.test_added_partitions_are_given_out_in_a_new_generation: ("kafka-python", "franz-go"),
    cooperative.test_a_cooperative_member_gives_back_only_what_moves: ("confluent-kafka", "kafka-python"),
    static.test_a_static_member_that_returns_gets_its_share_without_a_rebalance: ("franz-go", "confluent-kafka"),
    commits.test_what_is_committed_while_giving_back_is_where_the_next_owner_starts: ("aiokafka", "confluent-kafka"),
    commits.test_a_member_that_works_on_may_commit_while_the_others_wait_for_it: ("kafka-python", "franz-go"),
}
IN_ONE_WAY: Final[list[tuple[str, Scenario, tuple[object, ...]]]] = [
    ("upstream", rebalances.test_a_member_that_blocks_a_rebalance_too_long_is_left_behind, ()),
    (
        "upstream",
        assignors.test_a_java_assignor_shares_out_two_topics,
        ("range", ["a-0", "a-1", "b-0", "b-1"], ["a-2", "b-2"]),
    ),
    ("upstream", mixed.test_all_clients_share_a_topic_in_one_group, ()),
    ("local", assignors.test_java_members_with_the_sticky_assignor_keep_what_they_can, ()),
    ("local", mixed.test_a_client_shares_out_to_another_and_leaves_it_everything, ("franz-go", "java")),
    ("local", mixed.test_all_cooperative_clients_hand_over_to_each_other, ()),
]
PLAYS: Final = [
    *(("upstream", scenario, (client,)) for scenario, (client, _) in IN_BOTH_WAYS.items()),
    *(("local", scenario, (client,)) for scenario, (_, client) in IN_BOTH_WAYS.items()),
    *IN_ONE_WAY,
]


@pytest.fixture(scope="module")
def proxies(
    three_brokers: KafkaCluster, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> Iterator[Mapping[str, ProxyProcess]]:
    """The proxies, by the coordinator of groups."""
    with ExitStack() as stack:
        started = {
            coordinate: stack.enter_context(kcoord_proxy_factory(three_brokers.bootstrap, *options))
            for coordinate, options in COORDINATING.items()
        }
        for proxy in started.values():
            host, _, port = proxy.bootstrap.rpartition(":")
            wait_for_coordinators((host, int(port)))
        yield started


@pytest.fixture
def group_bootstrap(request: pytest.FixtureRequest, proxies: Mapping[str, ProxyProcess]) -> str:
    """Overrides the endpoint of all other scenarios, which `scene` requests."""
    return proxies[request.param].bootstrap


@pytest.mark.parametrize(
    ("group_bootstrap", "scenario", "arguments"),
    PLAYS,
    indirect=["group_bootstrap"],
    ids=[f"{coordinate}-{scenario.__name__.removeprefix('test_')}" for coordinate, scenario, _ in PLAYS],
)
def test_it_goes_as_without_a_proxy(scene: GroupScene, scenario: Scenario, arguments: tuple[object, ...]) -> None:
    scenario(scene, *arguments)


def test_a_rebalance_through_the_proxy_gives_the_same_group_as_without_it(
    three_brokers: KafkaCluster, proxies: Mapping[str, ProxyProcess], member_programs: Programs
) -> None:
    """The test compares the owners in each generation, and all answers of the coordinator about the group, except for
    random ids."""
    run = secrets.token_hex(2)
    directly, *_ = three_brokers.bootstrap.split(",")
    bootstraps = {way: proxy.bootstrap for way, proxy in proxies.items()} | {"directly": directly}
    with ExitStack() as stack:
        scenes = {
            way: GroupScene(bootstrap, member_programs, name=f"the-same-{way:_>8}-{run}")
            for way, bootstrap in bootstraps.items()
        }
        stories: dict[str, list[object]] = {}
        for way, scene in scenes.items():
            stack.callback(scene.close)
            stories[way] = story(scene)
    assert stories["upstream"] == stories["directly"]
    assert stories["local"] == stories["directly"]


def story(scene: GroupScene) -> list[object]:
    """Plays a history: three clients join one by one, one leaves."""
    scene.topic(partitions=7)
    members = [scene.start(client, client)[0] for client in ("confluent-kafka", "franz-go", "kafka-python")]
    events: list[object] = []

    def record_stable(*here: Any) -> None:
        events.append((anonymous(scene, scene.wait_until_stable(*here)), described(scene)))

    for count, member in enumerate(members, start=1):
        member.join()
        record_stable(*members[:count])
    members[1].leave()
    record_stable(members[0], members[2])
    scene.conclude()
    return events


def anonymous(scene: GroupScene, stable: StableGeneration) -> object:
    owned = {name: {each.replace(scene.group, "") for each in tps} for name, tps in stable.owned.items()}
    return stable.generation, owned


def described(scene: GroupScene) -> object:
    """Returns the description without ids. The names of groups, and so of topics, have the same lengths."""
    answer = scene.coordinator.answer_of(scene.group)
    group = scene.group.encode()
    members = [
        (
            *(each.client_id, each.client_host, each.group_instance_id),
            *(each.member_metadata.replace(group, b""), each.member_assignment.replace(group, b"")),
        )
        for each in answer.members
    ]
    return answer.group_state, answer.protocol_type, answer.protocol_data, sorted(members)


def test_a_broker_that_coordinates_dies_in_the_middle_of_a_rebalance_and_comes_back(
    three_brokers: KafkaCluster, proxies: Mapping[str, ProxyProcess], member_programs: Programs
) -> None:
    """Both kinds of coordinator are tested at once. Members of groups that the proxy coordinates are sent to the broker
    with the lowest id."""
    victim = min(broker.node for broker in three_brokers.brokers)
    with ExitStack() as stack:
        crews = [
            stack.enter_context(Crew(proxy.bootstrap, coordinated_by(proxy.bootstrap, victim), member_programs))
            for proxy in proxies.values()
        ]
        for crew in crews:
            first, second, third = crew.members
            first.join()
            crew.wait_until_stable(first)
            second.join()
            crew.wait_until_stable(first, second)
            first.pause()
            crew.wait_for(partial(first.events, "paused"), "the pause")
            third.join()
            crew.wait_for(partial(_is_rebalancing, crew), "the rebalance to begin")

        three_brokers.kill(victim)
        for crew in crews:
            crew.members[0].resume()
        for crew in crews:
            assert sorted(map(len, crew.wait_until_stable(*crew.members).values())) == [2, 2, 2]
        three_brokers.restart(victim)
        for crew in crews:
            crew.members[1].leave()
            assert sorted(map(len, crew.wait_until_stable(crew.members[0], crew.members[2]).values())) == [3, 3]
            crew.conclude()
    for proxy in proxies.values():
        assert f"broker missing node={victim}" in proxy.log()
        assert "bug" not in proxy.log()


def _is_rebalancing(crew: Crew) -> bool:
    return crew.state() == "PreparingRebalance"
