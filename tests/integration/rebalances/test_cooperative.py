"""Cooperative rebalances (KIP-429): members retain what stays theirs, and hand over the rest in two generations."""

import pytest

from tests.clients.group_members.programs import COOPERATIVE_CLIENTS
from tests.integration.support.group_ledger import plans
from tests.integration.support.group_member import Member
from tests.integration.support.group_scene import GroupScene


@pytest.mark.parametrize("client", COOPERATIVE_CLIENTS)
def test_a_cooperative_member_gives_back_only_what_moves(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    first, second = scene.start(client, "first", "second", assignor="cooperative-sticky")
    first.join()
    alone = scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)

    assert both.shares() == {"first": 2, "second": 2}
    assert both.generation == alone.generation + 2
    unmoved, moved = both.owned["first"], both.owned["second"]
    # The second may not have got its empty share: the next rebalance begins as soon as the first has given back.
    between = plans(scene.members)[alone.generation + 1]
    assert between["first"] == unmoved
    assert not between.get("second")
    assert given_back(first) == moved

    second.leave()
    again = scene.wait_until_stable(first)

    assert again.owned == {"first": scene.partitions}
    assert again.generation == both.generation + 1
    assert given_back(first) == moved
    scene.conclude()


def given_back(member: Member) -> frozenset[str]:
    return frozenset().union(*(event.partitions for event in member.events("revoked", "lost")))
