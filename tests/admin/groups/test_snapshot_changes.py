"""The changes that successive snapshots show: states, members, owners and offsets."""

import pytest

from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.snapshot_changes import ChangeDetector, ChangeKind, WatchHistory, changes
from kcoord.admin.model import GroupType, Refusal, Resource
from kcoord.errors import ErrorCode
from tests.support.admin.snapshots import NOW, group, member, seen, snapshot, tp

A = member("a", "t-0", "t-1")
B = member("b", "t-2")


def test_the_first_look_tells_no_change() -> None:
    assert ChangeDetector().observe(snapshot(seen(group(A)))) == ()


def test_a_change_of_state_is_told_with_its_time() -> None:
    (change,) = changes([snapshot(seen(group(A))), snapshot(seen(group(A, state="PreparingRebalance")), after=2)])
    assert (change.kind, change.text, change.at) == (ChangeKind.STATE, "Stable → PreparingRebalance", NOW + 2)


def test_a_rebalance_that_changes_nothing_tells_no_change_of_owner() -> None:
    """A classic group reports no assignment while it rebalances, which is not a loss of partitions."""
    silent = group(member("a", topics=()), state="PreparingRebalance")
    found = changes([snapshot(seen(group(A))), snapshot(seen(silent), after=1), snapshot(seen(group(A)), after=2)])
    assert [change.kind for change in found] == [ChangeKind.STATE, ChangeKind.STATE]


def test_who_left_who_joined_and_who_got_what_is_told() -> None:
    grown = member("a", "t-0", "t-1", "t-2")
    found = changes([snapshot(seen(group(A, B))), snapshot(seen(group(grown)), after=1)])
    assert [(change.kind, change.text) for change in found] == [
        (ChangeKind.MEMBER_LEFT, "b 10.0.0.1 (b-id) left"),
        (ChangeKind.LOST, "b 10.0.0.1 (b-id) lost t 2"),
        (ChangeKind.GAINED, "a 10.0.0.1 (a-id) got t 2"),
    ]
    assert found[1].partitions == (tp("t-2"),)


def test_owners_are_compared_with_what_was_told_last_also_over_a_rebalance() -> None:
    silent = group(member("a", topics=()), member("b", topics=()), state="CompletingRebalance")
    found = changes(
        [
            snapshot(seen(group(A))),
            snapshot(seen(silent), after=1),
            snapshot(seen(group(member("a", "t-0"), B)), after=2),
        ]
    )
    assert [change.text for change in found] == [
        "Stable → CompletingRebalance",
        "b 10.0.0.1 (b-id) joined",
        "CompletingRebalance → Stable",
        "a 10.0.0.1 (a-id) lost t 1",
        "b 10.0.0.1 (b-id) got t 2",
    ]


def test_an_epoch_is_told_of_groups_that_have_one() -> None:
    before, after = (group(A, kind=GroupType.CONSUMER, epoch=epoch) for epoch in (4, 6))
    (change,) = changes([snapshot(seen(before)), snapshot(seen(after), after=1)])
    assert (change.kind, change.text) == (ChangeKind.EPOCH, "epoch 4 → 6")


def test_offsets_that_move_back_are_told() -> None:
    before, after = (seen(group(A), {"t-0": (committed, 0, 100), "t-1": (7, 0, 9)}) for committed in (50, 10))
    (change,) = changes([snapshot(before), snapshot(after, after=1)])
    assert (change.kind, change.text) == (ChangeKind.MOVED_BACK, "committed offsets moved back by 40 records: t 0")


def test_a_group_that_is_deleted_and_made_again_is_told() -> None:
    gone = Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.group_id_not_found)
    found = changes(
        [
            snapshot(seen(group(A))),
            snapshot(after=1, refused=[gone]),
            snapshot(after=2, refused=[gone]),
            snapshot(seen(group(A)), after=3),
        ]
    )
    assert [change.kind for change in found] == [ChangeKind.GROUP_GONE, ChangeKind.GROUP_APPEARED]


def test_a_group_that_is_not_listed_any_more_is_gone_unless_a_broker_was_silent() -> None:
    silent = Refusal(kind=Resource.BROKER, name="2", error=ErrorCode.network_exception)
    listed = snapshot(seen(group(A)), seen(group(name="h")))
    assert [change.group for change in changes([listed, snapshot(seen(group(A)), after=1)])] == ["h"]
    found = changes([listed, snapshot(seen(group(A)), after=1, refused=[silent])])
    assert [change.kind for change in found] == [ChangeKind.REFUSED]


def test_a_refusal_is_told_when_it_begins_and_when_it_ends_and_the_group_is_not_gone() -> None:
    away = Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.coordinator_not_available)
    found = changes(
        [
            snapshot(seen(group(A))),
            snapshot(after=1, refused=[away]),
            snapshot(after=2, refused=[away]),
            snapshot(seen(group(A)), after=3),
        ]
    )
    assert [(change.at - NOW, change.kind, change.group, change.text) for change in found] == [
        (1, ChangeKind.REFUSED, "g", "not told: group g: COORDINATOR_NOT_AVAILABLE"),
        (3, ChangeKind.READABLE_AGAIN, "g", "group g is told again"),
    ]


def _moving(after: float) -> Snapshot:
    """Returns the snapshot after so many seconds of a group that consumes a hundred records each second, and from the
    40th second on nothing; ten are written each second."""
    committed = int(100 * min(after, 40))
    return snapshot(seen(group(A), {"t-0": (committed, 0, 9000 + int(10 * after)), "t-1": (0, 0, 0)}), after=after)


def test_a_watch_tells_the_pace_of_the_last_while_only() -> None:
    watch = WatchHistory(window=30)
    rates = []
    for after in range(0, 81, 2):
        watch.add(_moving(after))
        rates.append(watch.groups()[0].rate.consumed)
    assert rates[1] == rates[20] == 100.0
    assert rates[30] == pytest.approx(100 / 3)  # it moved in ten of the last thirty seconds
    assert rates[40] == 0.0


def test_looks_that_are_further_apart_than_the_window_still_give_a_pace() -> None:
    watch = WatchHistory(window=5)
    for after in (0, 20, 40):
        watch.add(_moving(after))
    assert watch.groups()[0].rate.consumed == 100.0
    assert watch.groups()[0].forecast.seconds == pytest.approx((9000 + 400 - 4000) / 90)


def test_a_cluster_that_cannot_be_reached_is_told_once_and_so_is_its_return() -> None:
    watch = WatchHistory()
    watch.add(snapshot(seen(group(A))))
    assert [change.kind for change in watch.add_failure(NOW + 1, "refused")] == [ChangeKind.UNREACHABLE]
    assert watch.add_failure(NOW + 2, "refused") == ()
    assert str(watch.failure) == "refused"
    back = watch.add(snapshot(seen(group(A, state="Empty")), after=3))
    assert [change.kind for change in back] == [ChangeKind.REACHABLE, ChangeKind.STATE]
    assert (watch.failure, len(watch.changes)) == (None, 3)


def test_a_watch_that_has_seen_nothing_has_no_groups() -> None:
    assert WatchHistory().groups() == []
    assert WatchHistory().latest is None
