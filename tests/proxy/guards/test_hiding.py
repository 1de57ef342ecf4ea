"""A hidden topic and transactional id: which APIs can name them, their errors, and the results for other names."""

from typing import Any
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import (
    decode_request,
    decode_response,
    encode_response,
    known_versions,
    request_type,
    response_type,
)
from kcoord.protocol.entity_fields import shape_of
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import PASS, Answer, Replace
from kcoord.proxy.guards.guard_rules import GuardRules
from kcoord.proxy.guards.guarded_apis import GUARDED
from kcoord.proxy.guards.guarding import GuardInterceptor
from kcoord.proxy.guards.hidden_names import HiddenNames
from kcoord.proxy.guards.hiding import HidingInterceptor, hidden_journal, untouchable_transactions
from kcoord.proxy.guards.naming_apis import NAMING, REFUSED
from kcoord.proxy.local.answering import GROUP_APIS, UNSERVED
from kcoord.proxy.observing.group_observer import GroupObserver
from tests.proxy.forwarding_scene import Scene, answer, heartbeat, request
from tests.proxy.guard_scene import Clock, FakeClient, answered, asked, forwarded_by, response_of

JOURNAL, JOURNAL_ID, TRANSACTION = "__journal", UUID(int=0xABCDEF << 64 | 7), "kcoord-journal-__journal"
OTHER_ID = UUID(int=5 << 90)
UNKNOWN = ErrorCode.unknown_topic_or_partition
NOT_YOURS = ErrorCode.transactional_id_authorization_failed
ACLS = {29, 30, 31}


@pytest.fixture
def hiding() -> HidingInterceptor:
    names = HiddenNames(topic=JOURNAL, transactional_id=TRANSACTION)
    names.learn_topic_id(JOURNAL_ID)
    return HidingInterceptor(hidden_journal(names), Clock())


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def test_every_api_that_can_name_a_topic_or_a_transaction_is_in_the_table_or_does_not_pass() -> None:
    naming = {key for key in GUARDED if any(_names_something(request_type(key, each)) for each in known_versions(key))}
    assert naming - set(NAMING) - REFUSED - GROUP_APIS - UNSERVED == {ApiKey.DESCRIBE_QUORUM}


def test_every_api_that_can_show_topics_or_transactions_unasked_is_in_the_table() -> None:
    """The check covers answers with a list of topics whose request names none, or may have a null or empty list."""
    showing = {key for key in GUARDED if any(_shows_unasked(key, each) for each in known_versions(key))}
    in_table = {key for key, api in NAMING.items() if api.shown}
    named_below = {ApiKey.WRITE_TXN_MARKERS}  # topics are named in each marker; the answer has no others
    assert showing - REFUSED - GROUP_APIS - UNSERVED - ACLS - named_below <= in_table


@pytest.mark.parametrize("key", sorted(NAMING))
def test_the_fields_that_the_table_tells_are_there_in_every_version(key: int) -> None:
    api = NAMING[key]
    for version in known_versions(key):
        asked_by = {each.name: each for each in shape_of(request_type(key, version)).plain}
        if api.lists or api.transaction_fields:
            assert any(each in asked_by for each in (*api.lists, *api.transaction_fields)), version
        entity: Any = response_type(key, version)
        for name in api.shown:
            entity = next((each.entity for each in shape_of(entity).plain if each.name == name), None)
            assert entity is not None, (version, name)


def test_a_frame_without_the_names_passes_unread(hiding: HidingInterceptor, client: FakeClient) -> None:
    broken = asked(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "t"}])._replace(frame=b"no request at all")
    assert hiding.request(client, broken) is PASS


def test_bytes_of_the_name_that_stand_for_something_else_are_no_reason_to_refuse(
    hiding: HidingInterceptor, client: FakeClient
) -> None:
    records = [{"index": 0, "records": JOURNAL.encode() + JOURNAL_ID.bytes}]
    produced = asked(ApiKey.PRODUCE, 9, acks=1, topic_data=[{"name": f"{JOURNAL}-2", "partition_data": records}])
    assert hiding.request(client, produced) is PASS


