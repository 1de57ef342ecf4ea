"""Topics that change between requests, and answers that no real broker gives."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from kcoord.admin.model import Bounds, TopicPartition
from kcoord.admin.wire import times
from kcoord.admin.wire.brokers import ApiRequest, Brokers, Outcome, _Link
from kcoord.admin.wire.cluster import WireCluster
from kcoord.admin.wire.logs import Logs
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record, write_batch
from tests.support.admin.fake_cluster import PATIENCE, connection

from ...support.admin.scripted_broker import ScriptedBroker

UNKNOWN = ErrorCode.unknown_topic_or_partition
NONE = ErrorCode.none
OURS = Bounds(0, 10)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.topics = {"orders": {0: 1}}
        yield broker


@pytest.fixture
def logs(broker: ScriptedBroker) -> Iterator[Logs]:
    brokers = Brokers(connection(broker.address))
    yield Logs(brokers, timeout=PATIENCE)
    brokers.close()


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


# Topics that change


def test_partitions_that_are_added_later_are_found(broker: ScriptedBroker, logs: Logs) -> None:
    assert logs.bounds([tp(0), tp(1)]).found == {tp(0): OURS}
    broker.topics["orders"][1] = 1
    bounds = logs.bounds([tp(0), tp(1)])
    assert (bounds.found, bounds.refused) == ({tp(0): OURS, tp(1): OURS}, ())


def test_a_topic_that_is_known_is_not_asked_for_again(broker: ScriptedBroker, logs: Logs) -> None:
    logs.bounds([tp(0)])
    before = broker.asked[ApiKey.METADATA]
    logs.bounds([tp(0)])
    assert broker.asked[ApiKey.METADATA] == before


def test_a_topic_that_is_deleted_and_made_anew_is_noticed_both_times(broker: ScriptedBroker, logs: Logs) -> None:
    logs.bounds([tp(0)])
    orders = broker.topics.pop("orders")
    for _ in range(2):
        gone = logs.bounds([tp(0)])
        assert (gone.found, [refusal.error for refusal in gone.refused]) == ({}, [UNKNOWN])
    broker.topics["orders"] = orders
    assert logs.bounds([tp(0)]).found == {tp(0): OURS}


def test_a_leader_that_is_new_to_the_cluster_is_asked(broker: ScriptedBroker, logs: Logs) -> None:
    logs.bounds([tp(0)])
    with ScriptedBroker(node_id=2) as newcomer:
        broker.brokers[2] = (newcomer.host, newcomer.port)
        broker.topics["orders"] = newcomer.topics["orders"] = {0: 1, 1: 2}
        assert logs.bounds([tp(1)]).found == {tp(1): Bounds(0, 20)}


# A cluster of one broker


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The requests of each round trip."""
    trips: list[list[str]] = []
    original = _Link.ask_all

    def ask_all(link: _Link, questions: Sequence[ApiRequest]) -> list[Outcome]:
        trips.append([question.api.name for question in questions])
        return original(link, questions)

    monkeypatch.setattr(_Link, "ask_all", ask_all)
    return trips


def test_the_only_broker_is_asked_at_once_what_it_leads_and_what_is_wanted_of_that(
    logs: Logs, trips: list[list[str]]
) -> None:
    bounds = logs.bounds([tp(0), tp(0, "gone"), tp(7)])
    assert trips == [["Metadata", "ListOffsets", "ListOffsets"]]
    assert bounds.found == {tp(0): OURS}
    assert [str(refusal) for refusal in bounds.refused] == [
        "topic gone: UNKNOWN_TOPIC_OR_PARTITION",
        "partition orders-7: UNKNOWN_TOPIC_OR_PARTITION",
    ]
    for _ in range(2):
        logs.bounds([tp(0)])
    assert trips[2:] == [["ListOffsets", "ListOffsets"]], "a topic that is known is not asked for"


def test_of_several_brokers_each_is_asked_for_what_it_leads(
    broker: ScriptedBroker, logs: Logs, trips: list[list[str]]
) -> None:
    with ScriptedBroker(node_id=2) as other:
        broker.brokers[2] = (other.host, other.port)
        broker.topics["orders"] = other.topics["orders"] = {0: 1, 1: 2}
        assert logs.bounds([tp(0), tp(1)]).found == {tp(0): OURS, tp(1): Bounds(0, 20)}, "the other was not known"
        assert trips == [["Metadata", "ListOffsets", "ListOffsets"], ["ListOffsets", "ListOffsets"]]
        trips.clear()
        broker.topics["paid"] = other.topics["paid"] = {0: 2}
        assert logs.bounds([tp(0, "paid")]).found == {tp(0, "paid"): Bounds(0, 20)}
        assert trips == [["Metadata"], ["ListOffsets", "ListOffsets"]]


