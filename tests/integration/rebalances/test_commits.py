"""Commits while a group rebalances: the next owner starts where the previous one stopped."""

import pytest

from tests.clients.group_members.programs import CLIENTS
from tests.integration.support.group_ledger import times_read
from tests.integration.support.group_member import Member
from tests.integration.support.group_scene import GroupScene

# aiokafka rebalances in the background, however long processing takes.
clients_that_rebalance_when_they_poll = pytest.mark.parametrize(
    "client", [each for each in CLIENTS if each != "aiokafka"]
)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_committed_while_giving_back_is_where_the_next_owner_starts(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    first, second = scene.start(client, "first", "second", commits="when-revoked")
    first.join()
    alone = scene.wait_until_stable(first)
    scene.wait_for_reads(first)
    assert not scene.coordinator.committed(scene.group)

    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)

    (commit,) = first.events("committed")
    assert commit.generation == alone.generation
    assert commit.offsets.keys() == scene.partitions
    assert starts(second) == {partition: commit.offsets[partition] for partition in both.owned["second"]}
    scene.conclude()
    assert set(times_read(scene.members).values()) == {1}


@clients_that_rebalance_when_they_poll
def test_a_member_that_works_on_may_commit_while_the_others_wait_for_it(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    first, second = scene.start(client, "first", "second", commits="when-told")
    first.join()
    alone = scene.wait_until_stable(first)
    scene.wait_for_reads(first)

    first.pause()
    scene.wait_for(lambda: first.events("paused"), "the pause")
    second.join()
    scene.wait_for(lambda: state(scene) == "PreparingRebalance", "the rebalance to begin")
    first.commit()
    (commit,) = scene.wait_for(lambda: first.events("committed"), "the commit")
    assert state(scene) == "PreparingRebalance"
    first.resume()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)

    assert commit.generation == alone.generation
    assert starts(second) == {partition: commit.offsets[partition] for partition in both.owned["second"]}
    assert both.generation == alone.generation + 1
    scene.conclude()


def state(scene: GroupScene) -> str:
    return scene.coordinator.describe(scene.group).state


def starts(member: Member) -> dict[str, int]:
    """Returns the first offset that the member read of each partition."""
    return {event.partition: event.first for event in reversed(member.events("read"))}
