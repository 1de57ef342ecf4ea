"""Event rounds: all connections decide, then answers leave."""

import asyncio
from collections.abc import Callable

import pytest

from kcoord.groups.instant import Instant
from kcoord.server.connection.event_round import DecideCallback, EventRound


def run(script: Callable[[EventRound, list[str]], None], *, drain: Callable[[], None] | None = None) -> list[str]:
    """Runs all rounds that the script schedules and returns the events in order."""
    happened: list[str] = []

    async def main() -> None:
        turns = EventRound(
            asyncio.get_running_loop(),
            lambda: Instant(1.0, 1),
            drain=drain or (lambda: happened.append(",")),
            flush=lambda: happened.append("-"),
            on_end=lambda: happened.append("."),
        )
        script(turns, happened)
        for _ in range(20):
            await asyncio.sleep(0)
        turns.cancel()

    asyncio.run(main())
    return happened


def test_all_have_their_turn_and_what_they_decided_is_kept_before_anything_leaves() -> None:
    def script(turns: EventRound, happened: list[str]) -> None:
        def turn_of(name: str) -> DecideCallback:
            def turn(at: Instant) -> None:
                happened.append(name)
                turns.defer_send(lambda: happened.append(name.upper()))

            return turn

        turns.defer_decide(turn_of("a"))
        turns.defer_decide(turn_of("b"))

    assert run(script) == ["a", "b", ",", "-", "A", "B", "."]


def test_who_asks_again_within_a_turn_comes_after_those_who_are_read_meanwhile() -> None:
    def script(turns: EventRound, happened: list[str]) -> None:
        def first(at: Instant) -> None:
            happened.append("first")
            turns.defer_decide(lambda at: happened.append("again"))

        turns.defer_decide(first)

    assert run(script) == ["first", ",", "-", ".", "again", ",", "-", "."]


def test_a_fault_in_one_turn_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    def script(turns: EventRound, happened: list[str]) -> None:
        def fail(*at: Instant) -> None:
            raise KeyError("ours")

        turns.defer_decide(fail)
        turns.defer_decide(lambda at: happened.append("a"))
        turns.defer_send(fail)
        turns.defer_send(lambda: happened.append("A"))

    assert run(script) == ["a", ",", "-", "A", "."]
    messages = [record.message for record in caplog.records]
    assert messages == ["bug: a turn could not be taken", "bug: answers could not be sent"]


def test_a_fault_in_settling_keeps_no_answer_and_no_later_round_from_being_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise KeyError("ours")

    def script(turns: EventRound, happened: list[str]) -> None:
        turns.defer_decide(lambda at: turns.defer_send(lambda: happened.append("A")))
        turns.defer_decide(lambda at: turns.defer_decide(lambda at: happened.append("again")))

    assert run(script, drain=fail) == ["-", "A", ".", "again", "-", "."]
    assert [record.message for record in caplog.records] == ["bug: those who wait could not be answered"] * 2


def test_what_is_to_leave_leaves_without_a_turn() -> None:
    """Answers to parked requests are an example."""
    assert run(lambda turns, happened: turns.defer_send(lambda: happened.append("A"))) == ["-", "A", "."]


def test_a_round_is_had_once_however_often_it_is_begun() -> None:
    def script(turns: EventRound, happened: list[str]) -> None:
        turns.schedule()
        turns.schedule()

    assert run(script) == ["-", "."]


def test_nothing_happens_any_more_after_the_end() -> None:
    def script(turns: EventRound, happened: list[str]) -> None:
        turns.defer_decide(lambda at: happened.append("a"))
        turns.cancel()

    assert run(script) == []
