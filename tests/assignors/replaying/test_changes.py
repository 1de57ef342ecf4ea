"""What counts as a change of a group, whichever strategy its members had."""

import pytest

from kcoord.assignors.replaying.changes import ChangeKind, WrongCount, changes_of
from kcoord.assignors.replaying.recording import Generation
from tests.assignors.replaying.recordings import TOPIC, generation, member

COOPERATIVE = "cooperative-sticky"


def kinds(*generations: Generation) -> list[ChangeKind]:
    return [each.kind for each in changes_of(generations)]


def test_a_log_that_begins_later_than_the_group_does_not_tell_what_the_first_generation_changed() -> None:
    assert kinds(generation(0, 7, member("a", [0]))) == [ChangeKind.BEGINNING]
    assert kinds(generation(0, 1, member("a", [0]))) == [ChangeKind.CHANGED]


def test_the_empty_record_of_a_new_group_is_no_change() -> None:
    assert kinds(generation(0, 0), generation(1, 1, member("a", [0]))) == [ChangeKind.CHANGED]


def test_a_group_that_becomes_empty_is_emptied_once() -> None:
    records = [generation(0, 1, member("a", [0])), generation(1, 2), generation(2, 0, is_deletion=True)]
    assert kinds(*records) == [ChangeKind.CHANGED, ChangeKind.EMPTIED]


def test_the_second_rebalance_of_a_cooperative_strategy_belongs_to_the_change_of_the_first() -> None:
    changes = changes_of(
        [
            generation(0, 1, member("a", [0, 1]), protocol=COOPERATIVE),
            generation(1, 2, member("a", [0]), member("b"), protocol=COOPERATIVE),
            generation(2, 3, member("a", [0]), member("b", [1]), protocol=COOPERATIVE),
        ]
    )
    assert [[each.number for each in change.recorded] for change in changes] == [[1], [2, 3]]
    assert [change.counts for change in changes] == [{TOPIC: 2}, {TOPIC: 2}]


def test_an_unknown_protocol_is_cooperative_if_members_bring_what_they_own() -> None:
    taken = generation(1, 2, member("a", [0], claims=True), member("b"), protocol="mine")
    given = generation(2, 3, member("a", [0], claims=True), member("b", [1]), protocol="mine")
    before = generation(0, 1, member("a", [0, 1]), protocol="mine")
    assert kinds(before, taken, given) == [ChangeKind.CHANGED, ChangeKind.CHANGED]
    eager = [generation(each.written_ms or 0, each.number or 0, *each.members) for each in (before, taken, given)]
    assert kinds(*eager) == [ChangeKind.CHANGED, ChangeKind.CHANGED, ChangeKind.UNEXPLAINED]


def test_a_static_member_that_comes_back_without_a_rebalance_is_no_rebalance() -> None:
    changes = kinds(
        generation(0, 1, member("a-1", [0], instance_id="a")), generation(9, 1, member("a-2", [0], instance_id="a"))
    )
    assert changes == [ChangeKind.CHANGED, ChangeKind.RETURNED]
    assert not ChangeKind.RETURNED.is_rebalance


def test_a_record_that_says_nothing_new_is_no_change() -> None:
    assert kinds(generation(0, 1, member("a", [0])), generation(1, 1, member("a", [0]))) == [ChangeKind.CHANGED]


def test_a_rebalance_of_the_same_members_is_explained_by_new_partitions_or_not_at_all() -> None:
    changes = changes_of(
        [
            generation(0, 1, member("a", [0, 1])),
            generation(1, 2, member("a", [0, 1])),
            generation(2, 3, member("a", [0, 1, 2])),
        ]
    )
    assert [each.kind for each in changes] == [ChangeKind.CHANGED, ChangeKind.UNEXPLAINED, ChangeKind.CHANGED]
    assert [each.counts[TOPIC] for each in changes] == [2, 2, 3]


def test_another_subscription_of_the_same_members_is_a_change() -> None:
    before, after = member("a", [0]), member("a", [0], topics=(TOPIC, "more"))
    assert kinds(generation(0, 1, before), generation(1, 2, after)) == [ChangeKind.CHANGED, ChangeKind.CHANGED]


def test_a_topic_has_all_partitions_that_were_ever_assigned_even_if_the_group_was_deleted() -> None:
    changes = changes_of(
        [
            generation(0, 1, member("a", [0, 1, 2])),
            generation(1, 2, member("a", [0]), member("b", [1])),
            generation(2, 0, is_deletion=True),
            generation(3, 1, member("c", [0])),
        ]
    )
    assert [change.counts for change in changes] == [{TOPIC: 3}] * 4


def test_numbers_of_partitions_that_are_known_count_more_than_the_assignments() -> None:
    generations = [generation(0, 1, member("a", [0, 1])), generation(1, 2, member("a", [0, 1, 2]))]
    changes = changes_of(generations, {TOPIC: 5, "other": 1})
    assert [change.counts for change in changes] == [{TOPIC: 5, "other": 1}] * 2
    assert changes[1].kind is ChangeKind.UNEXPLAINED
    with pytest.raises(WrongCount, match="orders has 2 partitions, but 2 was assigned"):
        changes_of(generations, {TOPIC: 2})
