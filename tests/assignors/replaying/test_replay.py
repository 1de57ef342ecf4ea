"""What changes of a group cost under each strategy."""

import pytest

from kcoord.assignors.replaying.changes import changes_of
from kcoord.assignors.replaying.comparing import Question, compare_history
from kcoord.assignors.replaying.recording import Generation, Recording
from kcoord.assignors.replaying.replay import Cost, Total, recorded_costs, replay
from kcoord.assignors.strategies import STRATEGIES
from tests.assignors.replaying.recordings import TOPIC, generation, member

COOPERATIVE = "cooperative-sticky"
SIX = range(6)


def costs(strategy: str, *generations: Generation) -> list[Cost]:
    return replay(changes_of(generations), STRATEGIES[strategy])


def total(strategy: str, *generations: Generation) -> Total:
    return Total.of(costs(strategy, *generations))


def joining() -> list[Generation]:
    """A group of one member with six partitions, that a second one joins, and that the first one leaves."""
    return [
        generation(0, 1, member("a", SIX)),
        generation(10, 2, member("a", [0, 1, 2]), member("b", [3, 4, 5])),
        generation(20, 3, member("b", SIX)),
    ]


def test_under_an_eager_strategy_all_partitions_pause_at_each_rebalance() -> None:
    first, second, third = costs("range", *joining())
    assert (first.rebalances, first.moved, first.started, first.paused) == (1, 0, 6, 0)
    assert (second.rebalances, second.moved, second.started, second.paused) == (1, 3, 0, 6)
    assert (third.rebalances, third.moved, third.started, third.paused) == (1, 3, 0, 6)


def test_under_a_cooperative_strategy_what_moves_pauses_and_a_second_rebalance_hands_it_over() -> None:
    _, second, third = costs(COOPERATIVE, *joining())
    assert (second.rebalances, second.moved, second.paused) == (2, 3, 3)
    assert (third.rebalances, third.moved, third.paused) == (1, 3, 3), "what nobody has any more is given at once"


def test_under_a_strategy_of_the_coordinator_there_is_no_rebalance() -> None:
    _, second, third = costs("uniform", *joining())
    assert (second.rebalances, second.moved, second.paused) == (0, 3, 3)
    assert (third.rebalances, third.moved, third.paused) == (0, 3, 3)


def test_pauses_are_those_of_the_recorded_rebalance_for_each_paused_partition() -> None:
    history = total("range", *joining())
    assert (history.paused, history.least_partition_ms, history.partition_ms) == (12, 1_200, 36_000)
    served = replay(changes_of(joining()), STRATEGIES["uniform"], heartbeat_ms=2000)
    assert (Total.of(served).least_partition_ms, Total.of(served).partition_ms) == (None, 12_000)


def test_a_pause_that_is_not_known_is_not_added_but_counted() -> None:
    first, second, third = joining()
    untimed = Generation(number=2, written_ms=10_000, members=second.members, protocol="range")
    history = total("range", first, untimed, third)
    assert (history.partition_ms, history.least_partition_ms, history.untimed) == (18_000, 600, 1)
    nothing = total("range", first, untimed)
    assert (nothing.partition_ms, nothing.least_partition_ms, nothing.untimed) == (None, None, 1)
    assert total("range", first).partition_ms == 0, "nothing paused"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rebalance_without_a_change_moves_nothing(strategy: str) -> None:
    pair = (member("a", [0, 1, 2]), member("b", [3, 4, 5]))
    _, again = costs(strategy, generation(0, 1, *pair), generation(1, 2, *pair))
    is_eager = STRATEGIES[strategy].style == "eager"
    assert (again.moved, again.paused) == (0, 6 if is_eager else 0)
    assert again.rebalances == (0 if STRATEGIES[strategy].is_server_side else 1)


def test_each_strategy_starts_from_its_previous_plan_and_not_from_what_was_recorded() -> None:
    # The recorded strategy swaps all partitions between its members when a third one comes and goes.
    pair = (member("a", [0, 1]), member("b", [2, 3]))
    swapped = (member("a", [2, 3]), member("b", [0, 1]))
    lone = member("c", topics=())
    history = [generation(0, 1, *pair), generation(1, 2, *swapped, lone), generation(2, 3, *pair)]
    assert Total.of(recorded_costs(changes_of(history))).moved == 8
    assert total("sticky", *history).moved == 0
    assert total("range", *history).moved == 0