def test_of_several_topics_the_hidden_one_is_unknown_and_the_rest_is_asked(
    hiding: HidingInterceptor, client: FakeClient
) -> None:
    partitions = [{"partition_index": 3, "timestamp": -1}]
    both = asked(ApiKey.LIST_OFFSETS, 7, topics=[{"name": each, "partitions": partitions} for each in (JOURNAL, "t")])

    decision = hiding.request(client, both)

    assert [topic.name for topic in forwarded_by(decision, both).topics] == ["t"]
    result = _amended(decision, both, topics=[{"name": "t", "partitions": [{"partition_index": 3, "offset": 8}]}])
    assert [
        (each.name, each.partitions[0].error_code, each.partitions[0].partition_index) for each in result.topics
    ] == [
        ("t", ErrorCode.none, 3),
        (JOURNAL, UNKNOWN, 3),
    ]


def test_topics_by_name_and_by_id_are_told_each_in_its_way(hiding: HidingInterceptor, client: FakeClient) -> None:
    named = [{"name": JOURNAL, "topic_id": None}, {"name": None, "topic_id": JOURNAL_ID}]
    deletion = asked(ApiKey.DELETE_TOPICS, 6, topics=named)

    result = response_of(hiding.request(client, deletion), deletion).responses

    assert {(each.name, each.topic_id): each.error_code for each in result} == {
        (JOURNAL, None): UNKNOWN,
        (None, JOURNAL_ID): ErrorCode.unknown_topic_id,
    }


@pytest.mark.parametrize("version", known_versions(ApiKey.METADATA))
def test_metadata_of_all_topics_leaves_it_out_and_learns_its_id(
    hiding: HidingInterceptor, client: FakeClient, version: int
) -> None:
    everything = asked(ApiKey.METADATA, version, topics=() if version == 0 else None)
    topics = [{"name": JOURNAL, "topic_id": OTHER_ID}, {"name": "t", "topic_id": UUID(int=9)}]

    result = _amended(hiding.request(client, everything), everything, topics=topics, brokers=[])

    assert [each.name for each in result.topics] == ["t"]
    assert (OTHER_ID in hiding.names.topic_ids) == (version >= 10)


@pytest.mark.parametrize("version", range(10, known_versions(ApiKey.METADATA).stop))
def test_metadata_by_id_can_be_told_in_every_version(
    hiding: HidingInterceptor, client: FakeClient, version: int
) -> None:
    by_id = asked(ApiKey.METADATA, version, topics=[{"topic_id": JOURNAL_ID, "name": None}])
    (result,) = response_of(hiding.request(client, by_id), by_id).topics
    assert (result.error_code, result.topic_id, result.partitions) == (ErrorCode.unknown_topic_id, JOURNAL_ID, ())


def test_settings_of_a_group_of_the_same_name_are_not_hidden(hiding: HidingInterceptor, client: FakeClient) -> None:
    of_group = {"resource_type": 32, "resource_name": JOURNAL, "configuration_keys": None}
    assert hiding.request(client, asked(ApiKey.DESCRIBE_CONFIGS, 4, resources=[of_group])) is PASS


@pytest.mark.parametrize("name", [JOURNAL, "..journal", "_.journal"])
def test_a_topic_that_collides_with_it_is_refused_before_a_broker_tells_why(
    hiding: HidingInterceptor, client: FakeClient, name: str
) -> None:
    """A broker would name the journal in its message: Topic '_.journal' collides with existing topic: __journal."""
    creation = asked(
        ApiKey.CREATE_TOPICS, 7, topics=[{"name": each, "assignments": [], "configs": []} for each in (name, "t")]
    )

    decision = hiding.request(client, creation)

    assert [each.name for each in forwarded_by(decision, creation).topics] == ["t"]
    result = _amended(decision, creation, topics=[{"name": "t", "configs": []}]).topics
    assert [(each.name, each.error_code) for each in result] == [
        ("t", ErrorCode.none),
        (name, ErrorCode.topic_authorization_failed),
    ]


