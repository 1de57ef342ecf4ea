"""ApiVersions, Metadata, DescribeCluster, FindCoordinator."""

from typing import Any
from uuid import UUID

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from tests.support.differential.difference import in_any_order
from tests.support.differential.pair import (
    Pair,
    topic_id,
    unknown_id,
    versions,
)

SOFTWARE = {"client_software_name": "kcoord-tests", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", versions(0, 4))
def test_the_announced_ranges_of_served_apis_are_those_of_kafka(pair: Pair, version: int) -> None:
    kafka, kcoord = (
        {line["api_key"]: line for line in side.ask(ApiKey.API_VERSIONS, version, SOFTWARE)["api_keys"]}
        for side in (pair.kafka, pair.kcoord)
    )
    assert set(kcoord) == set(SERVED)
    assert kcoord == {key: kafka[key] for key in kcoord}


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-", "a b", "a-", ".", "ü", "a..b", "x" * 300])
def test_a_strange_name_of_client_software_is_refused(pair: Pair, version: int, name: str) -> None:
    answers = [
        side.ask(ApiKey.API_VERSIONS, version, {"client_software_name": name, "client_software_version": "1"})
        for side in (pair.kafka, pair.kcoord)
    ]
    assert answers[0]["error_code"] == answers[1]["error_code"]
    assert bool(answers[0]["api_keys"]) == bool(answers[1]["api_keys"])


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(pair: Pair, version: int) -> None:
    frames = []
    for side in (pair.kafka, pair.kcoord):
        with Client(*side.address) as client:
            client.send_bytes(_frame(ApiKey.API_VERSIONS, version))
            frames.append(client.receive_frame())
    assert frames[0] == frames[1]


def test_topics_that_exist_are_described_the_same_in_every_version(pair: Pair) -> None:
    one, three = pair.topic("one"), pair.topic("three")
    pair.create(one)
    pair.create(three, partitions=3)
    for version in versions(0, 13):
        pair.ask(ApiKey.METADATA, version, topics=_named(one, three))
        pair.ask(ApiKey.METADATA, version, topics=_named(three, one, three))
        pair.ask(
            ApiKey.METADATA,
            version,
            topics=_named(one),
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )


def test_no_topics_and_all_topics_differ_by_version(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(0, 13):
        asked: list[list[Any] | None] = [[], None] if version else [[]]
        for topics in asked:
            values = {"topics": topics, "include_topic_authorized_operations": version % 2 == 0}
            answers = [_only(side.ask(ApiKey.METADATA, version, values), topic) for side in (pair.kafka, pair.kcoord)]
            pair.compare(ApiKey.METADATA, version, values, *answers)


def test_a_topic_that_is_not_there_is_not_made_where_that_is_not_allowed(pair: Pair) -> None:
    topic = pair.topic("absent")
    for version in versions(4, 13):
        for flag in (False, True):
            pair.ask(
                ApiKey.METADATA,
                version,
                topics=_named(topic, "bad name"),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=flag,
            )


def test_a_topic_is_made_by_asking_for_it(pair: Pair) -> None:
    for version in versions(0, 13):
        topic = pair.topic(f"auto-{version}")
        pair.ask(ApiKey.METADATA, version, topics=_named(topic), allow_auto_topic_creation=True)
        pair.wait_for_topic(topic)
        pair.ask(ApiKey.METADATA, version, topics=_named(topic), allow_auto_topic_creation=True)


def test_a_topic_is_not_made_beside_one_that_it_collides_with(pair: Pair) -> None:
    pair.create(pair.topic("a.b"))
    for version in (0, 4, 13):
        pair.ask(ApiKey.METADATA, version, topics=_named(pair.topic("a_b")), allow_auto_topic_creation=True)
        pair.ask(ApiKey.METADATA, version, topics=_named(pair.topic("a_b")), allow_auto_topic_creation=False)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 249, "x" * 250, "-", "_"])
def test_invalid_names_are_told_from_unknown_ones(pair: Pair, name: str) -> None:
    for version in versions(4, 13):
        pair.ask(ApiKey.METADATA, version, topics=_named(name), allow_auto_topic_creation=False)
    if len(name) != 249 and name not in "-_":
        for version in versions(0, 13):
            pair.ask(ApiKey.METADATA, version, topics=_named(name), allow_auto_topic_creation=True)


