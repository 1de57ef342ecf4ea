import pytest

from kcoord.broker.long_polls import LongPolls
from kcoord.tickets import Ticket

_first, _second = Ticket(1), Ticket(2)


@pytest.fixture
def polls() -> LongPolls:
    return LongPolls()


def test_nobody_waits_at_first(polls: LongPolls) -> None:
    assert polls.deadline() is None
    assert polls.take_ready() == []
    assert polls.tick(1e9) == []


def test_a_poll_is_ready_once_enough_bytes_came_to_any_of_its_partitions(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0), ("t", 1)), 100, deadline=5.0)
    polls.appended("t", 0, 60)
    assert polls.take_ready() == []
    polls.appended("t", 1, 40)
    assert polls.take_ready() == [_first]
    assert polls.take_ready() == []
    assert len(polls) == 0


def test_what_comes_to_other_partitions_does_not_count(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0),), 1, deadline=5.0)
    polls.appended("t", 1, 100)
    polls.appended("u", 0, 100)
    assert polls.take_ready() == []


def test_a_poll_whose_time_is_up_comes_out_of_the_tick(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0),), 1, deadline=5.0)
    polls.park(_second, (("t", 0),), 1, deadline=3.0)
    assert polls.deadline() == 3.0
    assert polls.tick(2.9) == []
    assert polls.tick(3.0) == [_second]
    assert polls.deadline() == 5.0
    assert polls.tick(99) == [_first]
    assert polls.deadline() is None


def test_a_ticket_comes_out_once_though_bytes_and_time_agree(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0),), 1, deadline=5.0)
    polls.appended("t", 0, 1)
    polls.appended("t", 0, 1)
    assert polls.tick(5.0) == [_first]
    assert polls.take_ready() == []


def test_a_ticket_that_was_answered_early_has_no_deadline_left(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0),), 1, deadline=5.0)
    polls.appended("t", 0, 1)
    assert polls.take_ready() == [_first]
    assert polls.deadline() is None
    assert polls.tick(5.0) == []


def test_a_client_that_hung_up_is_forgotten(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0),), 1, deadline=5.0)
    polls.forget(_first)
    polls.appended("t", 0, 1)
    assert polls.take_ready() == []
    assert polls.deadline() is None


def test_deadlines_of_polls_answered_early_do_not_pile_up(polls: LongPolls) -> None:
    for number in range(1, 10_000):
        polls.park(Ticket(number), (("t", 0),), 1, deadline=1e6)
        polls.appended("t", 0, 1)
        assert polls.take_ready() == [Ticket(number)]
    assert len(polls._deadlines) < 200


def test_whoever_waits_for_a_partition_that_goes_is_woken_once(polls: LongPolls) -> None:
    polls.park(_first, (("t", 0), ("t", 1)), 100, deadline=5.0)
    polls.topic_deleted("t", 0)
    polls.topic_deleted("t", 1)
    assert polls.take_ready() == [_first]
