"""Members that went and came back, and what would have happened had nobody noticed."""

from kcoord.assignors.replaying.absences import (
    Departure,
    Without,
    find_absences,
    if_members_were_static,
    if_sessions_lasted,
)
from kcoord.assignors.replaying.changes import ChangeKind, changes_of
from kcoord.assignors.replaying.recording import Generation
from kcoord.assignors.replaying.replay import Total, replay
from kcoord.assignors.strategies import STRATEGIES
from tests.assignors.replaying.recordings import generation, member


def restart(away: float, *, last_commit: float | None = 99.0) -> list[Generation]:
    """A group of two members, one of which is gone at 100 s, and back so many seconds later."""
    commit_ms = None if last_commit is None else round(last_commit * 1000)
    return [
        generation(0, 1, member("a-1", [0, 1], last_commit_ms=commit_ms), member("b", [2, 3])),
        generation(100, 2, member("b", [0, 1, 2, 3])),
        generation(100 + away, 3, member("a-2", [0, 1]), member("b", [2, 3])),
    ]


def static(*generations: Generation, session_timeout_ms: int | None = None) -> Without:
    return if_members_were_static(changes_of(generations), session_timeout_ms)


def numbers(without: Without) -> tuple[list[int | None], list[int | None]]:
    """Returns the generations that would still have been, and those that would not."""
    left = [each.first.number for each in without.changes]
    return left, [each.change.first.number for each in without.avoided]


def test_a_member_that_comes_back_with_the_same_client_id_and_host_is_the_same() -> None:
    [absence] = find_absences(changes_of(restart(30)))
    assert (absence.member.member_id, absence.new_id, absence.away_ms) == ("a-1", "a-2", 30_000)
    other_host = restart(30)
    other_host[2] = generation(130, 3, member("a-2", [0, 1], client_host="/10.0.0.9"), member("b", [2, 3]))
    assert find_absences(changes_of(other_host)) == []


def test_a_commit_within_the_session_timeout_shows_that_a_member_left_by_itself() -> None:
    departures = {
        seconds: find_absences(changes_of(restart(30, last_commit=seconds)))[0].departure for seconds in (99, 56, 55)
    }
    assert departures == {99: Departure.LEFT, 56: Departure.LEFT, 55: Departure.EXPIRED}
    assert find_absences(changes_of(restart(30, last_commit=None)))[0].departure is Departure.UNKNOWN


def test_who_expired_was_away_for_its_session_timeout_longer() -> None:
    [absence] = find_absences(changes_of(restart(30, last_commit=10)))
    assert absence.away_ms == 75_000


def test_a_static_member_that_is_back_within_its_session_timeout_is_not_noticed() -> None:
    assert numbers(static(*restart(45))) == ([1], [2, 3])
    assert numbers(static(*restart(46))) == ([1, 2, 3], [])


def test_a_static_member_that_expired_would_have_expired_as_well() -> None:
    assert numbers(static(*restart(1, last_commit=10))) == ([1, 2, 3], [])
    assert numbers(static(*restart(1, last_commit=10), session_timeout_ms=46_000)) == ([1], [2, 3])


def test_a_longer_session_helps_who_expired_and_not_who_left() -> None:
    expired, left = changes_of(restart(30, last_commit=10)), changes_of(restart(30))
    assert numbers(if_sessions_lasted(expired, 75_000)) == ([1], [2, 3])
    assert numbers(if_sessions_lasted(expired, 74_999)) == ([1, 2, 3], [])
    assert numbers(if_sessions_lasted(left, 3_600_000)) == ([1, 2, 3], [])
    unknown = changes_of(restart(30, last_commit=None))
    assert numbers(if_sessions_lasted(unknown, 3_600_000)) == ([1, 2, 3], [])


def test_a_member_that_is_replaced_in_one_rebalance_was_hardly_away() -> None:
    history = [
        generation(0, 1, member("a-1", [0]), member("b", [1])),
        generation(9, 2, member("a-2", [0]), member("b", [1])),
    ]
    without = static(*history)
    assert numbers(without) == ([1], [2])
    [avoided] = without.avoided
    assert [each.new_id for each in avoided.absences] == ["a-2"]


def test_who_already_is_static_gains_nothing_by_being_static() -> None:
    history = [
        generation(0, 1, member("a-1", [0], instance_id="a"), member("b", [1])),
        generation(50, 2, member("b", [0, 1])),
        generation(60, 3, member("a-2", [0], instance_id="a"), member("b", [1])),
    ]
    assert numbers(static(*history)) == ([1, 2, 3], [])
    [absence] = find_absences(changes_of(history))
    assert absence.member.instance_id == "a"


