"""Real clients rebalance: members join, leave, die, are slow, and get new partitions. Every client plays each part.

A scenario checks the owners in its generations, and ends with `conclude`: no partition had two owners in any
generation, the coordinator showed the plans that the members report, every record was read and everything is committed.
Records are written all the time.
"""

import time

import pytest

from tests.clients.group_members.programs import CLIENTS
from tests.integration.support.group_ledger import offsets_read
from tests.integration.support.group_scene import GroupScene

every_client = pytest.mark.parametrize("client", CLIENTS)
# franz-go has no max.poll.interval.ms.
clients_that_must_poll = pytest.mark.parametrize("client", [each for each in CLIENTS if each != "franz-go"])


@every_client
def test_a_new_member_gets_its_share_and_gives_it_back_when_it_leaves(scene: GroupScene, client: str) -> None:
    topic = scene.topic(partitions=4)
    first, second = scene.start(client, "first", "second")

    first.join()
    alone = scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)
    second.leave()
    again = scene.wait_until_stable(first)

    assert alone.owned == {"first": scene.partitions}
    assert both.owned == {"first": {f"{topic}-0", f"{topic}-1"}, "second": {f"{topic}-2", f"{topic}-3"}}
    assert again.owned == {"first": scene.partitions}
    assert [both.generation, again.generation] == [alone.generation + 1, alone.generation + 2]
    scene.conclude()


@every_client
def test_a_killed_member_is_missed_when_its_session_runs_out(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    session = 3.0
    (first,) = scene.start(client, "first")
    (second,) = scene.start(client, "second", session_timeout_ms=int(1000 * session), commits="when-told")
    first.join()
    scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)

    second.kill()
    killed_at = time.time()
    assert second.member_id in scene.coordinator.describe(scene.group).assignments
    without = scene.wait_until_stable(first)

    assert without.owned == {"first": scene.partitions}
    assert without.generation == both.generation + 1
    assert without.at - killed_at > session / 2
    scene.conclude()
    lost_work, done_again = offsets_read([second]), offsets_read([first])
    assert all(lost_work[partition] <= done_again[partition] for partition in both.owned["second"])


@clients_that_must_poll
def test_a_member_that_works_too_long_is_out_until_it_polls_again(scene: GroupScene, client: str) -> None:
    scene.topic(partitions=4)
    (other,) = scene.start(client, "other")
    (slow,) = scene.start(client, "slow", session_timeout_ms=2500, max_poll_interval_ms=3000, commits="when-told")
    other.join()
    scene.wait_until_stable(other)
    slow.join()
    both = scene.wait_until_stable(other, slow)
    scene.wait_for_reads(slow)

    slow.pause()
    without = scene.wait_until_stable(other)
    slow.commit()
    scene.wait_for(lambda: slow.events("refused"), "the late commit to be refused")
    slow.resume()
    again = scene.wait_until_stable(other, slow)

    assert without.owned == {"other": scene.partitions}
    assert again.owned == both.owned
    assert [without.generation, again.generation] == [both.generation + 1, both.generation + 2]
    assert not slow.events("committed")
    scene.conclude()


def test_a_member_that_blocks_a_rebalance_too_long_is_left_behind(scene: GroupScene) -> None:
    """A slow member of franz-go is removed when others have waited the rebalance timeout for it."""
    scene.topic(partitions=6)
    slow, other, third = scene.start(
        "franz-go", "slow", "other", "third", max_poll_interval_ms=3000, commits="when-told"
    )
    slow.join()
    scene.wait_until_stable(slow)
    other.join()
    both = scene.wait_until_stable(slow, other)
    scene.wait_for_reads(slow)

    slow.pause()
    scene.wait_for(lambda: slow.events("paused"), "the pause")
    third.join()
    without = scene.wait_until_stable(other, third)
    slow.commit()
    scene.wait_for(lambda: slow.events("refused"), "the late commit to be refused")
    slow.resume()
    again = scene.wait_until_stable(slow, other, third)

    assert without.shares() == {"other": 3, "third": 3}
    assert again.shares() == {"slow": 2, "other": 2, "third": 2}
    assert [without.generation, again.generation] == [both.generation + 1, both.generation + 2]
    scene.conclude()


@every_client
def test_added_partitions_are_given_out_in_a_new_generation(scene: GroupScene, client: str) -> None:
    topic = scene.topic(partitions=4)
    first, second = scene.start(client, "first", "second", metadata_max_age_ms=500)
    first.join()
    scene.wait_until_stable(first)
    second.join()
    both = scene.wait_until_stable(first, second)

    scene.add_partitions(topic, count=6)
    more = scene.wait_until_stable(first, second)
    scene.wait_for_reads(second)

    assert both.owned == {"first": {f"{topic}-0", f"{topic}-1"}, "second": {f"{topic}-2", f"{topic}-3"}}
    assert more.owned["first"] == {f"{topic}-0", f"{topic}-1", f"{topic}-2"}
    assert more.owned["second"] == {f"{topic}-3", f"{topic}-4", f"{topic}-5"}
    assert more.generation == both.generation + 1
    scene.conclude()
