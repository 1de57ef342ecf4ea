"""Rates at which groups consume and their topics are written."""

from kcoord.admin.groups.group_snapshot import SeenGroup
from kcoord.admin.groups.rates import UNKNOWN_PACE, Pace, paces, total_pace
from tests.admin.snapshots import group, look, member, seen, tp

A = member("a", "t-0", "t-1")


def test_the_pace_is_what_was_committed_and_written_over_all_looks() -> None:
    looks = [
        look(seen(group(A), {"t-0": (committed, 0, end), "t-1": (0, 0, 10)}), after=after)
        for after, committed, end in ((0, 100, 1000), (2, 100, 1020), (4, 300, 1040))
    ]
    pace = paces(looks, "g")
    assert pace[tp("t-0")] == Pace(consumed=50.0, produced=10.0)
    assert pace[tp("t-1")] == Pace(consumed=0.0, produced=0.0)
    assert total_pace(pace.values()) == Pace(consumed=50.0, produced=10.0)


def test_a_reset_is_no_consumption() -> None:
    looks = [
        look(seen(group(A), {"t-0": (committed, 0, 500)}), after=after)
        for after, committed in ((0, 400), (1, 0), (2, 30))
    ]
    assert paces(looks, "g")[tp("t-0")].consumed == 15.0


def test_what_was_not_told_at_one_of_two_looks_has_no_pace() -> None:
    told, uncommitted, silent = (seen(group(A), {"t-0": log}) for log in ((10, 0, 20), (None, 0, 20), None))

    def pace(first: SeenGroup, second: SeenGroup) -> Pace:
        return paces([look(first), look(second, after=1)], "g")[tp("t-0")]

    assert pace(told, uncommitted) == pace(uncommitted, told) == Pace(consumed=None, produced=0.0)
    assert pace(told, silent).produced is pace(silent, told).produced is None


def test_what_one_look_shows_has_no_pace() -> None:
    assert paces([look(seen(group(A)))], "g") == {}
    assert total_pace([]) == UNKNOWN_PACE
    without = [look(seen(group(A), {"t-0": None}), after=after) for after in (0, 1)]
    assert paces(without, "g")[tp("t-0")] == Pace(consumed=0.0, produced=None)
