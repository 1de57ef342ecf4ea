"""Requests in flight are answered in their order, whoever answers them."""

from kcoord.proxy.forwarding.in_flight import MAX_IN_FLIGHT, InFlightRequests, PendingRequest
from kcoord.proxy.forwarding.interceptors import Handle
from kcoord.proxy.forwarding.routes import Routes

ROUTE = Routes(())[12 << 16 | 4]


def forwarded(number: int) -> PendingRequest:
    return PendingRequest(number, ROUTE, 0.0)


def refused(number: int) -> PendingRequest:
    return PendingRequest(number, ROUTE, 0.0, is_local=True, pieces=[b"no"])


def handled(number: int) -> PendingRequest:
    return PendingRequest(number, ROUTE, 0.0, is_local=True, handle=Handle(lambda: None))


def test_a_local_request_is_due_at_once_if_nothing_is_in_flight() -> None:
    requests = InFlightRequests()
    assert requests.append_local(refused(1))
    assert not requests.append_local(refused(2))
    assert requests.needs_flush
    assert [requests.take_local(), requests.take_local(), requests.take_local()] == [refused(1), refused(2), None]
    assert not requests.finish_flush()
    assert (len(requests), requests.needs_flush, requests.has_local) == (0, False, False)


def test_a_local_request_waits_for_the_answers_of_the_broker_before_it() -> None:
    requests = InFlightRequests()
    requests.append(forwarded(1))
    assert not requests.append_local(refused(2))
    assert requests.take_local() is None
    assert requests.has_local
    requests.popleft()
    assert requests.take_local() == refused(2)


def test_a_handled_request_stays_in_flight_and_is_taken_once() -> None:
    requests = InFlightRequests()
    requests.append_local(handled(1))
    requests.append_local(refused(2))
    taken = requests.take_local()
    assert taken is not None
    assert taken.handle is not None
    assert requests.take_local() is None
    assert [each.correlation_id for each in requests] == [1, 2]
    requests.finish_flush()
    assert requests.needs_flush, "another one is local"
    requests.popleft()
    assert requests.take_local() == refused(2)


def test_more_than_the_limit_is_too_many_until_there_are_fewer() -> None:
    requests = InFlightRequests()
    requests.extend(forwarded(number) for number in range(MAX_IN_FLIGHT))
    assert not requests.check_limit()
    assert not requests.needs_flush
    requests.append(forwarded(MAX_IN_FLIGHT))
    assert requests.check_limit()
    requests.popleft()
    assert (requests.finish_flush(), requests.needs_flush) == (False, True)
    requests.popleft()
    assert (requests.finish_flush(), requests.needs_flush) == (True, False)
    assert (requests.finish_flush(), requests.needs_flush) == (False, False)
