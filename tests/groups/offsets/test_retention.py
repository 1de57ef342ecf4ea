"""Retention: offsets expire, and a group without offsets is deleted."""

import pytest

from kcoord.groups.records import GroupDeleted, OffsetDeleted, OffsetsStored
from kcoord.settings import Settings
from tests.support.groups.scene import Scene, subscription

MINUTES = 10
RETENTION = MINUTES * 60.0
NO_OFFSET = -1


@pytest.fixture
def scene() -> Scene:
    """A coordinator that retains offsets for ten minutes."""
    return Scene(offsets_retention_minutes=MINUTES)


def expire(scene: Scene) -> None:
    scene.take(scene.coordinator.expire_offsets(scene.at()))


def offsets(scene: Scene, *topics: str) -> list[int]:
    return [scene.offset(topic).committed_offset for topic in topics]


def group_ids(scene: Scene) -> list[str]:
    return [group.group_id for group in scene.list_groups().groups]


@pytest.mark.fact("T-012")
def test_offsets_are_kept_for_seven_days_unless_it_is_set() -> None:
    settings = Settings()
    assert settings.offsets_retention_minutes == 10_080
    assert settings.offsets_retention_check_interval_ms == 600_000
    scene = Scene()
    scene.commit({("t", 0): 1})
    scene.pass_time(7 * 24 * 60 * 60 - 0.001)
    expire(scene)
    assert offsets(scene, "t") == [1]
    scene.pass_time(0.001)
    expire(scene)
    assert offsets(scene, "t") == [NO_OFFSET]


# Simple groups, without any join.


@pytest.mark.fact("T-016", "T-018")
def test_an_offset_of_a_simple_group_expires_counted_from_its_own_commit(scene: Scene) -> None:
    scene.commit({("t", 0): 1, ("t", 1): 1})
    scene.pass_time(RETENTION / 2)
    scene.commit({("t", 1): 2, ("u", 0): 2})
    scene.pass_time(RETENTION / 2 - 0.001)
    expire(scene)
    assert scene.offset("t", 0).committed_offset == 1
    scene.pass_time(0.001)
    expire(scene)
    assert scene.offset("t", 0).committed_offset == NO_OFFSET
    assert scene.offset("t", 1).committed_offset == 2
    assert offsets(scene, "u") == [2]
    assert scene.records[-1] == OffsetDeleted(group_id="g", topic="t", partition=0)


@pytest.mark.fact("T-019")
def test_a_simple_group_goes_with_its_last_offset(scene: Scene) -> None:
    scene.commit({("t", 0): 1, ("u", 0): 1})
    scene.commit({("t", 0): 1}, group_id="other")
    scene.pass_time(1)
    scene.commit({("t", 0): 2}, group_id="other")
    scene.pass_time(RETENTION - 1)
    expire(scene)
    assert group_ids(scene) == ["other"]
    deletions = [OffsetDeleted(group_id="g", topic=topic, partition=0) for topic in ("t", "u")]
    assert scene.records[-3:] == [*deletions, GroupDeleted(group_id="g")]
    scene.restart()
    assert group_ids(scene) == ["other"]


# A group with members, and without them.


