"""`__consumer_offsets`, as clients and operators see it: made with the first group, and protected from clients."""

from datetime import timedelta
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record, write_batch
from tests.server.conftest import Serve

NAME = "__consumer_offsets"
SOON = timedelta(seconds=10)


def commit(client: Client, offset: int = 1) -> ErrorCode:
    lines = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    answer = client.ask(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[{"name": "t", "partitions": lines}])
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


def topics(client: Client) -> dict[str, Any]:
    return {topic.name: topic for topic in client.ask(ApiKey.METADATA, 12, topics=None).topics}


@pytest.fixture
def client(serve: Serve) -> Client:
    server = serve(topics=(("t", 1),), **{"offsets.topic.num.partitions": "3"})
    return server.client()


def test_it_is_there_with_the_first_group_and_said_to_be_internal(client: Client) -> None:
    with client:
        assert set(topics(client)) == {"t"}
        assert commit(client) is ErrorCode.none
        made = topics(client)[NAME]
        assert made.is_internal
        assert len(made.partitions) == 3


@pytest.mark.fact("P-035")
def test_it_is_compacted_and_its_batches_are_kept_as_they_are(client: Client, serve: Serve) -> None:
    with client:
        commit(client)
        asked = {"resource_type": 2, "resource_name": NAME, "configuration_keys": None}
        [result] = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked]).results
        configs = {config.name: config.value for config in result.configs}
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "producer"
    assert configs["segment.bytes"] == "104857600"


@pytest.mark.parametrize("by_id", [False, True])
def test_it_cannot_be_deleted(client: Client, by_id: bool) -> None:
    with client:
        commit(client, 7)
        topic_id = topics(client)[NAME].topic_id
        named = {"name": None, "topic_id": topic_id} if by_id else {"name": NAME, "topic_id": None}
        [line] = client.ask(ApiKey.DELETE_TOPICS, 6, topics=[named], timeout=SOON).responses
        assert line.error_code is ErrorCode.invalid_topic_exception
        answer = client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None)
        assert answer.topics[0].partitions[0].committed_offset == 7


def test_it_cannot_grow_as_groups_are_found_by_the_number_of_its_partitions(client: Client) -> None:
    with client:
        commit(client)
        asked = {"name": NAME, "count": 8, "assignments": None}
        [line] = client.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[asked], timeout=SOON, validate_only=False).results
        assert line.error_code is ErrorCode.invalid_partitions
        assert len(topics(client)[NAME].partitions) == 3


def test_its_records_cannot_be_deleted_whatever_its_settings_are(client: Client) -> None:
    with client:
        commit(client)
        change = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
        client.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[{"resource_type": 2, "resource_name": NAME, "configs": [change]}],
        )
        lines = [{"partition_index": index, "offset": -1} for index in range(3)]
        answer = client.ask(ApiKey.DELETE_RECORDS, 2, topics=[{"name": NAME, "partitions": lines}], timeout=SOON)
        assert {line.error_code for line in answer.topics[0].partitions} == {ErrorCode.invalid_topic_exception}


@pytest.mark.parametrize("client_id", ["app", "__admin_client"])
def test_clients_cannot_write_its_records(serve: Serve, client_id: str) -> None:
    """A tombstone would take a commit away; Kafka lets them be written by who calls itself __admin_client."""
    server = serve(topics=(("t", 1),), **{"offsets.topic.num.partitions": "1"})
    tombstone = write_batch([Record(offset=0, timestamp=1, key=b"k", value=None)])
    with server.client(client_id=client_id) as client:
        commit(client)
        topic_id = topics(client)[NAME].topic_id
        parts = [{"index": 0, "records": tombstone}]
        for version, named in ((9, {"name": NAME}), (13, {"topic_id": topic_id})):
            answer = client.ask(
                ApiKey.PRODUCE, version, acks=-1, timeout=SOON, topic_data=[{**named, "partition_data": parts}]
            )
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.invalid_topic_exception
