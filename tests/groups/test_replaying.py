"""Replay of records that other coordinators may have written."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.records import GroupDeleted, GroupStored, OffsetDeleted, OffsetsStored, Record, StoredMember
from tests.support.groups.scene import WALL_START_MS, Scene, subscription


def stored_member(member_id: str, instance_id: str | None = None) -> StoredMember:
    return StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10.0,
        rebalance_timeout=60.0,
        subscription=subscription("t"),
        assignment=f"assignment of {member_id}".encode(),
    )


def stored_group(*members: StoredMember, generation: int = 5, protocol_type: str | None = "consumer") -> GroupStored:
    return GroupStored(
        group_id="g",
        generation=generation,
        protocol_type=protocol_type,
        protocol="range" if members else None,
        leader_id=members[0].member_id if members else None,
        since_ms=WALL_START_MS,
        members=members,
    )


def stored_offsets(**offsets: int) -> OffsetsStored:
    """Returns a record of offsets given by partition: p0=7."""
    partitions = tuple(int(name[1:]) for name in offsets)
    nothing = tuple("" for _ in offsets)
    return OffsetsStored("g", "t", partitions, tuple(offsets.values()), (-1,) * len(offsets), nothing, WALL_START_MS)


def recovered(*records: Record) -> Scene:
    scene = Scene()
    scene.records = list(records)
    scene.restart()
    return scene


RANGE = (("range", subscription("t")),)


@pytest.mark.fact("P-005")
def test_a_group_with_members_is_stable_and_one_without_is_empty() -> None:
    assert recovered(stored_group(stored_member("m"))).state() == "Stable"
    assert recovered(stored_group()).state() == "Empty"


@pytest.mark.fact("P-007", "P-032")
def test_an_empty_group_keeps_its_protocol_type_and_its_generations_go_on() -> None:
    scene = recovered(stored_group(generation=5))
    assert scene.describe().protocol_type == "consumer"
    assert scene.join(protocol_type="connect").reply.generation_id == 6, "who comes first says of what type it is"


@pytest.mark.fact("P-010", "P-046")
def test_members_go_on_and_are_given_their_assignments_again() -> None:
    scene = recovered(stored_group(stored_member("m"), stored_member("n")))
    assert scene.heartbeat("n", 5).error_code is ErrorCode.none
    assert scene.heartbeat("n", 4).error_code is ErrorCode.illegal_generation
    assert scene.sync("n", 5).reply.assignment == b"assignment of n"


@pytest.mark.fact("P-044")
def test_the_leader_of_old_begins_a_rebalance_and_a_follower_is_answered_at_once() -> None:
    scene = recovered(stored_group(stored_member("m"), stored_member("n")))
    reply = scene.join("n", protocols=RANGE).reply
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (5, "m", "range")
    assert scene.join("m", protocols=RANGE).is_parked


def test_a_follower_that_offers_more_than_was_chosen_begins_a_rebalance_too() -> None:
    """Records have the selected protocol only, so the others that the member offers look new."""
    scene = recovered(stored_group(stored_member("m"), stored_member("n")))
    assert scene.join("n", protocols=(*RANGE, ("roundrobin", b"x"))).is_parked


@pytest.mark.fact("P-045")
def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance() -> None:
    scene = recovered(stored_group(stored_member("m", "i"), stored_member("n", "j")))
    reply = scene.join("", "j", protocols=RANGE).reply
    assert (reply.error_code, reply.generation_id) == (ErrorCode.none, 5)
    assert reply.member_id != "n"
    assert scene.state() == "Stable"
    assert scene.heartbeat("n", 5, instance_id="j").error_code is ErrorCode.fenced_instance_id


@pytest.mark.fact("P-013")
def test_offsets_without_a_group_make_a_simple_one() -> None:
    scene = recovered(stored_offsets(p0=7))
    (line,) = scene.list_groups().groups
    assert (line.group_type, line.group_state, line.protocol_type) == ("classic", "Empty", "")
    assert scene.commit({("t", 0): 8}).topics[0].partitions[0].error_code is ErrorCode.none


def test_offsets_that_stand_before_their_group_are_kept_when_it_comes() -> None:
    scene = recovered(stored_offsets(p0=7), stored_group(stored_member("m")), stored_offsets(p1=8))
    assert [scene.offset(partition=partition).committed_offset for partition in (0, 1)] == [7, 8]


@pytest.mark.fact("P-004")
def test_what_was_deleted_stays_gone() -> None:
    gone: list[Record] = [OffsetDeleted(group_id="g", topic="t", partition=0), GroupDeleted(group_id="g")]
    scene = recovered(stored_group(), stored_offsets(p0=7), *gone)
    assert scene.list_groups().groups == ()
    assert scene.offset().committed_offset == -1
    assert scene.join().reply.generation_id == 1


@pytest.mark.parametrize("tombstone", [GroupDeleted(group_id="g"), OffsetDeleted(group_id="g", topic="t", partition=0)])
def test_a_tombstone_for_what_never_was_changes_nothing(tombstone: Record) -> None:
    """Compaction may have left only the tombstone."""
    assert recovered(tombstone).list_groups().groups == ()


def test_offsets_alone_are_left_of_a_group_whose_record_was_deleted() -> None:
    scene = recovered(stored_group(), stored_offsets(p0=7), GroupDeleted(group_id="g"))
    (line,) = scene.list_groups().groups
    assert line.protocol_type == ""
    assert scene.offset().committed_offset == 7
