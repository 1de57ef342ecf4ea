"""Rates at which groups consume and their topics are written."""

from kcoord.admin.groups.group_snapshot import GroupSnapshot
from kcoord.admin.groups.rates import UNKNOWN_RATE, Rate, partition_rates, total_rate
from tests.support.admin.snapshots import group, member, seen, snapshot, tp

A = member("a", "t-0", "t-1")


def test_the_pace_is_what_was_committed_and_written_over_all_looks() -> None:
    snapshots = [
        snapshot(seen(group(A), {"t-0": (committed, 0, end), "t-1": (0, 0, 10)}), after=after)
        for after, committed, end in ((0, 100, 1000), (2, 100, 1020), (4, 300, 1040))
    ]
    pace = partition_rates(snapshots, "g")
    assert pace[tp("t-0")] == Rate(consumed=50.0, produced=10.0)
    assert pace[tp("t-1")] == Rate(consumed=0.0, produced=0.0)
    assert total_rate(pace.values()) == Rate(consumed=50.0, produced=10.0)


def test_a_reset_is_no_consumption() -> None:
    snapshots = [
        snapshot(seen(group(A), {"t-0": (committed, 0, 500)}), after=after)
        for after, committed in ((0, 400), (1, 0), (2, 30))
    ]
    assert partition_rates(snapshots, "g")[tp("t-0")].consumed == 15.0


def test_what_was_not_told_at_one_of_two_looks_has_no_pace() -> None:
    known, uncommitted, silent = (seen(group(A), {"t-0": log}) for log in ((10, 0, 20), (None, 0, 20), None))

    def pace(first: GroupSnapshot, second: GroupSnapshot) -> Rate:
        return partition_rates([snapshot(first), snapshot(second, after=1)], "g")[tp("t-0")]

    assert pace(known, uncommitted) == pace(uncommitted, known) == Rate(consumed=None, produced=0.0)
    assert pace(known, silent).produced is pace(silent, known).produced is None


def test_what_one_look_shows_has_no_pace() -> None:
    assert partition_rates([snapshot(seen(group(A)))], "g") == {}
    assert total_rate([]) == UNKNOWN_RATE
    without = [snapshot(seen(group(A), {"t-0": None}), after=after) for after in (0, 1)]
    assert partition_rates(without, "g")[tp("t-0")] == Rate(consumed=0.0, produced=None)