def test_sticky_moves_less_than_range_when_a_member_comes_and_goes() -> None:
    three = (member("a", [0, 1]), member("b", [2, 3]), member("c", [4, 5]))
    history = [
        generation(0, 1, *three),
        generation(1, 2, member("b", [0, 1, 2]), member("c", [3, 4, 5])),
        generation(2, 3, *three),
    ]
    assert total("sticky", *history).moved == 4
    assert total("range", *history).moved == 6


def test_a_group_that_was_empty_starts_anew_and_nothing_has_moved() -> None:
    history = [generation(0, 1, member("a", SIX)), generation(1, 2), generation(9, 3, member("b", SIX))]
    for strategy in STRATEGIES:
        _, again = costs(strategy, *history)
        assert (again.moved, again.started, again.paused) == (0, 6, 0)
    assert [each.moved for each in recorded_costs(changes_of(history))] == [0, 0]


def test_what_the_first_generation_of_an_older_group_cost_is_not_known_and_not_counted() -> None:
    first, *others = joining()
    older = Generation(number=8, written_ms=0, members=first.members, protocol="range")
    later = [Generation(number=9, written_ms=10, members=others[0].members, protocol="range")]
    assert [each.generation for each in costs("range", older, *later)] == [9]
    assert [each.generation for each in recorded_costs(changes_of([older, *later]))] == [9]


def test_a_static_member_with_a_new_member_id_has_moved_nothing() -> None:
    history = [
        generation(0, 1, member("a-1", [0, 1], instance_id="a"), member("b", [2, 3])),
        generation(5, 1, member("a-2", [0, 1], instance_id="a"), member("b", [2, 3])),
        generation(9, 2, member("a-3", [0, 1], instance_id="a"), member("b", [2, 3])),
    ]
    for strategy in ("range", "uniform"):
        first, last = costs(strategy, *history)
        assert (first.generation, last.generation, last.moved) == (1, 2, 0)
    assert [each.moved for each in recorded_costs(changes_of(history))] == [0, 0]


def test_only_a_coordinator_remembers_what_a_restarted_static_member_had() -> None:
    # Members a, b and c; a is restarted while c leaves: two of its partitions' owner has forgotten them.
    before = [member("a-1", [], instance_id="x"), member("b", []), member("c", [])]
    counts = {TOPIC: 6}
    changes = changes_of(
        [generation(0, 1, *before), generation(9, 2, member("a-2", instance_id="x"), member("b"))], counts
    )
    assert replay(changes, STRATEGIES["uniform"])[1].moved == 2, "those of c"
    assert replay(changes, STRATEGIES["sticky"])[1].moved >= 2


def test_recorded_rebalances_cost_what_their_assignments_show() -> None:
    history = [
        generation(0, 1, member("a", [0, 1]), protocol=COOPERATIVE),
        generation(1, 2, member("a", [0]), member("b"), protocol=COOPERATIVE),
        generation(2, 3, member("a", [0]), member("b", [1]), protocol=COOPERATIVE),
    ]
    recorded = recorded_costs(changes_of(history))
    assert [(each.rebalances, each.moved, each.paused) for each in recorded] == [(1, 0, 0), (1, 0, 1), (1, 1, 0)]
    eager = [generation(each.written_ms or 0, each.number or 0, *each.members) for each in history]
    assert [each.paused for each in recorded_costs(changes_of(eager))] == [0, 2, 1]


def test_the_recorded_strategy_replayed_costs_what_was_recorded() -> None:
    recorded, replayed = recorded_costs(changes_of(joining())), costs("range", *joining())
    assert recorded == replayed


def test_the_spread_is_that_of_the_plan() -> None:
    pair = [member("a", topics=(TOPIC, "other")), member("b", topics=(TOPIC, "other"))]
    changes = changes_of([generation(0, 1, *pair)], {TOPIC: 3, "other": 3})
    assert {name: replay(changes, each)[0].spread for name, each in STRATEGIES.items()} == {
        "range": 2,
        "roundrobin": 0,
        "sticky": 0,
        "cooperative-sticky": 0,
        "uniform": 0,
        "server-range": 2,
    }


def test_a_comparison_reports_each_strategy_that_it_has_replayed() -> None:
    reported: list[int] = []
    recording = Recording(group="g", generations=tuple(joining()))
    question = Question(strategies=("range", "sticky"), session_timeout_ms=60_000)
    history = compare_history(recording, question, lambda: reported.append(1))
    assert len(reported) == 2
    rows = [history.replayed, *(each.replayed for each in history.what_ifs)]
    assert [[each.strategy for each in row] for row in rows] == [["range", "sticky"]] * 3
