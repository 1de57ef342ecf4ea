"""Alarms of deadlines and their cost, which is nothing for groups in which nothing is due."""

import heapq
from collections import Counter
from typing import Any

import pytest

from kcoord.groups import deadlines
from kcoord.groups.deadlines import Deadline, Deadlines, Purpose
from kcoord.groups.effects import NO_EFFECTS
from kcoord.groups.records import GroupStored, StoredMember
from kcoord.groups.requests import Heartbeat
from kcoord.tickets import Ticket
from tests.support.groups.scene import Scene

SESSION = 45.0


class CountingHeap:
    """A heapq that counts its calls."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.used[name] += 1
        return getattr(heapq, name)


@pytest.fixture
def heap(monkeypatch: pytest.MonkeyPatch) -> CountingHeap:
    counting = CountingHeap()
    monkeypatch.setattr(deadlines, "heapq", counting)
    return counting


def named(name: str) -> Deadline:
    return Deadline(Purpose.SESSION, "g", name)


def due(alarms: Deadlines, now: float) -> list[str]:
    return [deadline.member_id for deadline in alarms.take_due(now)]


# One by one.


def test_deadlines_are_taken_when_they_have_come_the_earliest_first() -> None:
    alarms = Deadlines()
    for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        alarms.set(named(name), at)
    assert due(alarms, 0.999) == []
    taken = list(alarms.take_due(2.0))
    assert [deadline.member_id for deadline in taken] == ["a", "b"]
    assert [deadline.at for deadline in taken] == [None, None]
    assert due(alarms, 2.0) == []
    assert due(alarms, 9.0) == ["c"]
    assert alarms.next() is None


def test_a_deadline_that_moved_on_is_taken_at_its_new_time_and_once() -> None:
    alarms, moving = Deadlines(), named("moving")
    for at in (1.0, 5.0, 3.0):
        alarms.set(moving, at)
    assert due(alarms, 2.999) == []
    assert due(alarms, 3.0) == ["moving"]
    assert due(alarms, 99.0) == []


def test_a_deadline_that_moved_nearer_is_taken_at_its_new_time_and_once() -> None:
    alarms, moving = Deadlines(), named("moving")
    alarms.set(moving, 5.0)
    alarms.set(moving, 1.0)
    assert alarms.next() == 1.0
    assert due(alarms, 1.0) == ["moving"]
    assert due(alarms, 99.0) == []


def test_deadlines_that_moved_on_are_still_taken_in_their_order() -> None:
    alarms, moved, other = Deadlines(), named("moved"), named("other")
    alarms.set(moved, 1.0)
    alarms.set(other, 2.0)
    alarms.set(moved, 3.0)
    assert due(alarms, 9.0) == ["other", "moved"]


def test_a_deadline_that_is_cleared_is_not_taken_until_it_is_set_again() -> None:
    alarms, cleared = Deadlines(), named("cleared")
    alarms.set(cleared, 1.0)
    alarms.clear(cleared)
    assert due(alarms, 1.0) == []
    alarms.set(cleared, 2.0)
    assert due(alarms, 2.0) == ["cleared"]


def test_what_is_done_about_one_deadline_may_clear_or_move_the_next() -> None:
    alarms = Deadlines()
    first, cleared, moved, last = (named(name) for name in ("first", "cleared", "moved", "last"))
    for number, deadline in enumerate((first, cleared, moved, last)):
        alarms.set(deadline, float(number))
    taken = []
    for deadline in alarms.take_due(3.0):
        taken.append(deadline)
        if deadline is first:
            alarms.clear(cleared)
            alarms.set(moved, 4.0)
    assert taken == [first, last]
    assert due(alarms, 4.0) == ["moved"]


def test_what_is_set_to_a_time_that_has_come_is_taken_in_the_same_go() -> None:
    alarms, first, second = Deadlines(), named("first"), named("second")
    alarms.set(first, 1.0)
    taken = []
    for deadline in alarms.take_due(5.0):
        taken.append(deadline)
        if deadline is first:
            alarms.set(second, 5.0)
    assert taken == [first, second]


def test_members_that_come_and_go_leave_no_alarms_behind() -> None:
    alarms = Deadlines()
    for number in range(10_000):
        passing = named(str(number))
        alarms.set(passing, 1_000.0 + number)
        alarms.clear(passing)
    assert len(alarms) <= 200


def test_when_idle_alarms_are_dropped_the_others_stay() -> None:
    alarms = Deadlines()
    staying = [named(f"staying {number}") for number in range(50)]
    for deadline in staying:
        alarms.set(deadline, 1.0)
        alarms.set(deadline, 10.0)
    for number in range(1_000):
        passing = named(str(number))
        alarms.set(passing, 5.0)
        alarms.clear(passing)
    assert due(alarms, 9.0) == []
    assert len(due(alarms, 10.0)) == 50


# Many.


def test_of_100_000_members_those_that_are_not_due_cost_nothing(heap: CountingHeap) -> None:
    scene = _crowd(groups=10_000, members=10)
    coordinator, alarms = scene.coordinator, scene.coordinator._deadlines
    assert heap.used == {"heappush": 100_000}
    heap.used.clear()
    for _ in range(4):
        scene.now += 10
        _heartbeats(scene)
        assert coordinator.tick(scene.at()) == NO_EFFECTS
    assert heap.used == {}, "four heartbeats of each of 100,000 members, four ticks"
    assert len(alarms) == 100_000
    # An alarm rings once per session timeout, however many heartbeats arrive meanwhile, and is set again.
    scene.now += 5
    assert coordinator.tick(scene.at()) == NO_EFFECTS
    assert heap.used == {"heappop": 100_000, "heappush": 100_000}
    assert len(alarms) == 100_000
    # One of them is due: no other is visited.
    heap.used.clear()
    alarms.set(coordinator.groups["g77"].members["g77-3"].session, scene.now + 1)
    assert coordinator.deadline() == scene.now + 1
    scene.now += 1
    effects = coordinator.tick(scene.at())
    assert {event.group_id for event in effects.events} == {"g77"}
    assert heap.used == {"heappop": 1, "heappush": 2}, "its alarm rang; the join phase of its group has one now"
    assert {group_id for group_id, group in coordinator.groups.items() if len(group.members) != 10} == {"g77"}


def _crowd(*, groups: int, members: int) -> Scene:
    """Makes many stable groups, as after a restart."""
    scene = Scene()
    for number in range(groups):
        scene.coordinator.replay(_stable(f"g{number}", members))
    scene.take(scene.coordinator.resume(scene.at()))
    return scene


def _heartbeats(scene: Scene) -> None:
    at = scene.at()
    for group in scene.coordinator.groups.values():
        for member_id in group.members:
            request = Heartbeat(group_id=group.group_id, member_id=member_id, instance_id=None, generation=1)
            scene.coordinator.heartbeat(request, Ticket(0), at)


def _stable(group_id: str, members: int) -> GroupStored:
    return GroupStored(
        group_id=group_id,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader_id=f"{group_id}-0",
        since_ms=0,
        members=tuple(
            StoredMember(
                member_id=f"{group_id}-{number}",
                instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                session_timeout=SESSION,
                rebalance_timeout=60.0,
                subscription=b"",
                assignment=b"",
            )
            for number in range(members)
        ),
    )