def test_a_topic_that_collides_with_it_does_not_pass_unseen(hiding: HidingInterceptor) -> None:
    scene = Scene(hiding)
    scene.ask(request(ApiKey.CREATE_TOPICS, 7, 1, topics=[{"name": "_.journal", "assignments": [], "configs": []}]))
    assert scene.broker_link.written == b""


@pytest.mark.parametrize("partition", [0, 3])
def test_a_cursor_does_not_tell_its_name_and_goes_on_behind_it(
    hiding: HidingInterceptor, client: FakeClient, partition: int
) -> None:
    first = asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=None)
    cursor = {"topic_name": JOURNAL, "partition_index": partition}
    result = _amended(hiding.request(client, first), first, topics=[{"name": "T"}], next_cursor=cursor).next_cursor
    assert JOURNAL not in result.topic_name
    assert result.topic_name, "there is more to come"

    for sent in ({"topic_name": result.topic_name, "partition_index": result.partition_index}, cursor):
        second = asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=sent)
        passed = forwarded_by(hiding.request(client, second), second).cursor
        assert (passed.topic_name, passed.partition_index > 1_000_000) == (JOURNAL, True)


def test_a_cursor_of_another_topic_is_passed_as_it_is(hiding: HidingInterceptor, client: FakeClient) -> None:
    cursor = {"topic_name": "t", "partition_index": 2}
    wanted = asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=cursor)
    decision = hiding.request(client, wanted)
    passed = forwarded_by(decision, wanted).cursor
    result = _amended(decision, wanted, topics=[{"name": JOURNAL}], next_cursor=cursor)
    assert (passed.topic_name, passed.partition_index) == ("t", 2)
    assert (result.topics, result.next_cursor.topic_name, result.next_cursor.partition_index) == ((), "t", 2)


TRANSACTIONS, TRANSACTIONS_ID = "__transaction_state", UUID(int=0xFEDCBA << 64 | 9)


@pytest.fixture
def transactions() -> HidingInterceptor:
    names = HiddenNames(topic=TRANSACTIONS)
    names.learn_topic_id(TRANSACTIONS_ID)
    return HidingInterceptor(untouchable_transactions(names), Clock())


def test_records_of_transactions_are_neither_read_nor_written(
    transactions: HidingInterceptor, client: FakeClient
) -> None:
    """They name the journal's transactional id, and a broker takes them from who calls itself __admin_client."""
    parts = [{"index": 0, "records": b"tombstone"}]
    requests = [
        asked(ApiKey.FETCH, 12, topics=[{"topic": TRANSACTIONS, "partitions": [{"partition": 0}]}]),
        asked(ApiKey.FETCH, 16, topics=[{"topic_id": TRANSACTIONS_ID, "partitions": [{"partition": 0}]}]),
        asked(
            ApiKey.PRODUCE, 9, "__admin_client", acks=1, topic_data=[{"name": TRANSACTIONS, "partition_data": parts}]
        ),
        asked(ApiKey.PRODUCE, 13, acks=1, topic_data=[{"topic_id": TRANSACTIONS_ID, "partition_data": parts}]),
    ]
    result = [response_of(transactions.request(client, each), each).responses[0] for each in requests]
    results = [getattr(each, "partitions", None) or each.partition_responses for each in result]
    assert [each[0].error_code for each in results] == [
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_topic_id,
    ] * 2
    assert transactions.refusals["journal", "Fetch"] == 2  # type: ignore[index]  # a StrEnum is its text


