"""The server as clients see it, over sockets."""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.records.batch import read_header
from kcoord.protocol.records.record import Record, write_batch
from kcoord.server.dispatch.dispatch import Dispatch

from .conftest import Serve


def _fetch_fields(topic: str, *, offset: int = 0, wait: float = 0.0, min_bytes: int = 1) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait": timedelta(seconds=wait),
        "min_bytes": min_bytes,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def _produce_fields(topic: str, value: bytes = b"v", acks: int = -1, partition: int = 0) -> dict[str, Any]:
    now = time.time_ns() // 1_000_000
    batch = write_batch([Record(offset=0, timestamp=now, key=None, value=value)])
    return {
        "acks": acks,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    }


def _framed(api_key: int, version: int, correlation_id: int, **values: Any) -> bytes:
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=correlation_id, client_id="t")
    return encode_request(header, build_entity(request_type(api_key, version), values))


def test_api_versions_announces_the_table(serve: Serve) -> None:
    with serve().client() as client:
        answer = client.ask(ApiKey.API_VERSIONS, 4, client_software_name="t", client_software_version="1")
    announced = {line.api_key: (line.min_version, line.max_version) for line in answer.api_keys}
    assert announced == {api.key: (api.announced_from, api.versions[-1]) for api in SERVED.values()}
    assert announced[ApiKey.PRODUCE] == (0, 13)


def test_an_api_versions_request_above_the_range_is_answered_in_version_0(serve: Serve) -> None:
    frame = b"\x00\x12\x00\x63\x00\x00\x00\x07" + b"a body of a version that nobody knows yet"
    with serve().client() as client:
        client.send_bytes(len(frame).to_bytes(4) + frame)
        answer = client.receive(ApiKey.API_VERSIONS, 0)
        assert answer.error_code is ErrorCode.unsupported_version
        assert [(line.api_key, line.max_version) for line in answer.api_keys] == [(ApiKey.API_VERSIONS, 4)]
        assert client.ask(ApiKey.API_VERSIONS, 0).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0),
        (ApiKey.METADATA, 14),
        (ApiKey.METADATA, -1),
        (ApiKey.PRODUCE, 2),
        (ApiKey.JOIN_GROUP, 9),
        (999, 0),
    ],
)
def test_what_is_not_served_closes_the_connection(serve: Serve, api_key: int, version: int) -> None:
    frame = api_key.to_bytes(2) + version.to_bytes(2, signed=True) + b"\0\0\0\1\xff\xff" + bytes(8)
    server = serve()
    with server.client() as client, server.client() as other:
        client.send_bytes(len(frame).to_bytes(4) + frame)
        with pytest.raises(Disconnected):
            client.receive_frame()
        assert other.ask(ApiKey.METADATA, 12, topics=None).topics == ()


def test_pipelined_requests_are_answered_in_their_order(serve: Serve) -> None:
    with serve().client() as client:
        client.send_bytes(b"".join(_framed(ApiKey.METADATA, 12, number, topics=None) for number in range(500)))
        assert [int.from_bytes(client.receive_frame()[:4]) for _ in range(500)] == list(range(500))


def test_requests_behind_a_parked_one_wait_for_it(serve: Serve) -> None:
    with serve(topics=(("t", 1),)).client() as client:
        began = time.monotonic()
        client.send_bytes(
            _framed(ApiKey.FETCH, 12, 1, **_fetch_fields("t", wait=0.3)) + _framed(ApiKey.METADATA, 12, 2, topics=None)
        )
        assert [int.from_bytes(client.receive_frame()[:4]) for _ in range(2)] == [1, 2]
        assert time.monotonic() - began >= 0.3