@pytest.mark.fact("T-019")
def test_the_offsets_of_a_group_that_is_empty_expire_counted_from_then(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.commit({("t", 0): 1, ("u", 0): 1}, member_id=member.member_id, generation=1)
    scene.pass_time(5)
    scene.leave(member.member_id)
    scene.commit({("t", 0): 2})
    scene.pass_time(RETENTION - 0.001)
    expire(scene)
    assert offsets(scene, "t", "u") == [2, 1]
    scene.pass_time(0.001)
    expire(scene)
    assert group_ids(scene) == []
    assert scene.records[-1] == GroupDeleted(group_id="g")


def test_a_commit_does_not_prolong_what_an_empty_group_has(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    scene.pass_time(RETENTION - 1)
    scene.commit({("t", 0): 1})
    scene.pass_time(1)
    expire(scene)
    assert offsets(scene, "t") == [NO_OFFSET]


def test_a_restart_does_not_prolong_what_an_empty_group_has(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    scene.leave(member.member_id)
    scene.pass_time(RETENTION - 1)
    scene.restart()
    expire(scene)
    assert offsets(scene, "t") == [1]
    scene.pass_time(1)
    expire(scene)
    assert group_ids(scene) == []


def test_of_an_empty_group_that_does_not_know_since_when_the_commit_counts(scene: Scene) -> None:
    """Old records, of Kafka's versions 0 and 1, have no such time."""
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    scene.coordinator.groups["g"].since_ms = None
    scene.pass_time(RETENTION - 1)
    scene.commit({("t", 0): 1})
    scene.pass_time(RETENTION - 1)
    expire(scene)
    assert offsets(scene, "t") == [1]
    scene.pass_time(1)
    expire(scene)
    assert offsets(scene, "t") == [NO_OFFSET]


@pytest.mark.fact("T-019")
def test_an_empty_group_that_never_had_offsets_goes_at_the_next_look(scene: Scene) -> None:
    scene.join(needs_known_id=True)
    expire(scene)
    assert group_ids(scene) == []
    assert scene.records[-1] == GroupDeleted(group_id="g")


@pytest.mark.fact("T-015")
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_expires_during_a_rebalance(scene: Scene, state: str) -> None:
    protocols = (("range", subscription("u")),)
    (member,) = scene.stable_group(1, protocols=protocols)
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    scene.join(protocols=protocols)
    if state == "CompletingRebalance":
        scene.join(member.member_id, protocols=protocols)
    scene.now += RETENTION  # without a tick, so that no member expires
    expire(scene)
    assert scene.state() == state
    assert offsets(scene, "t") == [1]


@pytest.mark.fact("T-015")
def test_nothing_expires_in_a_group_with_members_of_another_type(scene: Scene) -> None:
    (member,) = scene.stable_group(1, protocol_type="connect", session_timeout=1_800.0)
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    scene.pass_time(RETENTION)
    expire(scene)
    assert offsets(scene, "t") == [1]
    scene.leave(member.member_id)
    scene.pass_time(RETENTION)
    expire(scene)
    assert group_ids(scene) == []


def test_consumers_keep_the_offsets_of_the_topics_that_they_subscribe_to(scene: Scene) -> None:
    (member,) = scene.stable_group(1, protocols=(("range", subscription("t")),), session_timeout=1_800.0)
    scene.commit({("t", 0): 1, ("u", 0): 1}, member_id=member.member_id, generation=1)
    scene.pass_time(RETENTION - 0.001)
    expire(scene)
    assert offsets(scene, "t", "u") == [1, 1]
    scene.pass_time(0.001)
    expire(scene)
    assert offsets(scene, "t", "u") == [1, NO_OFFSET]
    assert scene.state() == "Stable"


def test_nothing_expires_in_a_group_whose_subscriptions_cannot_be_read(scene: Scene) -> None:
    (member,) = scene.stable_group(1, protocols=(("range", b"?"),), session_timeout=1_800.0)
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=1)
    scene.pass_time(RETENTION)
    expire(scene)
    assert offsets(scene, "t") == [1]


# Retention times in commits.


@pytest.mark.fact("T-017")
@pytest.mark.parametrize("retention", [30.0, RETENTION * 3])
@pytest.mark.parametrize("is_simple", [True, False])
def test_an_offset_with_a_time_of_its_own_goes_by_that(scene: Scene, retention: float, is_simple: bool) -> None:
    if not is_simple:
        (member,) = scene.stable_group(1)
        scene.leave(member.member_id)
    scene.pass_time(7)
    scene.commit({("t", 0): 1}, retention=retention)
    scene.pass_time(retention - 0.001)
    expire(scene)
    assert offsets(scene, "t") == [1]
    scene.pass_time(0.001)
    expire(scene)
    assert offsets(scene, "t") == [NO_OFFSET]


# Topics that are deleted.


@pytest.mark.fact("T-028")
def test_the_offsets_of_a_deleted_topic_go_with_it_in_all_groups(scene: Scene) -> None:
    (member,) = scene.stable_group(1, protocols=(("range", subscription("t")),))
    scene.commit({("t", 0): 1, ("t", 1): 1, ("u", 0): 1}, member_id=member.member_id, generation=1)
    scene.commit({("t", 3): 1, ("u", 1): 1}, group_id="other")
    before = len(scene.records)
    scene.delete_topic("t")
    assert {(record.group_id, record.topic, record.partition) for record in _deletions(scene)} == {
        ("g", "t", 0),
        ("g", "t", 1),
        ("other", "t", 3),
    }
    assert len(scene.records) == before + 3
    assert offsets(scene, "t", "u") == [NO_OFFSET, 1]
    assert scene.offset("u", 1, group_id="other").committed_offset == 1
    assert scene.state() == "Stable"


@pytest.mark.fact("T-028")
@pytest.mark.parametrize(("is_known", "left"), [(True, 1), (False, NO_OFFSET)])
def test_offsets_of_a_namesake_stay_if_they_say_whose_they_are(scene: Scene, is_known: bool, left: int) -> None:
    """The deleted topic has no offsets in the group: they belong to the topic that was recreated since."""
    scene.commit({("t", 0): 1})
    (stored,) = scene.records
    assert isinstance(stored, OffsetsStored)
    assert stored.topic_id is not None
    scene.records = [stored if is_known else stored._replace(topic_id=None)]
    scene.restart()
    scene.topics.made += 1
    scene.delete_topic("t")
    scene.topics.partitions["t"] = 4
    assert offsets(scene, "t") == [left]


def _deletions(scene: Scene) -> list[OffsetDeleted]:
    return [record for record in scene.records if isinstance(record, OffsetDeleted)]