def test_an_only_broker_that_hangs_up_is_asked_again(broker: ScriptedBroker, logs: Logs) -> None:
    default_answer = broker.answers[ApiKey.METADATA]
    broker.answers[ApiKey.METADATA] = lambda request: (
        None if broker.asked[ApiKey.METADATA] == 2 else default_answer(request)
    )
    assert logs.bounds([tp(0)]).found == {tp(0): OURS}


# Odd answers


def offset_line(number: int) -> dict[str, Any]:
    return {"partition_index": number, "error_code": NONE, "offset": 7}


def test_offsets_that_nobody_asked_for_are_passed_by_and_those_left_out_refused(
    broker: ScriptedBroker, logs: Logs
) -> None:
    broker.topics["orders"] = {0: 1, 1: 1}
    odd = {"topics": [{"name": name, "partitions": [offset_line(0)]} for name in ("orders", "strange")]}
    broker.answers[ApiKey.LIST_OFFSETS] = lambda _: odd
    bounds = logs.bounds([tp(0), tp(1)])
    assert bounds.found == {tp(0): Bounds(7, 7)}
    assert [str(refusal) for refusal in bounds.refused] == [
        "topic orders: UNKNOWN_SERVER_ERROR (its leader, broker 1: does not tell of it)"
    ]


@pytest.mark.parametrize("partitions", [None, ()], ids=["left out", "without partitions"])
def test_a_topic_of_which_nothing_is_told_is_refused_for_a_reason(
    broker: ScriptedBroker, logs: Logs, partitions: tuple[()] | None
) -> None:
    default_answer = broker.answers[ApiKey.METADATA]
    line = {"name": "orders", "error_code": NONE, "partitions": partitions}
    stranger = {"name": "strange", "error_code": NONE, "partitions": ()}
    topics = [stranger] if partitions is None else [stranger, line]
    broker.answers[ApiKey.METADATA] = lambda request: {**(default_answer(request) or {}), "topics": topics}
    for answers in (logs.topics(["orders"]), logs.bounds([tp(0)])):
        assert not answers.found
        assert [str(refusal) for refusal in answers.refused] == [
            "topic orders: UNKNOWN_SERVER_ERROR (the cluster tells nothing of it)"
        ]


# Record times


def fetched(records: bytes, *names: str) -> Mapping[str, Any]:
    line = {
        "partition_index": 0,
        "error_code": NONE,
        "high_watermark": 9,
        "aborted_transactions": (),
        "records": records,
    }
    return {"error_code": NONE, "responses": [{"topic": name, "partitions": [line]} for name in names]}


def test_records_that_nobody_asked_for_are_passed_by(broker: ScriptedBroker, logs: Logs) -> None:
    records = write_batch([Record(timestamp=1234, value=b"v")])
    broker.answers[ApiKey.FETCH] = lambda _: fetched(records, "strange", "orders")
    answers = times.timestamps(logs, [(tp(0), 0)], timeout=PATIENCE)
    assert (answers.found, answers.refused) == ({(tp(0), 0): 1234}, ())