def test_a_parked_fetch_is_answered_as_soon_as_records_come(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as consumer, server.client() as producer:
        consumer.send(ApiKey.FETCH, 12, **_fetch_fields("t", wait=30))
        assert (
            producer.ask(ApiKey.PRODUCE, 9, **_produce_fields("t")).responses[0].partition_responses[0].base_offset == 0
        )
        partition = consumer.receive(ApiKey.FETCH, 12).responses[0].partitions[0]
    assert read_header(partition.records).record_count == 1
    assert partition.high_watermark == 1


def test_a_parked_fetch_waits_for_as_many_bytes_as_it_asked_for(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as consumer, server.client() as producer:
        consumer.send(ApiKey.FETCH, 12, **_fetch_fields("t", wait=30, min_bytes=250))
        for _ in range(3):
            producer.ask(ApiKey.PRODUCE, 9, **_produce_fields("t", b"x" * 60))
        assert len(consumer.receive(ApiKey.FETCH, 12).responses[0].partitions[0].records) > 250


def test_a_client_that_hangs_up_while_its_fetch_is_parked_leaves_nothing(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    client = server.client()
    client.send(ApiKey.FETCH, 12, **_fetch_fields("t", wait=300))
    with server.client() as other:
        _until(lambda: len(server.runtime._pending_requests.requests) == 1)
        client.close()
        _until(lambda: not server.runtime._pending_requests.requests and len(server.runtime.connections) == 1)
        assert other.ask(ApiKey.PRODUCE, 9, **_produce_fields("t")).responses[0].partition_responses[0].base_offset == 0


def test_a_produce_that_wants_no_answer_gets_none(serve: Serve) -> None:
    with serve(topics=(("t", 1),)).client() as client:
        client.send(ApiKey.PRODUCE, 9, **_produce_fields("t", acks=0))
        assert client.ask(ApiKey.METADATA, 12, topics=None).topics[0].name == "t"
        assert len(client.ask(ApiKey.FETCH, 12, **_fetch_fields("t")).responses[0].partitions[0].records) > 0


def test_a_produce_without_answer_that_fails_closes_the_connection(serve: Serve) -> None:
    with serve().client() as client:
        client.send(ApiKey.PRODUCE, 9, **_produce_fields("missing", acks=0))
        with pytest.raises(Disconnected):
            client.receive_frame()


def test_each_node_answers_for_the_partitions_that_it_leads(serve: Serve) -> None:
    server = serve(brokers=3, topics=(("t", 3),))
    with server.client(1) as client:
        metadata = client.ask(ApiKey.METADATA, 12, topics=None)
        assert [broker.node_id for broker in metadata.brokers] == [1, 2, 3]
        leaders = {line.partition_index: line.leader_id for line in metadata.topics[0].partitions}
        assert sorted(leaders.values()) == [1, 2, 3]
        for partition, leader in leaders.items():
            answer = client.ask(ApiKey.PRODUCE, 10, **_produce_fields("t", partition=partition))
            line = answer.responses[0].partition_responses[0]
            if leader == 1:
                assert line.error_code is ErrorCode.none
                continue
            assert line.error_code is ErrorCode.not_leader_or_follower
            assert line.current_leader.leader_id == leader
            assert [node.node_id for node in answer.node_endpoints] == [leader]


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on(serve: Serve) -> None:
    server = serve(**{"max.connections": "2"})
    with server.client() as first, server.client() as second:
        assert first.ask(ApiKey.API_VERSIONS, 0).api_keys
        assert second.ask(ApiKey.API_VERSIONS, 0).api_keys
        with server.client() as third, pytest.raises(ConnectionError):
            third.ask(ApiKey.API_VERSIONS, 0)
        assert first.ask(ApiKey.API_VERSIONS, 0).api_keys


def test_connections_from_one_address_are_limited(serve: Serve) -> None:
    server = serve(**{"max.connections.per.ip": "1"})
    with server.client() as first:
        assert first.ask(ApiKey.API_VERSIONS, 0).api_keys
        with server.client() as second, pytest.raises(ConnectionError):
            second.ask(ApiKey.API_VERSIONS, 0)
    _until(lambda: len(server.runtime.connections) == 0)
    with server.client() as again:
        assert again.ask(ApiKey.API_VERSIONS, 0).api_keys


def test_a_silent_connection_is_closed_and_a_waiting_one_is_not(serve: Serve) -> None:
    server = serve(topics=(("t", 1),), **{"connections.max.idle.ms": "1000"})
    with server.client() as silent, server.client() as waiting:
        waiting.send(ApiKey.FETCH, 12, **_fetch_fields("t", wait=2.5))
        silent.send_bytes(b"\0\0")
        with pytest.raises(Disconnected):
            silent.receive_frame()
        assert waiting.receive(ApiKey.FETCH, 12).error_code is ErrorCode.none


def test_the_greediest_connection_pays_when_too_many_bytes_wait(serve: Serve) -> None:
    server = serve(**{"queued.max.request.bytes": "300000"})
    with server.client() as greedy, server.client() as modest:
        modest.send_bytes((1 << 20).to_bytes(4) + bytes(50_000))
        with suppress(ConnectionError):
            greedy.send_bytes((1 << 20).to_bytes(4) + bytes(400_000))
        with pytest.raises(ConnectionError):
            greedy.receive_frame()
        _until(lambda: len(server.runtime.connections) == 1)


def test_a_full_memory_refuses_records_and_takes_them_again_once_there_is_room(serve: Serve) -> None:
    with serve(topics=(("t", 1),), **{"kcoord.log.bytes": "2000"}).client() as client:
        errors = [_produced(client, b"x" * 500) for _ in range(5)]
        assert errors == [ErrorCode.none] * 3 + [ErrorCode.kafka_storage_error] * 2
        partitions = [{"partition_index": 0, "offset": -1}]
        client.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": "t", "partitions": partitions}])
        assert _produced(client, b"x" * 500) is ErrorCode.none


def test_a_full_memory_is_told_in_the_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with serve(topics=(("t", 1),), **{"kcoord.log.bytes": "100"}).client() as client:
        assert _produced(client, b"x" * 500) is ErrorCode.kafka_storage_error
        _until(lambda: any("full kcoord.log.bytes=100" in message for message in caplog.messages))


def _produced(client: Client, value: bytes) -> ErrorCode:
    error: ErrorCode = (
        client.ask(ApiKey.PRODUCE, 9, **_produce_fields("t", value)).responses[0].partition_responses[0].error_code
    )
    return error


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_fault_in_one_parked_request_does_not_keep_the_others_from_their_answers(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(topics=(("t", 1),))
    faults = [RuntimeError("injected")]
    finish = Dispatch.finish

    def finish_or_fail(self: Dispatch, waiting: Any, now_ms: int) -> Any:
        if faults:
            raise faults.pop()
        return finish(self, waiting, now_ms)

    monkeypatch.setattr(Dispatch, "finish", finish_or_fail)
    clients = [server.client() for _ in range(3)]
    for client in clients:
        client.send(ApiKey.FETCH, 12, **_fetch_fields("t", wait=30))
    _until(lambda: len(server.runtime._pending_requests.requests) == 3)
    with server.client() as producer:
        producer.ask(ApiKey.PRODUCE, 9, **_produce_fields("t"))
        _until(lambda: len(server.runtime.connections) == 3)
    answered = 0
    for client in clients:
        with suppress(ConnectionError):
            answered += bool(client.receive(ApiKey.FETCH, 12).responses[0].partitions[0].records)
        client.close()
    assert answered == 2
    _until(lambda: len(server.runtime.connections) == 0)
    assert not server.runtime._pending_requests.requests


def test_a_connection_is_not_idle_right_after_its_long_poll(serve: Serve) -> None:
    server = serve(topics=(("t", 1),), **{"connections.max.idle.ms": "1200"})
    with server.client() as client:
        client.ask(ApiKey.FETCH, 12, **_fetch_fields("t", wait=1.6))
        time.sleep(0.4)
        assert client.ask(ApiKey.METADATA, 12, topics=None).topics


def test_a_large_answer_arrives_whole_though_the_next_request_is_bad(serve: Serve) -> None:
    with serve(topics=(("t", 1),)).client() as client:
        for _ in range(8):
            client.ask(ApiKey.PRODUCE, 9, **_produce_fields("t", b"x" * 900_000))
        large = _fetch_fields("t") | {"max_bytes": 1 << 24}
        large["topics"][0]["partitions"][0]["partition_max_bytes"] = 1 << 24
        client.send_bytes(_framed(ApiKey.FETCH, 12, 1, **large) + b"\0\0\0\x08" + b"\x03\xe7\0\0\0\0\0\1")
        time.sleep(0.1)
        assert len(client.receive(ApiKey.FETCH, 12).responses[0].partitions[0].records) > 7_200_000
        with pytest.raises(Disconnected):
            client.receive_frame()