def test_topics_are_asked_for_by_id_from_version_12_on(pair: Pair) -> None:
    topic, other = pair.topic(), pair.topic("other")
    pair.create(topic, other)
    for version in versions(10, 13):
        for asked in (
            [{"topic_id": topic_id(topic), "name": None}],
            [{"topic_id": topic_id(topic), "name": topic}],
            [{"topic_id": topic_id(topic), "name": other}],
            [{"topic_id": unknown_id, "name": None}],
            [{"topic_id": unknown_id, "name": topic}],
            [{"topic_id": None, "name": None}],
            [{"topic_id": UUID(int=0), "name": topic}],
            [{"topic_id": topic_id(topic), "name": None}, {"topic_id": None, "name": topic}],
            [{"topic_id": topic_id(topic), "name": None}, {"topic_id": None, "name": other}],
            [{"topic_id": topic_id(topic), "name": None}, {"topic_id": topic_id(topic), "name": None}],
            [{"topic_id": unknown_id, "name": None}, {"topic_id": topic_id(topic), "name": None}],
            [{"topic_id": unknown_id, "name": None}, {"topic_id": None, "name": None}],
        ):
            for flag in (False, True):
                pair.ask(
                    ApiKey.METADATA,
                    version,
                    topics=asked,
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=flag,
                )


def test_the_log_of_the_controllers_is_not_made_by_asking_for_it(pair: Pair) -> None:
    for _ in range(2):
        pair.ask(ApiKey.METADATA, 13, topics=_named("__cluster_metadata"), allow_auto_topic_creation=True)


def test_the_cluster_is_described_the_same(pair: Pair) -> None:
    for version in versions(0, 2):
        for operations in (False, True):
            for endpoint in (1, 2, 3, 0, -1):
                for fenced in (False, True):
                    pair.ask(
                        ApiKey.DESCRIBE_CLUSTER,
                        version,
                        include_cluster_authorized_operations=operations,
                        endpoint_type=endpoint,
                        include_fenced_brokers=fenced,
                    )


def test_the_coordinator_of_a_group_is_found(pair: Pair) -> None:
    for version in versions(0, 3):
        for key in ("g", "", "ü"):
            pair.ask(ApiKey.FIND_COORDINATOR, version, key=key, key_type=0)
    for version in versions(4, 6):
        for keys in (["g"], ["g", "h"], [], [""], ["g", "g"]):
            pair.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=keys, key_type=0)


@pytest.mark.parametrize("key_type", [3, 77, -1])
def test_a_coordinator_of_no_kind_is_refused(pair: Pair, key_type: int) -> None:
    for version in versions(1, 3):
        pair.ask(ApiKey.FIND_COORDINATOR, version, key="k", key_type=key_type)
    for version in versions(4, 6):
        pair.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["k"], key_type=key_type)
        pair.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=[], key_type=key_type)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.PRODUCE, -1),
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 14),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 19),
        (ApiKey.LIST_OFFSETS, 0),
        (ApiKey.METADATA, 14),
        (ApiKey.METADATA, -1),
        (ApiKey.CREATE_TOPICS, 1),
        (9999, 0),
        (-1, 0),
        (ApiKey.LEADER_AND_ISR, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0),
    ],
)
def test_what_is_not_served_ends_the_connection(pair: Pair, api_key: int, version: int) -> None:
    for side in (pair.kafka, pair.kcoord):
        with Client(*side.address) as client:
            client.send_bytes(_frame(api_key, version))
            assert _ends(client), f"{side.address} answered"


def _ends(client: Client) -> bool:
    try:
        client.receive_frame()
    except ConnectionError:
        return True
    return False


def _frame(api_key: int, version: int) -> bytes:
    """Encodes a request that consists of a header."""
    header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    body = header + (7).to_bytes(4, "big") + (4).to_bytes(2, "big") + b"test" + b"\0"
    return len(body).to_bytes(4, "big") + body


def _named(*topics: str) -> list[dict[str, Any]]:
    return [{"name": topic, "topic_id": None} for topic in topics]


def _only(answer: Any, topic: str) -> Any:
    """Restricts an answer to the topic of the test."""
    of_topic = [line for line in answer["topics"] if line["name"] == topic]
    return in_any_order({**answer, "topics": of_topic}, "topics")
