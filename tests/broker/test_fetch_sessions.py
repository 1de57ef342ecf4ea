import itertools

import pytest

from kcoord.broker.fetch_sessions import FetchContext, FetchSessions, PartitionKey, RequestedPartition
from kcoord.errors import ErrorCode

_asked = RequestedPartition(fetch_offset=0, current_leader_epoch=-1, max_bytes=100)


def _partitions(*topics: str) -> dict[PartitionKey, RequestedPartition]:
    return {(topic, 0): _asked for topic in topics}


def _full(sessions: FetchSessions, *topics: str, session_id: int = 0, epoch: int = 0, now_ms: int = 0) -> FetchContext:
    return sessions.full(session_id, epoch, _partitions(*topics), is_by_id=False, now_ms=now_ms)


def _incremental(
    sessions: FetchSessions, session_id: int, epoch: int, *changed: str, forgotten: tuple[PartitionKey, ...] = ()
) -> FetchContext | ErrorCode:
    return sessions.incremental(session_id, epoch, _partitions(*changed), forgotten, is_by_id=False, now_ms=0)


def _opened(outcome: FetchContext | ErrorCode) -> FetchContext:
    assert isinstance(outcome, FetchContext)
    return outcome


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, itertools.count(1).__next__)


def test_a_full_fetch_opens_a_session_with_its_partitions(sessions: FetchSessions) -> None:
    opened = _full(sessions, "a", "b")
    assert opened.session_id > 0
    assert list(opened.partitions) == [("a", 0), ("b", 0)]
    assert not opened.is_incremental


def test_a_fetch_that_wants_no_session_gets_none(sessions: FetchSessions) -> None:
    assert _full(sessions, "a", epoch=-1).session_id == 0
    assert len(sessions) == 0


def test_an_incremental_fetch_adds_and_forgets(sessions: FetchSessions) -> None:
    opened = _full(sessions, "a", "b")
    second = _opened(_incremental(sessions, opened.session_id, 1, "c", forgotten=(("a", 0),)))
    assert second.is_incremental
    assert list(second.partitions) == [("b", 0), ("c", 0)]
    assert list(_opened(_incremental(sessions, opened.session_id, 2)).partitions) == [("b", 0), ("c", 0)]


def test_a_session_that_is_not_known_is_said_to_be_so(sessions: FetchSessions) -> None:
    assert _incremental(sessions, 77, 1) is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1])
def test_a_skipped_or_repeated_epoch_is_refused_and_the_session_goes_on(sessions: FetchSessions, epoch: int) -> None:
    opened = _full(sessions, "a")
    assert _incremental(sessions, opened.session_id, epoch) is ErrorCode.invalid_fetch_session_epoch
    assert isinstance(_incremental(sessions, opened.session_id, 1), FetchContext)
    assert _incremental(sessions, opened.session_id, 1) is ErrorCode.invalid_fetch_session_epoch


def test_the_epoch_after_the_last_is_1(sessions: FetchSessions) -> None:
    opened = _full(sessions, "a")
    assert opened.session is not None
    opened.session.epoch = 2**31 - 1
    assert isinstance(_incremental(sessions, opened.session_id, 2**31 - 1), FetchContext)
    assert isinstance(_incremental(sessions, opened.session_id, 1), FetchContext)


def test_a_full_fetch_closes_the_session_that_it_names(sessions: FetchSessions) -> None:
    opened = _full(sessions, "a")
    _full(sessions, "a", session_id=opened.session_id, epoch=-1)
    assert _incremental(sessions, opened.session_id, 1) is ErrorCode.fetch_session_id_not_found


def test_a_session_by_name_takes_no_request_by_id(sessions: FetchSessions) -> None:
    opened = _full(sessions, "a")
    outcome = sessions.incremental(opened.session_id, 1, {}, (), is_by_id=True, now_ms=0)
    assert outcome is ErrorCode.fetch_session_topic_id_error


def test_when_all_slots_are_in_use_a_fetch_goes_without_a_session(sessions: FetchSessions) -> None:
    ids = [_full(sessions, "a", now_ms=now).session_id for now in (0, 1, 2)]
    assert ids[2] == 0
    assert len(sessions) == 2


def test_the_least_recently_used_session_gives_way_after_two_minutes(sessions: FetchSessions) -> None:
    first, second = _full(sessions, "a", now_ms=0).session_id, _full(sessions, "b", now_ms=1).session_id
    sessions.incremental(first, 1, {}, (), is_by_id=False, now_ms=60_000)
    third = _full(sessions, "c", now_ms=120_001).session_id
    assert third not in (0, first, second)
    assert _incremental(sessions, second, 1) is ErrorCode.fetch_session_id_not_found
    assert isinstance(_incremental(sessions, first, 2), FetchContext)


def test_sessions_together_remember_a_bounded_number_of_partitions(sessions: FetchSessions) -> None:
    many: dict[PartitionKey, RequestedPartition] = {("a", number): _asked for number in range(40_000)}
    first = sessions.full(0, 0, many, is_by_id=False, now_ms=0)
    assert first.session_id > 0
    assert sessions.full(0, 0, many, is_by_id=False, now_ms=0).session_id == 0
    more: dict[PartitionKey, RequestedPartition] = {("b", number): _asked for number in range(20_000)}
    outcome = sessions.incremental(first.session_id, 1, more, (), is_by_id=False, now_ms=0)
    assert outcome is ErrorCode.fetch_session_id_not_found
    assert len(sessions) == 0


def test_an_id_that_is_taken_is_not_given_again() -> None:
    drawn = iter([7, 7, 7, 8])
    sessions = FetchSessions(5, lambda: next(drawn))
    assert [_full(sessions, "a").session_id for _ in range(2)] == [7, 8]
