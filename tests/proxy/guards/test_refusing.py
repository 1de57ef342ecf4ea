"""Responses to refused requests: for every API and version that kio knows, and the contents of some."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, decode_response, known_versions, request_type
from kcoord.protocol.entity_fields import Field, shape_of
from kcoord.protocol.frames import FrameSplitter
from kcoord.proxy.guards.refusing import Refusal, refusal_pieces, refused_response, result_list

_REFUSAL = Refusal(ErrorCode.group_authorization_failed, "not here")
_APIS = [key for key in range(200) if known_versions(key)]


def _asking_for_two_of_each(entity_type: Any) -> Any:
    """Makes a request with two elements in each list."""
    shape = shape_of(entity_type)
    return entity_type(**{field.name: _example(field) for field in (*shape.plain, *shape.tagged)})


def _example(field: Field) -> object:
    if field.is_array:
        return tuple(_example_of_one(field, number) for number in (1, 2))
    return _example_of_one(field, 1)


def _example_of_one(field: Field, number: int) -> object:
    if field.entity is not None:
        return _asking_for_two_of_each(field.entity)
    if field.kafka_type.startswith("timedelta"):
        return timedelta(seconds=number)
    texts = {"string": f"name-{number}", "uuid": UUID(int=number), "bytes": b"bytes", "records": b"", "bool": True}
    return texts.get(field.kafka_type, number)


def _errors_in(entity: Any) -> Iterator[ErrorCode]:
    for field in shape_of(type(entity)).plain:
        value = getattr(entity, field.name)
        if field.kafka_type == "error_code":
            yield value
        elif field.entity is not None and value is not None:
            for element in value if field.is_array else (value,):
                yield from _errors_in(element)


def _answered(api_key: int, version: int, request: Any) -> Any:
    """Decodes the refusing response as a client does."""
    stream = b"".join(refusal_pieces(api_key, version, 77, request, _REFUSAL))
    (frame,) = FrameSplitter(1 << 20).feed(stream)
    correlation_id, response = decode_response(frame, api_key, version)
    assert correlation_id == 77
    return response


def test_there_are_apis_to_be_refused() -> None:
    assert len(_APIS) > 80


@pytest.mark.parametrize("api_key", _APIS)
def test_every_version_of_every_api_is_refused_with_the_code_where_clients_look(api_key: int) -> None:
    for version in known_versions(api_key):
        request = _asking_for_two_of_each(request_type(api_key, version))
        codec(api_key, version).write_request(request, [])  # raises if a client could not send it
        errors = [*_errors_in(_answered(api_key, version, request))]
        if api_key == ApiKey.DESCRIBE_LOG_DIRS and version < 3:
            assert errors == []  # it has no error code; clients take an empty list for a refusal
        else:
            assert errors.count(_REFUSAL.error) in (1, 2, 4, 8)  # at the top level, or per requested element
            assert set(errors) <= {_REFUSAL.error, ErrorCode.none}


@pytest.mark.parametrize("api_key", _APIS)
def test_a_request_for_nothing_can_be_refused(api_key: int) -> None:
    for version in known_versions(api_key):
        _answered(api_key, version, build_entity(request_type(api_key, version), _nothing(api_key, version)))


def _nothing(api_key: int, version: int) -> dict[str, object]:
    entities = [
        field for field in shape_of(request_type(api_key, version)).plain if field.entity and not field.is_array
    ]
    return {field.name: None if field.is_nullable else {} for field in entities}


def _produce(version: int) -> Any:
    partitions = [{"index": 3, "records": b""}, {"index": 5, "records": b""}]
    topics = [{"name": "orders", "topic_id": UUID(int=9), "partition_data": partitions}]
    return build_entity(request_type(ApiKey.PRODUCE, version), {"acks": 1, "topic_data": topics})


def test_a_refused_produce_names_each_partition() -> None:
    (topic,) = _answered(ApiKey.PRODUCE, 9, _produce(9)).responses
    assert topic.name == "orders"
    assert [partition.index for partition in topic.partition_responses] == [3, 5]
    assert {partition.error_code for partition in topic.partition_responses} == {_REFUSAL.error}
    assert {partition.base_offset for partition in topic.partition_responses} == {-1}
    assert {partition.error_message for partition in topic.partition_responses} == {"not here"}


def test_a_refused_produce_by_topic_id_names_the_id() -> None:
    (topic,) = _answered(ApiKey.PRODUCE, 13, _produce(13)).responses
    assert topic.topic_id == UUID(int=9)


@pytest.mark.parametrize("version", [6, 11, 18])
def test_a_refused_fetch_says_so_of_each_partition_and_not_of_the_session(version: int) -> None:
    partitions = [{"partition": 0}, {"partition": 7}]
    topics = [{"topic": "orders", "topic_id": UUID(int=9), "partitions": partitions}]
    answer = _answered(ApiKey.FETCH, version, build_entity(request_type(ApiKey.FETCH, version), {"topics": topics}))
    assert getattr(answer, "error_code", ErrorCode.none) == ErrorCode.none
    (topic,) = answer.responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, _REFUSAL.error),
        (7, _REFUSAL.error),
    ]


def test_refused_groups_are_named_where_they_were_bare_names() -> None:
    for api_key, version, asked, result_field, name in [
        (15, 5, "groups", "groups", "group_id"),
        (42, 2, "groups_names", "results", "group_id"),
        (69, 1, "group_ids", "groups", "group_id"),
        (10, 4, "coordinator_keys", "coordinators", "key"),
    ]:
        answer = _answered(api_key, version, build_entity(request_type(api_key, version), {asked: ["a", "b"]}))
        results = getattr(answer, result_field)
        assert [(getattr(each, name), each.error_code) for each in results] == [
            ("a", _REFUSAL.error),
            ("b", _REFUSAL.error),
        ]
        assert result_list(api_key, version) == result_field


def test_a_refused_fetch_of_offsets_says_so_of_the_group_from_version_8_and_of_partitions_in_version_1() -> None:
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    many = _answered(
        ApiKey.OFFSET_FETCH,
        8,
        build_entity(request_type(ApiKey.OFFSET_FETCH, 8), {"groups": [{"group_id": "g", "topics": topics}]}),
    )
    assert [(group.group_id, group.error_code, group.topics) for group in many.groups] == [("g", _REFUSAL.error, ())]
    (topic,) = _answered(
        ApiKey.OFFSET_FETCH, 1, build_entity(request_type(ApiKey.OFFSET_FETCH, 1), {"group_id": "g", "topics": topics})
    ).topics
    assert [(each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions] == [
        (0, -1, _REFUSAL.error),
        (1, -1, _REFUSAL.error),
    ]


def test_a_refused_join_gives_neither_a_generation_nor_members() -> None:
    for version in known_versions(ApiKey.JOIN_GROUP):
        answer = _answered(
            ApiKey.JOIN_GROUP,
            version,
            build_entity(request_type(ApiKey.JOIN_GROUP, version), {"group_id": "g", "protocol_type": "consumer"}),
        )
        assert (answer.error_code, answer.generation_id, answer.members) == (_REFUSAL.error, -1, ())


def test_no_coordinator_is_told_to_whom_it_is_refused() -> None:
    answer = _answered(ApiKey.FIND_COORDINATOR, 3, build_entity(request_type(ApiKey.FIND_COORDINATOR, 3), {"key": "g"}))
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (_REFUSAL.error, -1, "", -1)


def test_the_user_of_a_deletion_and_an_upsertion_is_named_once() -> None:
    request = build_entity(
        request_type(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0),
        {
            "deletions": [{"name": "alice", "mechanism": 1}],
            "upsertions": [{"name": "alice", "mechanism": 2}, {"name": "bob", "mechanism": 1}],
        },
    )
    assert [result.user for result in _answered(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request).results] == [
        "alice",
        "bob",
    ]


def test_topics_of_all_folders_are_named() -> None:
    folders = [
        {"path": "/a", "topics": [{"name": "orders", "partitions": [0, 1]}]},
        {"path": "/b", "topics": [{"name": "bills", "partitions": [2]}]},
    ]
    results = _answered(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        build_entity(request_type(ApiKey.ALTER_REPLICA_LOG_DIRS, 2), {"dirs": folders}),
    ).results
    named = [(each.topic_name, [partition.partition_index for partition in each.partitions]) for each in results]
    assert named == [("orders", [0, 1]), ("bills", [2])]


def test_a_quota_that_is_not_changed_is_named_as_it_was_asked_for() -> None:
    entity = [{"entity_type": "user", "entity_name": "alice"}]
    request = build_entity(
        request_type(ApiKey.ALTER_CLIENT_QUOTAS, 1),
        {"entries": [{"entity": entity, "ops": [{"key": "k", "value": 1.0}]}]},
    )
    (entry,) = _answered(ApiKey.ALTER_CLIENT_QUOTAS, 1, request).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", "alice")]


def test_a_topic_that_is_not_made_carries_the_message() -> None:
    topics = [
        {"name": "orders", "num_partitions": 3, "replication_factor": 1, "configs": [{"name": "a", "value": "b"}]}
    ]
    response = refused_response(
        ApiKey.CREATE_TOPICS, 7, build_entity(request_type(ApiKey.CREATE_TOPICS, 7), {"topics": topics}), _REFUSAL
    )
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.error_message) == ("orders", _REFUSAL.error, "not here")
