"""The admin client over our own connections to three embedded brokers."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from kcoord.admin.groups.snapshot_reader import read_snapshot, read_summaries
from kcoord.admin.model import (
    Bounds,
    Committed,
    FoundOffset,
    GroupType,
    MemberToRemove,
    Refusal,
    Resource,
    TopicPartition,
)
from kcoord.admin.wire.cluster import WireCluster
from kcoord.admin.wire.times import ROOM_FOR_ONE
from kcoord.errors import ErrorCode
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, orders

NONE = ErrorCode.none
FIRST_TIME = 1_700_000_000_000
ESCAPES = "\x1b[31mred\n\u202e"


@pytest.fixture(scope="module")
def live(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[LiveFixture]:
    """A cluster with four partitions of ten records each, a second apart, in two batches."""
    cluster = kcoord_cluster_factory(brokers=3, topics={"orders": 4, "large": 3, "short": 1, "empty": 1})
    with LiveFixture(cluster.bootstrap) as live:
        records = [Record(timestamp=FIRST_TIME + 1000 * number, value=b"v") for number in range(10)]
        for number in range(4):
            live.produce(tp(number), records[:6], records[6:], codec=Codec.LZ4)
        yield live
    cluster.stop()


@pytest.fixture
def cluster(live: LiveFixture) -> WireCluster:
    return live.cluster


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A group name for one test."""
    return f"group-{next(_numbers)}"


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


# Groups


def test_groups_of_all_coordinators_are_listed_and_described(cluster: WireCluster, name: str) -> None:
    names = [f"{name}-{number}" for number in range(30)]
    for each in names:
        cluster.commit(each, {tp(0): Committed(1)})
    listed = cluster.list_groups().found
    described = cluster.describe_groups(names)
    assert {listed[each].coordinator for each in names} == {1, 2, 3} == set(cluster.nodes())
    assert described.found.keys() == set(names)
    assert {each: group.coordinator.id for each, group in described.found.items()} == {
        each: listed[each].coordinator for each in names
    }
    assert {group.state for group in described.found.values()} == {"Empty"}
    assert not described.refused


def test_a_group_with_a_member_is_described_with_what_the_member_has(live: LiveFixture, name: str) -> None:
    member_id = live.join(name, assignment=orders(3, 1), instance_id="worker")
    group = live.cluster.describe_groups([name]).found[name]
    assert (group.type, group.state, group.protocol_type, group.protocol) == (
        *(GroupType.CLASSIC, "Stable"),
        *("consumer", "range"),
    )
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.client_id) == (member_id, "worker", "kcoord")
    assert member.host.endswith("127.0.0.1")
    assert (member.assignment, member.subscription) == ((tp(1), tp(3)), ("orders",))
    assert group.owners == {tp(1): member, tp(3): member}


def test_groups_that_are_not_there_are_refused_and_the_others_told(cluster: WireCluster, name: str) -> None:
    cluster.commit(name, {tp(0): Committed(1)})
    described = cluster.describe_groups(["nobody", name])
    assert list(described.found) == [name]
    assert [str(refusal) for refusal in described.refused] == [
        "group nobody: GROUP_ID_NOT_FOUND (there is no such group)"
    ]
    assert cluster.committed(["nobody"]).found == {"nobody": {}}


def test_groups_are_described_together_with_what_they_have_committed(cluster: WireCluster, name: str) -> None:
    names = [f"{name}-{number}" for number in range(30)]
    for number, each in enumerate(names):
        cluster.commit(each, {tp(0): Committed(number)})
    described, committed = cluster.describe_with_commits(["nobody", *names])
    assert described == cluster.describe_groups(["nobody", *names])
    assert committed == cluster.committed(names)


def test_nothing_is_asked_for_no_groups_and_no_partitions(cluster: WireCluster) -> None:
    for answers in (cluster.describe_groups([]), cluster.committed([]), cluster.bounds([]), cluster.timestamps([])):
        assert (answers.found, answers.refused) == ({}, ())
    assert cluster.commit("nobody", {}).found == {}