def test_a_group_of_one_that_restarts_would_never_have_been_empty() -> None:
    history = [generation(0, 1, member("a-1", [0])), generation(9, 2), generation(12, 3, member("a-2", [0]))]
    without = static(*history)
    assert numbers(without) == ([1], [2, 3])
    assert [each.change.kind for each in without.avoided] == [ChangeKind.EMPTIED, ChangeKind.CHANGED]


def test_a_member_may_restart_again_and_again() -> None:
    steady = member("b", [1])
    history = [generation(0, 1, member("a-1", [0]), steady)]
    for number in range(1, 5):
        history.append(generation(number * 100, number * 2, member("b", [0, 1])))
        history.append(generation(number * 100 + 10, number * 2 + 1, member(f"a-{number + 1}", [0]), steady))
    without = static(*history)
    assert numbers(without) == ([1], [2, 3, 4, 5, 6, 7, 8, 9])
    assert [each.identity for each in without.changes[-1].members] == ["a-1", "b"]


def test_a_rebalance_that_another_member_caused_as_well_remains_and_is_smaller() -> None:
    history = [
        generation(0, 1, member("a-1", [0, 1]), member("b", [2, 3])),
        generation(100, 2, member("b", [0, 1]), member("c", [2, 3])),
        generation(110, 3, member("a-2", [0, 1]), member("b", [2]), member("c", [3])),
    ]
    without = static(*history)
    assert numbers(without) == ([1, 2], [3])
    assert {each.identity for each in without.changes[1].members} == {"a-1", "b", "c"}


def test_the_rebalance_that_handed_partitions_over_would_not_have_happened_either() -> None:
    cooperative = {"protocol": "cooperative-sticky"}
    history = [
        generation(0, 1, member("a-1", [0]), member("b", [1]), **cooperative),
        generation(9, 2, member("b", [0, 1]), **cooperative),
        generation(12, 3, member("a-2"), member("b", [1]), **cooperative),
        generation(13, 4, member("a-2", [0]), member("b", [1]), **cooperative),
    ]
    [_, avoided] = static(*history).avoided
    assert [each.number for each in avoided.change.recorded] == [3, 4]


def test_with_members_of_the_same_name_each_return_ends_one_absence() -> None:
    def of(*names: str) -> list[object]:
        return [member(name, client_id="same") for name in names]

    history = [
        generation(0, 1, *of("x", "y", "z")),  # type: ignore[arg-type]
        generation(10, 2, *of("z")),  # type: ignore[arg-type]
        generation(12, 3, *of("z", "w")),  # type: ignore[arg-type]
    ]
    without = static(*history)
    assert len(find_absences(changes_of(history))) == 1
    assert numbers(without) == ([1, 2], [3]), "one of two is gone for good"
    assert len(without.changes[1].members) == 2


def test_members_that_are_away_at_once_are_there_in_the_order_in_which_they_come_back() -> None:
    history = [
        generation(0, 1, member("a-1"), member("b-1"), member("c"), member("d")),
        generation(10, 2, member("b-1"), member("c"), member("d")),
        generation(20, 3, member("c"), member("d")),
        generation(25, 4, member("c")),  # d does not come back
        generation(30, 5, member("b-2"), member("c")),
        generation(40, 6, member("a-2"), member("b-2"), member("c")),
    ]
    without = static(*history)
    assert numbers(without) == ([1, 4], [2, 3, 5, 6])
    assert [each.identity for each in without.changes[1].members] == ["c", "b-1", "a-1"]
    assert [[each.new_id for each in avoided.absences] for avoided in without.avoided] == [
        ["a-2"],
        ["b-2"],
        ["b-2"],
        ["a-2"],
    ]


def test_without_times_nothing_is_said_of_absences() -> None:
    history = [Generation(number=each.number, members=each.members, protocol="range") for each in restart(1)]
    assert numbers(static(*history)) == ([1, 2, 3], [])


def test_what_did_not_happen_costs_nothing_under_any_strategy() -> None:
    without = static(*restart(10))
    for strategy in STRATEGIES.values():
        recorded, left = (Total.of(replay(each, strategy)) for each in (changes_of(restart(10)), without.changes))
        assert (left.moved, left.paused) == (0, 0)
        assert recorded.moved > 0


def test_partitions_of_a_member_that_nobody_misses_are_not_read_meanwhile() -> None:
    [absence] = static(*restart(30)).unnoticed
    assert absence.unread_partition_ms == 2 * 30_000
    assert static(*restart(46)).unnoticed == ()
