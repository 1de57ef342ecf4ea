"""Static members (KIP-345) restart without a rebalance: whether they follow or lead, were closed or killed."""

import pytest

from tests.clients.group_members.programs import CLIENTS
from tests.integration.support.group_member import Member
from tests.integration.support.group_scene import GroupScene


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_that_returns_gets_its_share_without_a_rebalance(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    leader, returned_leader = scene.start(client, "leader", "leader", instance_id="a")
    follower, returned_follower = scene.start(client, "follower", "follower", instance_id="b")
    leader.join()
    scene.wait_until_stable(leader)
    follower.join()
    both = scene.wait_until_stable(leader, follower)
    scene.wait_for_reads(follower)
    known = len(ownership(leader))

    follower.leave()
    returned_follower.join()
    after_follower = scene.wait_until_stable(leader, returned_follower)
    scene.wait_for_reads(returned_follower)
    leader.kill()
    returned_leader.join()
    after_leader = scene.wait_until_stable(returned_leader, returned_follower)
    scene.wait_for_reads(returned_leader)

    assert after_follower == after_leader == both
    assert len(ownership(leader)) == known
    assert len(ownership(returned_follower)) == 1
    assert follower.member_id != returned_follower.member_id
    scene.conclude()


def ownership(member: Member) -> list[object]:
    return [event for event in member.events() if event.owned is not None]