def test_groups_are_filtered_by_state_and_type(live: LiveFixture, name: str) -> None:
    stable, empty = f"{name}-stable", f"{name}-empty"
    live.join(stable, assignment=b"")
    live.cluster.commit(empty, {tp(0): Committed(1)})

    def listed(**filters: list[str]) -> set[str]:
        return {each for each in live.cluster.list_groups(**filters).found if each.startswith(name)}

    assert listed(states=["Stable"]) == {stable}
    assert listed(states=["empty"]) == {empty}
    assert listed(states=["Empty", "Stable"], types=["classic"]) == {stable, empty}
    assert listed(types=["share", "consumer"]) == set()


def test_bytes_of_connect_and_malformed_assignments_are_not_taken_for_partitions(live: LiveFixture, name: str) -> None:
    connect, broken = f"{name}-connect", f"{name}-broken"
    live.join(connect, protocol_type="connect", subscription=b"\xff\0", assignment=orders(1))
    live.join(broken, subscription=b"\0", assignment=b"\0\0\x7f\xff\xff\xff")
    found = live.cluster.describe_groups([connect, broken]).found
    assert found[connect].protocol_type == "connect"
    for group in found.values():
        assert (group.members[0].assignment, group.members[0].subscription, group.owners) == (None, None, {})


@pytest.mark.parametrize("odd", [ESCAPES, "分散システム", "a" * 2000, " blank ", "-x"])
def test_names_are_as_the_cluster_has_them(cluster: WireCluster, odd: str) -> None:
    cluster.commit(odd, {tp(0): Committed(1, metadata=ESCAPES)})
    assert cluster.list_groups().found[odd].name == odd
    assert cluster.describe_groups([odd]).found[odd].state == "Empty"
    assert cluster.committed([odd]).found[odd][tp(0)].metadata == ESCAPES


# Logs


def test_bounds_are_told_of_all_leaders_and_what_is_not_there_is_refused(cluster: WireCluster) -> None:
    asked = [*map(tp, range(4)), tp(9), tp(0, "nowhere"), tp(0, "empty")]
    bounds = cluster.bounds(asked)
    assert bounds.found == {**{tp(number): Bounds(0, 10) for number in range(4)}, tp(0, "empty"): Bounds(0, 0)}
    assert set(cluster.topics(["orders"]).found["orders"].leaders.values()) == {1, 2, 3}
    unknown = ErrorCode.unknown_topic_or_partition
    assert {(refusal.what, refusal.error) for refusal in bounds.refused} == {
        ("partition orders-9", unknown),
        ("topic nowhere", unknown),
    }


def test_offsets_are_found_by_time(cluster: WireCluster) -> None:
    asked = {tp(0): FIRST_TIME + 6500, tp(1): 0, tp(2): FIRST_TIME + 10**6, tp(0, "empty"): 0}
    found = cluster.offsets_at(asked).found
    assert found[tp(0)][:2] == (7, FIRST_TIME + 7000)
    assert found[tp(1)][:2] == (0, FIRST_TIME)
    assert found[tp(2)][:2] == found[tp(0, "empty")][:2] == FoundOffset(-1, -1)[:2]


def test_several_positions_of_one_partition_each_have_their_time(cluster: WireCluster) -> None:
    positions = [(tp(0), offset) for offset in (0, 5, 6, 9)] + [(tp(3), 2)]
    assert cluster.timestamps(positions).found == {
        (each, offset): FIRST_TIME + 1000 * offset for each, offset in positions
    }


