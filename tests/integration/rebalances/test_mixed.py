"""Different clients in one group parse each other's subscriptions and assignments."""

import pytest

from tests.clients.group_members.programs import CLIENTS, COOPERATIVE_CLIENTS
from tests.integration.support.group_ledger import Plan
from tests.integration.support.group_scene import GroupScene

# Each leads its right neighbour.
RING = tuple(zip(CLIENTS, CLIENTS[1:] + CLIENTS[:1], strict=True))


@pytest.mark.parametrize(("leader", "follower"), RING)
def test_a_client_shares_out_to_another_and_leaves_it_everything(scene: GroupScene, leader: str, follower: str) -> None:
    topic = scene.topic(partitions=5)
    (first,), (second,) = scene.start(leader, "first"), scene.start(follower, "second")

    first.join()
    alone = scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)
    first.leave()
    left = scene.wait_until_stable(second)

    assert both.owned == in_ranges(topic, 5, ["first", "second"])
    assert left.owned == {"second": scene.partitions}
    assert [both.generation, left.generation] == [alone.generation + 1, alone.generation + 2]
    scene.conclude()


def test_all_clients_share_a_topic_in_one_group(scene: GroupScene) -> None:
    """The first to join is the first to leave, so that others have to lead."""
    topic = scene.topic(partitions=7)
    members = [scene.start(client, client)[0] for client in CLIENTS]
    for member in members:
        member.join()
    together = scene.wait_until_stable(*members)
    assert together.owned == in_ranges(topic, 7, list(CLIENTS))

    for gone, member in enumerate(members[:-1], start=1):
        member.leave()
        rest = scene.wait_until_stable(*members[gone:])
        assert rest.owned == in_ranges(topic, 7, list(CLIENTS[gone:]))
    scene.conclude()


def test_all_cooperative_clients_hand_over_to_each_other(scene: GroupScene) -> None:
    scene.topic(partitions=8)
    members = [scene.start(client, client, assignor="cooperative-sticky")[0] for client in COOPERATIVE_CLIENTS]
    for count, member in enumerate(members, start=1):
        member.join()
        assert is_balanced(scene.wait_until_stable(*members[:count]).owned)

    for gone, member in enumerate(members[:-1], start=1):
        member.leave()
        assert is_balanced(scene.wait_until_stable(*members[gone:]).owned)
    scene.conclude()


def in_ranges(topic: str, partitions: int, names: list[str]) -> Plan:
    """Computes the range assignor's plan: adjacent partitions in the order of member ids, which begin with the
    names."""
    each, more = divmod(partitions, len(names))
    plan: Plan = {}
    start = 0
    for rank, name in enumerate(sorted(names)):
        end = start + each + (rank < more)
        plan[name] = frozenset(f"{topic}-{index}" for index in range(start, end))
        start = end
    return plan


def is_balanced(plan: Plan) -> bool:
    shares = [len(partitions) for partitions in plan.values()]
    return max(shares) - min(shares) <= 1