@pytest.mark.parametrize(
    ("key", "version", "values"),
    [
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": TRANSACTIONS, "topic_id": None}]}),
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": TRANSACTIONS_ID}]}),
        (ApiKey.DELETE_TOPICS, 5, {"topic_names": [TRANSACTIONS]}),
        (21, 2, {"topics": [{"name": TRANSACTIONS, "partitions": [{"partition_index": 0, "offset": -1}]}]}),
        (33, 2, {"resources": [{"resource_type": 2, "resource_name": TRANSACTIONS, "configs": []}]}),
        (44, 1, {"resources": [{"resource_type": 2, "resource_name": TRANSACTIONS, "configs": []}]}),
        (ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [{"topics": [{"name": TRANSACTIONS, "partition_indexes": [0]}]}]}),
        (37, 3, {"topics": [{"name": TRANSACTIONS, "count": 99, "assignments": None}]}),
    ],
)
def test_the_topic_of_transactions_is_not_changed_either(
    transactions: HidingInterceptor, client: FakeClient, key: int, version: int, values: dict[str, Any]
) -> None:
    assert isinstance(transactions.request(client, asked(key, version, **values)), Answer)


def test_clients_may_see_that_there_is_a_topic_of_transactions(transactions: HidingInterceptor) -> None:
    assert ApiKey.METADATA not in transactions.interests


def test_a_fetch_session_goes_on_without_it(hiding: HidingInterceptor, client: FakeClient) -> None:
    topic = {"topic_id": JOURNAL_ID, "partitions": [{"partition": 2}]}
    first = asked(ApiKey.FETCH, 16, session_epoch=0, topics=[topic])
    (result,) = response_of(hiding.request(client, first), first).responses
    assert (result.topic_id, result.partitions[0].partition_index) == (JOURNAL_ID, 2)
    assert result.partitions[0].error_code is ErrorCode.unknown_topic_id

    later = asked(ApiKey.FETCH, 16, session_id=8, session_epoch=3, topics=[topic])
    decision = hiding.request(client, later)
    assert forwarded_by(decision, later).topics == ()
    result = _amended(decision, later, session_id=8, responses=[{"topic_id": OTHER_ID}])
    assert [each.topic_id for each in result.responses] == [OTHER_ID, JOURNAL_ID]


def test_produce_that_wants_no_answer_is_hung_up_on(hiding: HidingInterceptor, client: FakeClient) -> None:
    parts = [{"index": 0, "records": b""}]
    hiding.request(client, asked(ApiKey.PRODUCE, 9, acks=0, topic_data=[{"name": JOURNAL, "partition_data": parts}]))
    assert client.hung_up


@pytest.mark.parametrize("version", known_versions(ApiKey.FIND_COORDINATOR))
def test_its_coordinator_is_not_found_and_a_group_of_the_same_name_is(
    hiding: HidingInterceptor, client: FakeClient, version: int
) -> None:
    def find(key_type: int) -> Any:
        return asked(
            ApiKey.FIND_COORDINATOR, version, key_type=key_type, key=TRANSACTION, coordinator_keys=[TRANSACTION]
        )

    assert hiding.request(client, find(0)) is PASS
    if version > 0:
        result = response_of(hiding.request(client, find(1)), find(1))
        assert [each.error_code for each in getattr(result, "coordinators", (result,))] == [NOT_YOURS]


@pytest.mark.parametrize("version", known_versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_a_transaction_with_a_hidden_topic_is_not_begun_at_all(
    hiding: HidingInterceptor, client: FakeClient, version: int
) -> None:
    topics = [{"name": each, "partitions": [4]} for each in ("t", JOURNAL)]
    transaction = {"transactional_id": "mine", "producer_id": 1, "producer_epoch": 0, "topics": topics}
    other = {**transaction, "transactional_id": "other", "topics": topics[:1]}
    adding = asked(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id="mine",
        v3_and_below_topics=topics,
        transactions=[transaction, other],
    )

    decision = hiding.request(client, adding)

    if version < 4:
        results = response_of(decision, adding).results_by_topic_v3_and_below
    else:
        assert [each.transactional_id for each in forwarded_by(decision, adding).transactions] == ["other"]
        result = _amended(decision, adding, results_by_transaction=[])
        assert result.error_code is ErrorCode.none
        results = [topic for each in result.results_by_transaction for topic in each.topic_results]
    assert {each.name: each.results_by_partition[0].partition_error_code for each in results} == {
        JOURNAL: UNKNOWN,
        "t": ErrorCode.operation_not_attempted,
    }


def test_markers_are_written_to_other_topics(hiding: HidingInterceptor, client: FakeClient) -> None:
    topics = [{"name": each, "partition_indexes": [0]} for each in ("t", JOURNAL)]
    marking = asked(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{"producer_id": 6, "producer_epoch": 0, "topics": topics}])
    (marker,) = forwarded_by(hiding.request(client, marking), marking).markers
    assert (marker.producer_id, [each.name for each in marker.topics]) == (6, ["t"])


