"""Deadlines expire after arrived requests are decided, on a loop whose clock and iterations the test controls."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from kcoord.groups.deadlines import Deadline, Deadlines, Purpose
from kcoord.server.connection.draining import ITERATIONS, LONGEST_GRACE, DeferredExpiry

SESSION = 6.0


class FakeTimer:
    def __init__(self, at: float, act: Callable[[], None]) -> None:
        self.at, self.act, self.is_cancelled = at, act, False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """A loop that polls sockets, then timers, then runs scheduled calls, as asyncio does in one iteration."""

    def __init__(self) -> None:
        self.now = 100.0
        self.in_sockets: list[Callable[[], None]] = []
        self.timers: list[FakeTimer] = []
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, act: Callable[..., None], *values: Any) -> None:
        self.ready.append(lambda: act(*values))

    def call_later(self, delay: float, act: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(self.now + delay, act))
        return self.timers[-1]

    def iterate(self, times: int = 1) -> None:
        for _ in range(times):
            ready, self.ready = self.ready, []
            read, self.in_sockets = self.in_sockets, []
            self.ready += read  # it is decided in the iteration after the one that read it
            due = [timer for timer in self.timers if timer.at <= self.now]
            self.timers = [timer for timer in self.timers if timer.at > self.now]
            for act in [*(timer.act for timer in due if not timer.is_cancelled), *ready]:
                act()


class Stage:
    """Members with sessions, whose timer begins a deferred expiry as the server's does."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.deadlines = Deadlines()
        self.sessions: dict[str, Deadline] = {}
        self.expelled: list[str] = []
        self.judgement = DeferredExpiry(cast(asyncio.AbstractEventLoop, self.loop), lambda: self.loop.now, self._judge)

    def join(self, *names: str) -> None:
        for name in names:
            self.sessions[name] = Deadline(Purpose.SESSION, "g", name)
            self.beat(name)

    def beat(self, name: str) -> None:
        self.deadlines.set(self.sessions[name], self.loop.now + SESSION)

    def ring(self) -> None:
        due = self.deadlines.next()
        assert due is not None
        if self.deadlines.has_due(self.loop.now):
            self.judgement.begin(due, self.loop.now)

    def _judge(self, passed_by: float) -> None:
        self.expelled += [deadline.member_id for deadline in self.deadlines.take_due(passed_by)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_heartbeats_that_lie_in_the_sockets_are_decided_before_sessions_are_judged(stage: Stage) -> None:
    stage.join("alive", "silent")
    stage.loop.now += 8
    stage.loop.in_sockets.append(lambda: stage.beat("alive"))
    stage.ring()
    stage.loop.now += LONGEST_GRACE
    stage.loop.iterate(ITERATIONS + 2)
    assert stage.expelled == ["silent"]


def test_an_alarm_that_rings_on_time_waits_for_some_iterations_alone(stage: Stage) -> None:
    stage.join("alive", "silent")
    stage.loop.now += SESSION
    stage.loop.in_sockets.append(lambda: stage.beat("alive"))
    stage.ring()
    stage.loop.iterate(2)
    assert stage.expelled == []
    stage.loop.iterate(ITERATIONS)
    assert stage.expelled == ["silent"], "and no time has passed"


def test_who_waited_for_an_answer_meanwhile_may_speak_first(stage: Stage) -> None:
    stage.join("answered late", "silent")
    stage.loop.now += SESSION + 0.5
    stage.ring()
    stage.loop.iterate(3 * ITERATIONS)
    assert stage.expelled == []
    stage.loop.now += 0.4
    stage.beat("answered late")
    stage.loop.now += 0.2
    stage.loop.iterate(ITERATIONS + 1)
    assert stage.expelled == ["silent"]


def test_a_flood_of_requests_does_not_postpone_a_deadline_for_ever(stage: Stage) -> None:
    stage.join("silent")
    stage.loop.now += 3600

    def flood() -> None:
        stage.loop.in_sockets.append(flood)

    flood()
    stage.ring()
    stage.loop.now += LONGEST_GRACE
    stage.loop.iterate(ITERATIONS + 1)
    assert stage.expelled == ["silent"]


def test_a_deadline_that_passes_while_another_is_put_off_waits_no_further_grace(stage: Stage) -> None:
    stage.join("first")
    stage.loop.now += 0.5
    stage.join("second")
    stage.loop.now += SESSION - 0.1
    stage.ring()
    stage.loop.now += 0.5
    stage.loop.iterate(ITERATIONS + 1)
    assert stage.expelled == ["first"]
    stage.ring()
    stage.loop.iterate(ITERATIONS + 1)
    assert stage.expelled == ["first", "second"]


def test_an_alarm_that_rings_early_judges_nothing(stage: Stage) -> None:
    stage.join("alive")
    stage.loop.now += 5
    stage.beat("alive")
    stage.loop.now += 1
    stage.ring()
    assert not stage.judgement.is_pending
    assert stage.deadlines.next() == stage.loop.now + 5


def test_nothing_is_judged_once_it_is_closed(stage: Stage) -> None:
    stage.join("silent")
    stage.loop.now += 8
    stage.ring()
    stage.judgement.close()
    stage.loop.now += LONGEST_GRACE
    stage.loop.iterate(ITERATIONS + 2)
    assert stage.expelled == []
