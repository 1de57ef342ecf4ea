"""Retries of requests that were refused with a retriable error."""

from collections.abc import Iterable

import pytest

from kcoord.admin import retry
from kcoord.admin.connecting.connection import DEFAULT_TIMEOUT
from kcoord.admin.model import Resource
from kcoord.admin.retry import NO_ERROR_TIMEOUTS, RETRIABLE, Attempt, retry_until_resolved
from kcoord.admin.waiting import Waits
from kcoord.errors import ErrorCode

PATIENCE = 60.0
LOADING, FORBIDDEN = ErrorCode.coordinator_load_in_progress, ErrorCode.group_authorization_failed


class Script:
    """The answers of successive attempts: an error, or None for success."""

    def __init__(self, **errors: Iterable[ErrorCode | None]) -> None:
        self.asked: list[list[str]] = []
        self._errors = {item: list(each) for item, each in errors.items()}

    def ask(self, items: list[str], attempt: Attempt[str, int]) -> None:
        self.asked.append(list(items))
        for item in items:
            error = self._errors[item].pop(0) if len(self._errors[item]) > 1 else self._errors[item][0]
            if error is None:
                attempt.found[item] = len(self.asked)
            else:
                attempt.refuse(item, Resource.GROUP, item, error)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "INITIAL_BACKOFF", 0.0001)


def test_what_is_told_at_once_is_asked_for_once() -> None:
    script = Script(a=[None], b=[None])
    answers = retry_until_resolved(["a", "b", "a"], script.ask, timeout=PATIENCE)
    assert (answers.found, answers.refused) == ({"a": 1, "b": 1}, ())
    assert script.asked == [["a", "b"]]


def test_only_what_may_pass_is_asked_for_again() -> None:
    script = Script(a=[None], b=[LOADING, LOADING, None], c=[FORBIDDEN])
    answers = retry_until_resolved(["a", "b", "c"], script.ask, timeout=PATIENCE)
    assert script.asked == [["a", "b", "c"], ["b"], ["b"]]
    assert answers.found == {"a": 1, "b": 3}
    assert [(refusal.what, refusal.error) for refusal in answers.refused] == [("group c", FORBIDDEN)]


def test_a_passing_refusal_that_becomes_a_lasting_one_is_told_as_that() -> None:
    answers = retry_until_resolved(["a"], Script(a=[LOADING, FORBIDDEN]).ask, timeout=PATIENCE)
    assert [refusal.error for refusal in answers.refused] == [FORBIDDEN]


def test_when_patience_ends_what_is_not_settled_is_refused() -> None:
    script = Script(a=[None], b=[LOADING])
    answers = retry_until_resolved(["a", "b"], script.ask, timeout=0.05)
    assert answers.found == {"a": 1}
    assert [refusal.error for refusal in answers.refused] == [LOADING]
    assert len(script.asked) > 1


def test_without_patience_everything_is_asked_for_once() -> None:
    script = Script(a=[LOADING])
    assert [refusal.error for refusal in retry_until_resolved(["a"], script.ask, timeout=0).refused] == [LOADING]
    assert len(script.asked) == 1


def test_nothing_is_asked_for_nothing() -> None:
    script = Script()
    assert retry_until_resolved([], script.ask, timeout=PATIENCE).found == {}
    assert script.asked == []


def test_who_changes_something_says_what_may_be_repeated() -> None:
    script = Script(a=[ErrorCode.network_exception, None])
    answers = retry_until_resolved(
        ["a"], script.ask, timeout=PATIENCE, retriable=RETRIABLE - {ErrorCode.network_exception}
    )
    assert [refusal.error for refusal in answers.refused] == [ErrorCode.network_exception]
    assert len(script.asked) == 1


def test_the_same_refusal_of_many_items_is_told_once() -> None:
    def ask(items: list[int], attempt: Attempt[int, int]) -> None:
        for item in items:
            attempt.refuse(item, Resource.TOPIC, "orders", ErrorCode.topic_authorization_failed)

    assert len(retry_until_resolved([0, 1, 2], ask, timeout=PATIENCE).refused) == 1


def test_of_an_answer_only_what_was_asked_for_is_taken_and_what_is_missing_is_named() -> None:
    attempt, answered = Attempt[str, int](), Attempt[str, int]()
    answered.found |= {"a": 1, "b": 2, "stranger": 3}
    for item in ("b", "c", "another"):
        answered.refuse(item, Resource.GROUP, item, FORBIDDEN)
    assert attempt.merge(["a", "b", "c", "d"], answered) == ["d"]
    assert attempt.found == {"a": 1}
    assert attempt.refused.keys() == {"b", "c"}


def test_what_may_last_is_given_up_soon_while_others_are_asked_for_again() -> None:
    script = Script(a=[ErrorCode.leader_not_available], b=[LOADING, LOADING, None])
    answers = retry_until_resolved(
        ["a", "b"], script.ask, timeout=PATIENCE, error_timeouts={ErrorCode.leader_not_available: 0.0}
    )
    assert script.asked == [["a", "b"], ["b"], ["b"]]
    assert answers.found == {"b": 3}
    assert [refusal.error for refusal in answers.refused] == [ErrorCode.leader_not_available]


def test_who_would_rather_wait_asks_again_for_what_may_last() -> None:
    script = Script(a=[ErrorCode.leader_not_available, ErrorCode.leader_not_available, None])
    assert retry_until_resolved(["a"], script.ask, timeout=PATIENCE, error_timeouts=NO_ERROR_TIMEOUTS).found == {"a": 3}


def test_no_error_that_may_last_is_waited_for_as_long_as_a_request() -> None:
    assert max(retry.ERROR_TIMEOUTS.values()) < DEFAULT_TIMEOUT / 5
    assert retry.ERROR_TIMEOUTS.keys() < RETRIABLE


def test_while_it_waits_it_is_said_for_what() -> None:
    waits, seen = Waits(), []
    script = Script(a=[LOADING, LOADING, None], b=[LOADING, None])

    def ask(items: list[str], attempt: Attempt[str, int]) -> None:
        seen.append(waits.longer_than(0))
        script.ask(items, attempt)

    retry_until_resolved(["a", "b"], ask, timeout=PATIENCE, waits=waits)
    first = "group a: COORDINATOR_LOAD_IN_PROGRESS and 1 more"
    assert seen == [[], [first], [first]]
    assert waits.longer_than(0) == []