def test_at_the_end_of_a_log_there_is_no_time_and_beyond_it_a_refusal(cluster: WireCluster) -> None:
    answers = cluster.timestamps([(tp(0), 10), (tp(0, "empty"), 0)])
    assert (answers.found, answers.refused) == ({}, ())
    beyond = cluster.timestamps([(tp(0), 11), (tp(1), 1)])
    assert beyond.found == {(tp(1), 1): FIRST_TIME + 1000}
    assert beyond.refused == (
        Refusal(
            kind=Resource.TOPIC, name="orders", error=ErrorCode.offset_out_of_range, message="the times of its records"
        ),
    )


def test_batches_larger_than_a_look_have_their_times_too(live: LiveFixture) -> None:
    filler = bytes(range(256)) * (ROOM_FOR_ONE // 64)
    for number in range(3):
        large = [Record(timestamp=FIRST_TIME + each, value=filler) for each in range(3)]
        live.produce(tp(number, "large"), large, large)
    positions = [(tp(number, "large"), offset) for number in range(3) for offset in (0, 2, 4)]
    found = live.cluster.timestamps(positions).found
    assert found == {(each, offset): FIRST_TIME + offset % 3 for each, offset in positions}
    alone = [(tp(number, "large"), 1) for number in range(3)]
    assert live.cluster.timestamps(alone).found == dict.fromkeys(alone, FIRST_TIME + 1)


def test_a_look_counts_from_the_start_of_the_log_where_a_group_fell_behind_it(live: LiveFixture, name: str) -> None:
    records = [Record(timestamp=FIRST_TIME + 1000 * number, value=b"v") for number in range(10)]
    live.produce(tp(0, "short"), *[[record] for record in records])
    live.delete_records(tp(0, "short"), before=4)
    offsets = {tp(0, "short"): Committed(1), tp(0): Committed(10), tp(1): Committed(12), tp(2): Committed(3)}
    live.cluster.commit(name, offsets)
    now = FIRST_TIME / 1000 + 100
    seen = read_snapshot(live.cluster, [name], at=now, with_times=True)
    assert seen.refused == ()
    at_end, beyond, behind, below = seen.groups[name].partitions
    assert [each.lag for each in (at_end, beyond, behind, below)] == [0, -2, 7, 9]
    assert [each.lag_seconds(now) for each in (at_end, beyond, behind, below)] == [0, None, 97, 96]
    assert below.bounds == Bounds(4, 10)
    assert read_summaries(live.cluster, [name]).groups == {name: (seen.groups[name].group, ("orders", "short"), 16)}


def test_groups_are_looked_at_in_the_order_in_which_they_are_named(live: LiveFixture, name: str) -> None:
    names = [f"{name}-{letter}" for letter in "bca"]
    for each in names:
        live.cluster.commit(each, {tp(0): Committed(1)})
    steps: list[int] = []
    seen = read_snapshot(live.cluster, [*names, "nobody"], at=0.0, with_times=False, advance=steps.append)
    assert list(seen.groups) == names
    assert [refusal.what for refusal in seen.refused] == ["group nobody"]
    assert sum(steps) == 4
    added_up = read_summaries(live.cluster, [*names, "nobody"], advance=steps.append)
    assert (list(added_up.groups), added_up.refused, sum(steps)) == (names, seen.refused, 8)
    assert {each.next_record_at for group in seen.groups.values() for each in group.partitions} == {None}


# Changing


def test_a_commit_as_no_member_keeps_epoch_and_metadata(cluster: WireCluster, name: str) -> None:
    offsets = {tp(0): Committed(4, 0, "by hand"), tp(1): Committed(9)}
    done = cluster.commit(name, offsets)
    assert (done.found, done.refused) == (dict.fromkeys(offsets, NONE), ())
    assert cluster.committed([name]).found == {name: offsets}


def test_a_commit_says_which_partitions_were_not_taken(cluster: WireCluster, name: str) -> None:
    done = cluster.commit(
        name, {tp(0): Committed(1), tp(0, "nowhere"): Committed(1), tp(1): Committed(1, -1, "x" * 5000)}
    )
    assert done.found == {
        tp(0): NONE,
        tp(0, "nowhere"): ErrorCode.unknown_topic_or_partition,
        tp(1): ErrorCode.offset_metadata_too_large,
    }
    assert sorted(map(str, done.refused)) == [
        f"group {name}, partition nowhere-0: UNKNOWN_TOPIC_OR_PARTITION",
        f"group {name}, partition orders-1: OFFSET_METADATA_TOO_LARGE",
    ]


def test_the_broker_itself_refuses_a_commit_once_there_is_a_member(live: LiveFixture, name: str) -> None:
    live.cluster.commit(name, {tp(0): Committed(1)})
    live.join(name, assignment=orders(0))
    done = live.cluster.commit(name, {tp(0): Committed(5)})
    assert done.found == {tp(0): ErrorCode.unknown_member_id}
    assert len(done.refused) == 1
    assert live.cluster.committed([name]).found[name][tp(0)].offset == 1


def test_offsets_are_deleted_but_not_those_of_a_subscribed_topic(live: LiveFixture, name: str) -> None:
    live.cluster.commit(name, {tp(0): Committed(1), tp(0, "short"): Committed(1)})
    live.join(name, assignment=orders(0))
    done = live.cluster.delete_offsets(name, [tp(0), tp(0, "short")])
    assert done.found == {tp(0): ErrorCode.group_subscribed_to_topic, tp(0, "short"): NONE}
    assert [str(refusal) for refusal in done.refused] == [
        f"group {name}, partition orders-0: GROUP_SUBSCRIBED_TO_TOPIC"
    ]
    assert live.cluster.committed([name]).found[name].keys() == {tp(0)}


def test_offsets_of_a_group_that_is_not_there_are_not_deleted(cluster: WireCluster) -> None:
    done = cluster.delete_offsets("nobody", [tp(0)])
    assert done.found == {tp(0): ErrorCode.group_id_not_found}
    assert [refusal.what for refusal in done.refused] == ["group nobody"]


def test_groups_are_deleted_but_not_those_with_members(live: LiveFixture, name: str) -> None:
    busy, idle = f"{name}-busy", f"{name}-idle"
    live.join(busy, assignment=orders(0))
    live.cluster.commit(idle, {tp(0): Committed(1)})
    done = live.cluster.delete_groups([idle, "nobody", busy])
    assert done.found == {
        idle: NONE,
        "nobody": ErrorCode.group_id_not_found,
        busy: ErrorCode.non_empty_group,
    }
    assert {refusal.what for refusal in done.refused} == {"group nobody", f"group {busy}"}
    listed = live.cluster.list_groups().found
    assert busy in listed
    assert idle not in listed


def test_members_are_removed_by_member_id_and_by_instance_id(live: LiveFixture, name: str) -> None:
    for group, instance_id in ((f"{name}-dynamic", None), (f"{name}-static", "worker")):
        member_id = live.join(group, assignment=orders(0), instance_id=instance_id)
        stranger = MemberToRemove(member_id="stranger")
        going = MemberToRemove(member_id=member_id, instance_id=instance_id)
        done = live.cluster.remove_members(group, [stranger, going], reason="test")
        assert done.found == {stranger: ErrorCode.unknown_member_id, going: NONE}
        assert [str(refusal) for refusal in done.refused] == [f"group {group}, member stranger: UNKNOWN_MEMBER_ID"]
        assert live.cluster.describe_groups([group]).found[group].state == "Empty"


def test_a_static_member_that_has_come_back_is_not_removed(live: LiveFixture, name: str) -> None:
    live.join(name, assignment=orders(0), instance_id="worker")
    old = MemberToRemove(member_id="worker-who-was-here", instance_id="worker")
    assert live.cluster.remove_members(name, [old], reason="test").found == {old: ErrorCode.fenced_instance_id}
    assert len(live.cluster.describe_groups([name]).found[name].members) == 1
