"""The length of the time that was read, or requested."""

from kcoord.pipeline.transforms.period import Period
from tests.support.pipeline.histories import at

HOUR = 3600
FOUR_HOURS = Period(first=at(0), last=at(4 * HOUR))


def test_the_hours_are_those_that_were_read_or_what_is_asked_for_of_them() -> None:
    assert FOUR_HOURS.hours(None, None) == 4
    assert FOUR_HOURS.hours(at(HOUR), None) == 3
    assert FOUR_HOURS.hours(at(HOUR), at(3 * HOUR)) == 2
    assert FOUR_HOURS.hours(at(-HOUR), at(9 * HOUR)) == 4, "no more than was read"


def test_less_than_an_hour_counts_as_one() -> None:
    assert FOUR_HOURS.hours(at(0), at(60)) == 1
    assert FOUR_HOURS.hours(at(9 * HOUR), None) == 1
    assert Period().hours(None, None) == 1


def test_two_periods_are_one_from_the_first_to_the_last() -> None:
    assert FOUR_HOURS.merged_with(Period(first=at(60), last=at(5 * HOUR))) == Period(first=at(0), last=at(5 * HOUR))
    assert Period().merged_with(FOUR_HOURS) == FOUR_HOURS.merged_with(Period()) == FOUR_HOURS
    assert Period().merged_with(Period()) == Period()