def test_folders_are_described_without_it_also_if_it_is_asked_for_alone(
    hiding: HidingInterceptor, client: FakeClient
) -> None:
    alone = asked(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": JOURNAL, "partitions": [0]}])
    decision = hiding.request(client, alone)
    assert forwarded_by(decision, alone).topics == (), "none; null would be all of them"

    everything = asked(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    results = [{"log_dir": "/d", "topics": [{"name": JOURNAL}, {"name": "t"}]}]
    result = _amended(hiding.request(client, everything), everything, results=results)
    assert [[topic.name for topic in each.topics] for each in result.results] == [["t"]]


def test_it_is_one_line_of_the_log(
    hiding: HidingInterceptor, client: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        hiding.request(client, asked(ApiKey.DELETE_TOPICS, 5, topic_names=[JOURNAL]))
    (line,) = caplog.messages
    assert line.startswith("refused api=DeleteTopics reason=journal peer=10.0.0.7:5555 client=app")


# Within forwarding


def test_produce_and_fetch_pass_between_others_in_order(hiding: HidingInterceptor) -> None:
    scene = Scene(hiding)
    partition = {"partition": 0, "fetch_offset": 5}
    hidden = request(ApiKey.FETCH, 12, 2, topics=[{"topic": JOURNAL, "partitions": [partition]}])
    mixed = request(
        ApiKey.FETCH,
        12,
        3,
        topics=[{"topic": each, "partitions": [partition]} for each in ("t", JOURNAL)],
        session_epoch=-1,
    )
    scene.ask(heartbeat(1) + hidden + mixed + heartbeat(4))

    first, second, third = FrameSplitter(1 << 20).feed(scene.broker_link.written)
    assert (first, third) == (heartbeat(1)[4:], heartbeat(4)[4:])
    assert [each.topic for each in decode_request(second, ApiKey.FETCH, 12)[1].topics] == ["t"]

    records = {"partition_index": 0, "high_watermark": 9, "records": b"records"}
    fetched = build_entity(response_type(ApiKey.FETCH, 12), {"responses": [{"topic": "t", "partitions": [records]}]})
    whole = encode_response(RequestHeader(ApiKey.FETCH, 12, 3), fetched)
    scene.answer(answer(1), whole[:9], whole[9:], answer(4))  # in pieces
    first, second, third, fourth = FrameSplitter(1 << 20).feed(scene.client_link.written)
    assert (first, fourth) == (answer(1)[4:], answer(4)[4:])
    assert [each.topic for each in decode_response(second, ApiKey.FETCH, 12)[1].responses] == [JOURNAL]
    result = decode_response(third, ApiKey.FETCH, 12)[1].responses
    assert [(each.topic, each.partitions[0].error_code) for each in result] == [
        ("t", ErrorCode.none),
        (JOURNAL, UNKNOWN),
    ]


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("cut", [0, 20])
def test_what_does_not_name_it_passes_as_it_is_and_what_does_never(
    hiding: HidingInterceptor, size: int, cut: int
) -> None:
    def produced(topic: str) -> bytes:
        parts = [{"index": 0, "records": bytes(size)}]
        return request(ApiKey.PRODUCE, 9, 1, acks=1, topic_data=[{"name": topic, "partition_data": parts}])

    scene = Scene(hiding)
    for topic in ("t", JOURNAL):
        scene.ask(*filter(None, (produced(topic)[:cut], produced(topic)[cut:])))
    assert scene.broker_link.written == produced("t")


def test_answers_to_requests_that_do_not_name_it_pass_in_parts(hiding: HidingInterceptor) -> None:
    scene = Scene(hiding)
    scene.ask(request(ApiKey.FETCH, 12, 1, topics=[{"topic": "t", "partitions": [{"partition": 0}]}]))
    scene.answer(answer(1, bytes(100))[:50])
    assert len(scene.client_link.written) == 50, "as it comes"


def test_guards_may_change_the_same_request(hiding: HidingInterceptor) -> None:
    """Read-only mode changes a Metadata request, so that it creates no topics, and hiding changes its answer."""
    clock = Clock()
    scene = Scene(hiding, GuardInterceptor(GuardRules(is_read_only=True), GroupObserver(clock), clock))
    scene.ask(request(ApiKey.METADATA, 12, 1, topics=None, allow_auto_topic_creation=True))
    (passed,) = FrameSplitter(1 << 20).feed(scene.broker_link.written)
    assert not decode_request(passed, ApiKey.METADATA, 12)[1].allow_auto_topic_creation
    values = {"topics": [{"name": JOURNAL}, {"name": "t"}], "brokers": []}
    scene.answer(
        encode_response(RequestHeader(ApiKey.METADATA, 12, 1), build_entity(response_type(ApiKey.METADATA, 12), values))
    )
    (result,) = FrameSplitter(1 << 20).feed(scene.client_link.written)
    assert [each.name for each in decode_response(result, ApiKey.METADATA, 12)[1].topics] == ["t"]


@pytest.mark.parametrize(
    "api_key", [ApiKey.LEADER_AND_ISR, ApiKey.ENVELOPE, ApiKey.INITIALIZE_SHARE_GROUP_STATE, 93, 999, 32767]
)
def test_what_nobody_here_knows_or_only_brokers_ask_is_neither_offered_nor_passed(
    hiding: HidingInterceptor, api_key: int
) -> None:
    scene = Scene(hiding)
    frame = api_key.to_bytes(2) + bytes(2) + (1).to_bytes(4) + b"\xff\xff"
    scene.ask(len(frame).to_bytes(4) + frame)
    assert scene.client_link.is_closed
    assert scene.broker_link.written == b""
    assert not scene.limits[api_key]


# Helpers


def _amended(decision: Any, asked_for: Any, **values: Any) -> Any:
    """Decodes a broker's answer as the client gets it."""
    assert isinstance(decision, Replace)
    assert decision.transform
    frame = decision.transform(answered(asked_for, **values))
    return decode_response(frame, asked_for.api_key, asked_for.api_version)[1]


_NAMES = {"topic", "topics", "topic_name", "topic_names", "topic_id", "transactional_id", "transactional_ids"}
_LISTS = {"topics", "topic_data", "transaction_states", "config_resources", "replica_election_results"}


def _names_something(entity_type: Any) -> bool:
    shape = shape_of(entity_type)
    names = {each.name for each in (*shape.plain, *shape.tagged)}
    if names & _NAMES or ({"resource_name", "resource_type"} <= names and "resource_pattern_type" not in names):
        return True
    return any(_names_something(each.entity) for each in (*shape.plain, *shape.tagged) if each.entity)


def _shows_unasked(key: int, version: int) -> bool:
    listed = _lists_in(response_type(key, version))
    wanted = [each for each in shape_of(request_type(key, version)).plain if each.is_array and each.name in _LISTS]
    return bool(listed) and all(each.is_nullable for each in wanted)


def _lists_in(entity_type: Any) -> set[str]:
    found: set[str] = set()
    for each in shape_of(entity_type).plain:
        if each.entity and each.is_array:
            found |= ({each.name} & _LISTS) | _lists_in(each.entity)
    return found