@pytest.mark.parametrize(
    ("partitions", "kibibytes", "rooms"),
    [
        (2, 8, [(2, times.MORE_ROOM)]),
        (2, 40, [(2, times.MORE_ROOM)]),
        (2, 400, [(2, times.MORE_ROOM), (1, times.MORE_ROOM), (1, times.MORE_ROOM)]),
        (200, 8, [(200, times.ROOM_FOR_ONE)]),
        (200, 40, [(200, times.ROOM_FOR_ONE), (128, times.MORE_ROOM), (72, times.MORE_ROOM)]),
    ],
)
def test_a_batch_that_does_not_fit_gets_more_room_and_is_asked_for_by_itself_at_last(
    broker: ScriptedBroker, logs: Logs, partitions: int, kibibytes: int, rooms: list[tuple[int, int]]
) -> None:
    """A few partitions have the space at once that many get at the second attempt."""
    broker.topics["orders"] = dict.fromkeys(range(partitions), 1)
    records = write_batch([Record(timestamp=1234, value=bytes(kibibytes * 1024))])
    asked: list[tuple[int, int]] = []

    def fetch(request: Any) -> Mapping[str, Any]:
        """Answers as a broker does, which would also always return a batch of the first partition."""
        wanted = [each for topic in request.topics for each in topic.partitions]
        room = wanted[0].partition_max_bytes
        asked.append((len(wanted), room))
        content = records if len(wanted) == 1 or len(records) <= room else b""
        line = fetched(content, "orders")["responses"][0]["partitions"][0]
        lines = [{**line, "partition_index": each.partition} for each in wanted]
        return {"error_code": NONE, "responses": [{"topic": "orders", "partitions": lines}]}

    broker.answers[ApiKey.FETCH] = fetch
    positions = [(tp(number), 0) for number in range(partitions)]
    assert times.timestamps(logs, positions, timeout=PATIENCE).found == dict.fromkeys(positions, 1234)
    assert asked == rooms


def test_a_log_of_markers_alone_is_not_read_without_end(broker: ScriptedBroker, logs: Logs) -> None:
    def marker(request: Any) -> Mapping[str, Any]:
        offset = request.topics[0].partitions[0].fetch_offset
        return fetched(write_batch([Record(timestamp=1, value=b"")], base_offset=offset, is_control=True), "orders")

    broker.answers[ApiKey.FETCH] = marker
    answers = times.timestamps(logs, [(tp(0), 0)], timeout=0.2)
    assert answers.found == {}
    assert broker.asked[ApiKey.FETCH] > 1
    assert [str(refusal) for refusal in answers.refused] == [
        "topic orders: REQUEST_TIMED_OUT (the times of its records)"
    ]


# Record times together with bounds


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[WireCluster]:
    cluster = WireCluster(connection(broker.address))
    yield cluster
    cluster.close()


def test_records_that_came_with_the_bounds_are_not_fetched_again(broker: ScriptedBroker, cluster: WireCluster) -> None:
    records = write_batch([Record(timestamp=1234 + number, value=b"v") for number in range(10)])
    broker.answers[ApiKey.FETCH] = lambda _: fetched(records, "orders")
    bounds, found = cluster.bounds_with_times([tp(0)], [(tp(0), 3), (tp(0), 10)])
    assert bounds.found == {tp(0): OURS}
    assert (found.found, found.refused) == ({(tp(0), 3): 1237}, ())
    assert broker.asked[ApiKey.FETCH] == 1


def test_a_position_that_the_log_has_left_behind_is_read_on_from_its_start(
    broker: ScriptedBroker, cluster: WireCluster
) -> None:
    """A broker refuses to read there; or did not yet, if the log was cut between its answers."""
    records = write_batch([Record(timestamp=1234 + number, value=b"v") for number in range(10)])
    offsets: list[int] = []

    def bounds(request: Any) -> Mapping[str, Any]:
        response = broker.list_offsets(request)
        lines = [{**line, "offset": max(5, line["offset"])} for line in response["topics"][0]["partitions"]]
        return {"topics": [{"name": "orders", "partitions": lines}]}

    def fetch(request: Any) -> Mapping[str, Any]:
        offsets.append(request.topics[0].partitions[0].fetch_offset)
        return fetched(records, "orders")

    broker.answers |= {ApiKey.LIST_OFFSETS: bounds, ApiKey.FETCH: fetch}
    _, found = cluster.bounds_with_times([tp(0)], [(tp(0), 3)])
    assert (found.found, found.refused) == ({(tp(0), 5): 1239}, ())
    assert offsets == [3, 5]


def test_a_fetch_that_was_refused_beside_the_bounds_is_tried_again(
    broker: ScriptedBroker, cluster: WireCluster
) -> None:
    records = write_batch([Record(timestamp=1234, value=b"v")])

    def fetch(_: Any) -> Mapping[str, Any]:
        response = fetched(records, "orders")
        if broker.asked[ApiKey.FETCH] == 1:
            response["responses"][0]["partitions"][0]["error_code"] = ErrorCode.not_leader_or_follower
        return response

    broker.answers[ApiKey.FETCH] = fetch
    bounds, found = cluster.bounds_with_times([tp(0)], [(tp(0), 0)])
    assert bounds.found == {tp(0): OURS}
    assert (found.found, found.refused) == ({(tp(0), 0): 1234}, ())
