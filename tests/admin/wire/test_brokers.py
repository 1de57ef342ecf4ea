"""Connections to brokers that move, answer out of order or cannot be reached."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kcoord.admin.offsets.applying import Certainty, failure_of
from kcoord.admin.waiting import Waits
from kcoord.admin.wire import apis, brokers
from kcoord.admin.wire.brokers import ApiRequest, ApiResponse, Brokers, error_of
from kcoord.api_keys import ApiKey
from kcoord.client.connect_errors import NoAnswer, Unreachable
from kcoord.errors import ErrorCode
from tests.support.admin.fake_cluster import PATIENCE, connection

from ...support.admin.scripted_broker import ScriptedBroker

NOBODYS = ApiRequest(1, apis.METADATA, {"topics": []})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def known(broker: ScriptedBroker) -> Iterator[Brokers]:
    known = Brokers(connection(broker.address))
    yield known
    known.close()


@pytest.mark.parametrize(
    "endpoint", [("\0", 9092), ("a" * 70, 9092), (".", 9092), ("127.0.0.1", 70_000), ("127.0.0.1", -1), ("", -1)]
)
def test_an_advertised_address_that_cannot_be_is_an_outcome_that_names_it(
    broker: ScriptedBroker, known: Brokers, endpoint: tuple[str, int]
) -> None:
    broker.brokers = {1: broker.brokers[1], 2: endpoint, 3: endpoint}
    known.refresh()
    first, second, third = known.ask_each([NOBODYS._replace(node=node) for node in (1, 2, 3)])
    assert isinstance(first, ApiResponse)
    assert isinstance(second, Unreachable)
    assert isinstance(third, Unreachable)
    assert str(second).startswith("cannot connect to ")
    assert f":{endpoint[1]}: " in str(second)


def test_what_fails_in_a_thread_is_raised_where_it_was_asked_for(broker: ScriptedBroker, known: Brokers) -> None:
    broker.brokers |= {2: broker.brokers[1]}
    known.refresh()
    unwritable = ApiRequest(1, apis.METADATA, {"topics": [{"name": object()}]})
    with pytest.raises((TypeError, AttributeError)):
        known.ask_each([unwritable, NOBODYS._replace(node=2)])
    assert isinstance(known.ask_each([NOBODYS])[0], ApiResponse)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ZeroDivisionError])
def test_after_an_interruption_no_late_answer_is_taken_for_that_to_the_next_question(
    broker: ScriptedBroker, known: Brokers, failure: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.topics = {"orders": {0: 1}}

    def interrupted(*_: object) -> ApiResponse:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(brokers._Link, "_receive", interrupted)
        with pytest.raises(failure):
            known.ask_any(apis.METADATA, topics=None)
    assert known.ask_any(apis.METADATA, topics=[]).response.topics == ()
    assert broker.hung_up.wait(PATIENCE)


def test_an_answer_to_another_request_is_none(broker: ScriptedBroker, known: Brokers) -> None:
    broker.correlation_shift = 1
    with pytest.raises(Unreachable) as caught:
        known.refresh()
    assert f"{broker.address} does not answer as a Kafka broker does: an answer to request " in str(caught.value)


def test_the_connection_to_an_address_that_a_broker_has_left_is_closed(broker: ScriptedBroker, known: Brokers) -> None:
    with ScriptedBroker() as moved:
        broker.brokers = {1: (moved.host, moved.port)}
        known.refresh()
        assert not broker.hung_up.is_set()
        assert isinstance(known.ask_each([NOBODYS])[0], ApiResponse)
        assert moved.asked[ApiKey.METADATA] == 1
        assert broker.hung_up.wait(PATIENCE)


def test_a_broker_that_names_no_brokers_is_not_believed(broker: ScriptedBroker, known: Brokers) -> None:
    broker.brokers = {}
    known.refresh()
    assert list(known.nodes) == [1]


def test_a_broker_that_knows_the_oldest_version_no_more_is_met_all_the_same(broker: ScriptedBroker) -> None:
    """The broker closes the connection on the early Metadata request, and gets another one after ApiVersions."""
    broker.oldest[ApiKey.METADATA] = apis.METADATA.oldest + 1
    known = Brokers(connection(broker.address))
    assert list(known.nodes) == [1]
    assert (broker.asked[ApiKey.API_VERSIONS], broker.asked[ApiKey.METADATA]) == (1, 1)
    assert isinstance(known.ask_each([NOBODYS])[0], ApiResponse)
    known.close()


def test_a_broker_that_is_met_by_no_version_is_told_so(broker: ScriptedBroker) -> None:
    broker.oldest[ApiKey.METADATA] = apis.METADATA.newest + 1
    with pytest.raises(brokers.Unsupported, match="has no version of Metadata that kcoord knows"):
        Brokers(connection(broker.address))


def test_a_cluster_that_never_named_a_broker_is_told_so(broker: ScriptedBroker) -> None:
    broker.brokers = {}
    empty = Brokers(connection(broker.address))
    with pytest.raises(Unreachable, match="no broker of the cluster can be reached: it names none"):
        empty.refresh()


def test_a_broker_that_takes_connections_and_says_nothing_is_waited_for_once(broker: ScriptedBroker) -> None:
    """The timeout for connecting is short and that of a request long, and only one request waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setblocking(False)
        broker.brokers |= {2: deaf.getsockname()}
        known = Brokers(replace(connection(broker.address, timeout=PATIENCE), setup_timeout=0.05))
        try:
            outcomes = [known.ask_each([NOBODYS, NOBODYS._replace(node=2)]) for _ in range(3)]
        finally:
            known.close()
        for _ in range(2):  # the request, and the probe for HTTP
            deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()
    for first, second in outcomes:
        assert isinstance(first, ApiResponse)
        assert isinstance(second, NoAnswer)
        assert "did not answer within 0.05 s; to wait longer: -X socket.connection.setup.timeout.ms" in str(second)
        assert error_of(second)[0] is ErrorCode.broker_not_available
        assert (
            failure_of(*error_of(second)).certainty is Certainty.NOT_DONE
        )  # so that callers know that no change was sent


def test_a_broker_that_was_silent_is_asked_again_after_a_while(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "SILENT_FOR", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        broker.brokers |= {2: deaf.getsockname()}
        known = Brokers(replace(connection(broker.address, timeout=PATIENCE), setup_timeout=0.05))
        try:
            for _ in range(2):
                known.ask_each([NOBODYS._replace(node=2)])
                deaf.accept()[0].close()
        finally:
            known.close()


def test_while_a_broker_is_asked_it_is_known_that_it_is_waited_for(broker: ScriptedBroker) -> None:
    waits, seen = Waits(), []
    known = Brokers(connection(broker.address), waits=waits)
    answer_metadata = broker.answers[ApiKey.METADATA]

    def metadata(request: Any) -> Mapping[str, Any] | None:
        seen.append(waits.longer_than(0))
        return answer_metadata(request)

    broker.answers[ApiKey.METADATA] = metadata
    try:
        known.refresh()
    finally:
        known.close()
    assert seen == [[f"broker 1 at {broker.address}"]]
