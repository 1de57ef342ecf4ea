"""Backpressure pauses each side with its first reason and resumes it after its last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.proxy.forwarding.backpressure import (
    CLIENT_FULL,
    CONNECTING,
    HANDLING,
    TOO_MANY_IN_FLIGHT,
    UPSTREAM_FULL,
    Backpressure,
)
from tests.proxy.forwarding_scene import Link

REASONS = (UPSTREAM_FULL, CONNECTING, HANDLING, CLIENT_FULL, TOO_MANY_IN_FLIGHT)


class Sides:
    """A client and a broker; the links fail if they are paused or resumed twice."""

    def __init__(self) -> None:
        self.client, self.broker = Link(), Link()
        self.backpressure = Backpressure()
        self.backpressure.attach_client(self.client)
        self.backpressure.attach_upstream(self.broker)

    def reading(self) -> tuple[bool, bool]:
        return self.client.is_reading_now, self.broker.is_reading_now


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_pauses_the_client_and_only_a_full_client_pauses_the_broker(reason: int) -> None:
    sides = Sides()
    sides.backpressure.pause_for(reason)
    assert sides.reading() == (False, reason != CLIENT_FULL)
    assert [each for each in REASONS if sides.backpressure.is_paused_for(each)] == [reason]
    sides.backpressure.resume_after(reason)
    assert sides.reading() == (True, True)
    assert not sides.backpressure.is_paused_for(reason)


def test_a_client_is_resumed_after_its_last_reason() -> None:
    sides = Sides()
    sides.backpressure.pause_for(UPSTREAM_FULL)
    sides.backpressure.pause_for(HANDLING)
    sides.backpressure.resume_after(UPSTREAM_FULL)
    assert sides.reading() == (False, True)
    sides.backpressure.resume_after(HANDLING)
    assert sides.reading() == (True, True)


def test_a_reason_that_does_not_hold_changes_nothing_when_it_ends() -> None:
    sides = Sides()
    sides.backpressure.resume_after(CONNECTING)
    assert sides.reading() == (True, True)


def test_a_broker_that_comes_while_the_client_is_full_is_paused() -> None:
    sides = Sides()
    sides.backpressure.pause_for(CLIENT_FULL)
    another = Link()
    sides.backpressure.attach_upstream(another)
    assert not another.is_reading_now
    sides.backpressure.resume_after(CLIENT_FULL)
    assert another.is_reading_now


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_client_that_is_detached_is_left_as_it_is_and_its_reasons_are_still_known(is_paused: bool) -> None:
    sides = Sides()
    if is_paused:
        sides.backpressure.pause_for(HANDLING)
    sides.backpressure.detach_client()
    sides.backpressure.resume_after(HANDLING)
    sides.backpressure.pause_for(CLIENT_FULL)
    assert sides.reading() == (not is_paused, False)
    assert sides.backpressure.is_paused_for(CLIENT_FULL | HANDLING)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(REASONS))))
def test_a_side_is_read_from_exactly_while_no_reason_holds(changes: list[tuple[bool, int]]) -> None:
    sides, held = Sides(), set[int]()
    for begins, reason in changes:
        if reason == CLIENT_FULL and begins == (reason in held):
            continue  # a transport reports this one only when it changes
        if begins:
            sides.backpressure.pause_for(reason)
            held.add(reason)
        else:
            sides.backpressure.resume_after(reason)
            held.discard(reason)
        assert sides.reading() == (not held, CLIENT_FULL not in held)
