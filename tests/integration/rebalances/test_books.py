"""The ledger of the rebalance scenarios detects violations."""

from dataclasses import dataclass, field, replace

import pytest

from tests.integration.support import group_ledger as ledger
from tests.integration.support.group_member import Event


@dataclass
class ScriptedMember:
    """A member with scripted events."""

    owner: str
    is_running: bool = True
    was_paused: bool = False
    history: list[Event] = field(default_factory=list)

    def events(self, *kinds: str) -> list[Event]:
        return [event for event in self.history if not kinds or event.kind in kinds]

    def assigned(self, generation: int, *owned: str, at: float) -> "ScriptedMember":
        return self._add("assigned", generation, at, partitions=frozenset(owned), owned=frozenset(owned))

    def revoked(self, generation: int, *partitions: str, leaving: str = "", at: float) -> "ScriptedMember":
        return self._add("revoked", generation, at, partitions=frozenset(partitions), owned=frozenset(leaving.split()))

    def read(self, partition: str, first: int, last: int) -> "ScriptedMember":
        return self._add("read", 1, 0.0, partition=partition, first=first, last=last)

    def _add(self, kind: str, generation: int, at: float, **what: object) -> "ScriptedMember":
        event = Event(kind=kind, at=at, generation=generation, member=f"{self.owner}-id")
        self.history.append(replace(event, **what))  # type: ignore[arg-type]  # the fields of an event
        return self


def test_a_hand_over_in_order_is_accepted() -> None:
    """Eager: all is given back in generation 1, before it is assigned in generation 2."""
    members = [
        ScriptedMember("a").assigned(1, "t-0", "t-1", at=1).revoked(1, "t-0", "t-1", at=2).assigned(2, "t-0", at=3),
        ScriptedMember("b").assigned(2, "t-1", at=3),
    ]
    assert ledger.plans(members) == {1: {"a": {"t-0", "t-1"}}, 2: {"a": {"t-0"}, "b": {"t-1"}}}
    ledger.assert_nobody_owned_twice(members)
    ledger.assert_given_back_before_given_on(members)
    ledger.assert_the_coordinator_agrees(members, [shown(a="t-0 t-1"), shown(a="t-0", b="t-1")])


def test_what_is_revoked_in_a_new_generation_is_not_a_share_of_it() -> None:
    """Cooperative: the first event of generation 2 is what has to be given back."""
    member = ScriptedMember("a").assigned(1, "t-0", "t-1", at=1).revoked(2, "t-1", leaving="t-0", at=2)
    assert ledger.plans([member]) == {1: {"a": {"t-0", "t-1"}}, 2: {"a": {"t-0"}}}


def test_two_owners_in_one_generation_are_noticed() -> None:
    members = [ScriptedMember("a").assigned(1, "t-0", at=1), ScriptedMember("b").assigned(1, "t-0", at=2)]
    with pytest.raises(AssertionError, match="in generation 1"):
        ledger.assert_nobody_owned_twice(members)


def test_two_holders_at_one_time_are_noticed_across_generations() -> None:
    members = [
        ScriptedMember("a").assigned(1, "t-0", at=1).revoked(1, "t-0", at=3),
        ScriptedMember("b").assigned(2, "t-0", at=2),
    ]
    ledger.assert_nobody_owned_twice(members)
    with pytest.raises(AssertionError, match="still 1"):
        ledger.assert_given_back_before_given_on(members)


def test_a_plan_of_the_coordinator_that_nobody_tells_is_noticed() -> None:
    members = [
        ScriptedMember("a").assigned(1, "t-0", "t-1", at=1).assigned(2, "t-0", at=2),
        ScriptedMember("b").assigned(2, "t-1", at=2),
    ]
    with pytest.raises(AssertionError, match="what the coordinator showed"):
        ledger.assert_the_coordinator_agrees(members, [shown(a="t-0", b="t-0")])


def test_plans_of_the_coordinator_in_another_order_are_noticed() -> None:
    members = [
        ScriptedMember("a").assigned(1, "t-0", "t-1", at=1).assigned(2, "t-0", at=2),
        ScriptedMember("b").assigned(2, "t-1", at=2),
    ]
    with pytest.raises(AssertionError, match="from 2 on"):
        ledger.assert_the_coordinator_agrees(members, [shown(a="t-0", b="t-1"), shown(a="t-0 t-1")])


def test_a_generation_that_goes_back_is_noticed() -> None:
    with pytest.raises(AssertionError, match="went back"):
        ledger.assert_generations_grew([ScriptedMember("a").assigned(2, at=1).assigned(1, at=2)])


def test_reading_without_owning_is_noticed() -> None:
    with pytest.raises(AssertionError, match="does not own"):
        ledger.assert_read_by_owners([ScriptedMember("a").assigned(1, "t-0", at=1).read("t-1", 0, 9)])


def test_a_record_that_nobody_has_read_is_noticed() -> None:
    members = [ScriptedMember("a").read("t-0", 0, 4), ScriptedMember("b").read("t-0", 4, 5).read("t-0", 7, 9)]
    assert ledger.unread(members, {"t-0": 10, "t-1": 1}) == {"t-0": [6], "t-1": [0]}
    assert ledger.times_read(members)["t-0", 4] == 2


def shown(**assignments: str) -> ledger.Plan:
    return {f"{owner}-id": frozenset(partitions.split()) for owner, partitions in assignments.items()}
