"""Guards of `kcoord proxy` in front of a real Kafka: clients report refusals in their own words; everything else is
forwarded."""

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.proxy import ProxyProcess
from kcoord.testing.tools import JavaTools
from tests.clients.group_members.programs import Programs
from tests.integration.support.group_scene import GroupScene
from tests.integration.support.warm_tool import WarmTools, warm_tools

Factory = Callable[..., ProxyProcess]

GROUP_SETTINGS = 32
WAIT = 60.0


@pytest.fixture(scope="module")
def tag() -> str:
    """A unique name: the cluster is shared."""
    return secrets.token_hex(3)


@pytest.fixture(scope="module")
def topic(kafka_cluster: KafkaCluster, tag: str) -> str:
    """A topic with three records."""
    name = f"guarded-{tag}"
    _create(kafka_cluster.bootstrap, name)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(3):
        producer.produce(name, str(number))
    assert producer.flush(WAIT) == 0
    return name


@pytest.fixture(scope="module")
def read_only(kafka_cluster: KafkaCluster, kcoord_proxy_factory: Factory, tag: str) -> ProxyProcess:
    options = ("--read-only", "--allow", f"OffsetCommit:reports-{tag}")
    return kcoord_proxy_factory(kafka_cluster.bootstrap, *options)


@pytest.fixture(scope="module")
def guarded(kafka_cluster: KafkaCluster, kcoord_proxy_factory: Factory) -> ProxyProcess:
    return kcoord_proxy_factory(
        kafka_cluster.bootstrap,
        *("--deny", "groups:secret-.*"),
        *("--max-group-size", "2:crew-.*"),
        *("--max-rebalances", "3/10m:flapping-.*", "--max-rebalances", "1/2s:queue-.*"),
    )


@pytest.fixture(scope="module")
def tools(java_tools: JavaTools) -> Iterator[WarmTools]:
    with warm_tools(log_level="error") as warm:
        yield warm


def _client(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client(host, int(port))


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT)


def _consumer(bootstrap: str, group: str, **more: Any) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6000, **more})


def _first_error(consumer: Consumer) -> KafkaError:
    """Returns the first error of a consumer that is not about records."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and (error := message.error()):
            return error
    raise AssertionError("the consumer was told nothing")


def _joined(consumer: Consumer) -> None:
    deadline = time.monotonic() + WAIT
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline, "the consumer got no partitions"


def _commit(bootstrap: str, group: str, topic: str) -> None:
    consumer = _consumer(bootstrap, group)
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    finally:
        consumer.close()


# Read-only


def test_a_read_only_proxy_lets_records_be_read(read_only: ProxyProcess, topic: str) -> None:
    consumer = _consumer(read_only.bootstrap, "nobody")
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[Any] = []
    deadline = time.monotonic() + WAIT
    while len(values) < 3 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert not message.error()
            values.append(message.value())
    consumer.close()
    assert values == [b"0", b"1", b"2"]


def test_producers_of_a_read_only_proxy_fail_for_good(read_only: ProxyProcess, topic: str) -> None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": read_only.bootstrap, "message.timeout.ms": int(1000 * WAIT)})
    producer.produce(topic, b"no", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(WAIT) == 0
    assert [error and error.code() for error in outcomes] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    idempotent = Producer({"bootstrap.servers": read_only.bootstrap, "enable.idempotence": True})
    with pytest.raises(KafkaException) as fatal:
        idempotent.poll(WAIT)
    error = fatal.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError.CLUSTER_AUTHORIZATION_FAILED, True)
    for each in (producer, idempotent):
        each.close()


def test_a_producer_that_wants_no_answer_is_hung_up_on_and_others_are_not(read_only: ProxyProcess, topic: str) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": b""}]}]
    with _client(read_only.bootstrap) as producer, _client(read_only.bootstrap) as other:
        other.ask(ApiKey.METADATA, 12, topics=[])
        producer.send(ApiKey.PRODUCE, 9, acks=0, timeout=1.0, topic_data=data)
        with pytest.raises(OSError, match="closed"):
            producer.receive(ApiKey.PRODUCE, 9)
        other.ask(ApiKey.METADATA, 12, topics=[])


def test_a_member_of_a_read_only_proxy_is_told_that_it_may_not_join(read_only: ProxyProcess, topic: str) -> None:
    consumer = _consumer(read_only.bootstrap, "nobody")
    consumer.subscribe([topic])
    assert _first_error(consumer).code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def test_only_what_is_allowed_is_committed_through_a_read_only_proxy(
    read_only: ProxyProcess, topic: str, tag: str
) -> None:
    _commit(read_only.bootstrap, f"reports-{tag}", topic)
    with pytest.raises(KafkaException) as refused:
        _commit(read_only.bootstrap, f"others-{tag}", topic)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_asking_a_read_only_proxy_for_a_topic_does_not_make_it(
    read_only: ProxyProcess, kafka_cluster: KafkaCluster, tag: str
) -> None:
    asked = {"topics": [{"name": f"new-{tag}", "topic_id": None}], "allow_auto_topic_creation": True}
    with _client(read_only.bootstrap) as client, _client(kafka_cluster.bootstrap) as direct:
        for _ in range(2):
            (topic,) = client.ask(ApiKey.METADATA, 12, **asked).topics
            assert topic.error_code is ErrorCode.unknown_topic_or_partition
        assert f"new-{tag}" not in [topic.name for topic in direct.ask(ApiKey.METADATA, 12, topics=None).topics]
        direct.ask(ApiKey.METADATA, 12, **asked)  # what the proxy did not forward to the broker
        deadline = time.monotonic() + WAIT
        while direct.ask(ApiKey.METADATA, 12, **asked).topics[0].error_code and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not direct.ask(ApiKey.METADATA, 12, **asked).topics[0].error_code


def test_what_reads_and_changes_something_all_the_same_does_not_pass_a_read_only_proxy(
    read_only: ProxyProcess, topic: str
) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    asked = {"max_wait": 0.1, "max_bytes": 1 << 20, "topics": [{"topic": topic, "partitions": partitions}]}
    with _client(read_only.bootstrap) as client:
        for replica_id, error in ((-1, ErrorCode.none), (1, ErrorCode.topic_authorization_failed)):
            (answer,) = client.ask(ApiKey.FETCH, 11, replica_id=replica_id, session_epoch=-1, **asked).responses
            assert [partition.error_code for partition in answer.partitions] == [error]
        (sought,) = client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["t"]).coordinators
        assert sought.error_code is ErrorCode.transactional_id_authorization_failed


def test_javas_tools_show_what_a_read_only_proxy_says(
    read_only: ProxyProcess, tools: WarmTools, topic: str, tag: str
) -> None:
    where = ("--bootstrap-server", read_only.bootstrap)
    made = tools.run("topics", *where, "--create", "--topic", f"new-{tag}")
    assert "refused by the proxy: it is read-only" in made.stdout + made.stderr
    assert made.exit_code != 0
    reset = tools.run(
        *("consumer-groups", *where, "--reset-offsets", "--to-earliest", "--execute"),
        *("--group", f"others-{tag}", "--topic", topic),
    )
    assert "GroupAuthorizationException" in reset.stdout + reset.stderr
    described = tools.run("topics", *where, "--describe", "--topic", topic)
    assert f"Topic: {topic}" in described.stdout


def test_javas_producer_ends_where_only_reading_is_allowed(
    read_only: ProxyProcess, kafka_cluster: KafkaCluster, tools: WarmTools, topic: str
) -> None:
    # Whether send() throws or the callback gets the error depends on thread timing: the message is the same.
    run = tools.run(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "1", "--record-size", "10"),
        *("--throughput", "-1", "--command-property", f"bootstrap.servers={read_only.bootstrap}"),
    )
    assert "org.apache.kafka.common.errors.ClusterAuthorizationException" in run.stderr
    assert "1 records sent" not in run.stdout
    direct = _consumer(kafka_cluster.bootstrap, "nobody")
    assert direct.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT) == (0, 3)
    direct.close()


# Denied APIs and groups


def test_a_consumer_whose_fetches_are_denied_is_told_so(
    kafka_cluster: KafkaCluster, kcoord_proxy_factory: Factory, topic: str
) -> None:
    with kcoord_proxy_factory(kafka_cluster.bootstrap, "--deny", "Fetch") as proxy:
        consumer = _consumer(proxy.bootstrap, "nobody")
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert _first_error(consumer).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        consumer.close()


def test_denied_groups_are_refused_among_others_that_are_not(
    guarded: ProxyProcess, kafka_cluster: KafkaCluster, topic: str, tag: str
) -> None:
    names = [f"open-{tag}", f"secret-{tag}"]
    for name in names:
        _commit(kafka_cluster.bootstrap, name, topic)
    groups = [{"group_id": name, "topics": None} for name in names]
    with _client(guarded.bootstrap) as client:
        found = client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=names).coordinators
        fetched = client.ask(ApiKey.OFFSET_FETCH, 8, groups=groups).groups
        described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=names).groups
    for answers in (found, fetched, described):
        assert [each.error_code for each in answers] == [ErrorCode.none, ErrorCode.group_authorization_failed]
    assert [(each.key, each.node_id) for each in found] == [(names[0], found[0].node_id), (names[1], -1)]
    assert f"{found[0].host}:{found[0].port}" != kafka_cluster.bootstrap
    assert [(each.group_id, len(each.topics)) for each in fetched] == [(names[0], 1), (names[1], 0)]


def test_denied_groups_cannot_be_read_from_the_topic_that_has_them_all(
    kafka_cluster: KafkaCluster, guarded: ProxyProcess, topic: str, tag: str
) -> None:
    committing = Consumer({"bootstrap.servers": kafka_cluster.bootstrap, "group.id": f"secret-{tag}"})
    committing.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    committing.close()

    def read_first(bootstrap: str, wanted: str) -> Any:
        """Returns the first record or error that a consumer gets from one of the partitions."""
        reading = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"reader-{tag}", "auto.offset.reset": "earliest"}
        )
        partitions = reading.list_topics(wanted, timeout=WAIT).topics[wanted].partitions
        reading.assign([TopicPartition(wanted, each, 0) for each in partitions])
        try:
            return reading.poll(WAIT)
        finally:
            reading.close()

    assert read_first(kafka_cluster.bootstrap, "__consumer_offsets").error() is None
    refused = read_first(guarded.bootstrap, "__consumer_offsets")
    assert refused.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert read_first(guarded.bootstrap, topic).value() == b"0", "other topics are read"


def test_settings_of_denied_groups_are_neither_told_nor_changed_among_others_that_are(
    guarded: ProxyProcess, kafka_cluster: KafkaCluster, tag: str
) -> None:
    names = [f"open-{tag}", f"secret-{tag}"]
    setting = "consumer.session.timeout.ms"
    change = [{"name": setting, "config_operation": 0, "value": "50000"}]
    of_groups: list[dict[str, Any]] = [{"resource_type": GROUP_SETTINGS, "resource_name": name} for name in names]
    with _client(guarded.bootstrap) as client, _client(kafka_cluster.bootstrap) as direct:
        changing = [{**group, "configs": change} for group in of_groups]
        changed = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=changing).responses
        asked = [{**group, "configuration_keys": [setting]} for group in of_groups]
        described = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked).results
        for answers in (changed, described):
            assert [each.error_code for each in answers] == [ErrorCode.none, ErrorCode.cluster_authorization_failed]
        has_arrived = time.monotonic() + WAIT
        while time.monotonic() < has_arrived:
            results = direct.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked).results
            values = [each.value for result in results for each in result.configs]
            if values[0] == "50000":
                break
        assert (values[0], values[1] == "50000") == ("50000", False)


def test_javas_tools_name_the_groups_that_are_denied(
    guarded: ProxyProcess, kafka_cluster: KafkaCluster, tools: WarmTools, topic: str, tag: str
) -> None:
    names = [f"open-too-{tag}", f"secret-too-{tag}"]
    for name in names:
        _commit(kafka_cluster.bootstrap, name, topic)
    groups = ("--group", names[0], "--group", names[1])
    deleted = tools.run("consumer-groups", "--bootstrap-server", guarded.bootstrap, "--delete", *groups)
    assert "GroupAuthorizationException" in deleted.stdout + deleted.stderr
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    listed = admin.list_consumer_groups().result(WAIT)
    assert {group.group_id for group in listed.valid} & {*names} == {names[1]}


# Limits, with members of several kinds


def test_a_group_takes_no_more_members_than_its_limit_and_those_go_on(
    guarded: ProxyProcess, member_programs: Programs, tools: WarmTools, tag: str
) -> None:
    scene = GroupScene(guarded.bootstrap, member_programs, name=f"crew-{tag}")
    try:
        topic = scene.topic(partitions=2)
        (first,) = scene.start("confluent-kafka", "first")
        (second,) = scene.start("kafka-python", "second")
        first.join()
        scene.wait_until_stable(first)
        second.join()
        both = scene.wait_until_stable(first, second)

        third = _consumer(guarded.bootstrap, scene.group)
        third.subscribe([topic])
        assert _first_error(third).code() == KafkaError.GROUP_MAX_SIZE_REACHED
        third.close()
        arguments = ("--bootstrap-server", guarded.bootstrap, "--topic", topic, "--group", scene.group)
        java = tools.run("console-consumer", *arguments)
        assert "GroupMaxSizeReachedException" in java.stdout + java.stderr
        assert scene.wait_until_stable(first, second) == both

        second.leave()
        scene.wait_until_stable(first)
        (late,) = scene.start("confluent-kafka", "late")
        late.join()
        assert scene.wait_until_stable(first, late).shares() == {"first": 1, "late": 1}
        scene.conclude()
    finally:
        scene.close()


def test_of_consumers_that_start_together_no_more_are_let_in_than_the_limit_says(
    guarded: ProxyProcess, kafka_cluster: KafkaCluster, topic: str, tag: str
) -> None:
    group = f"crew-together-{tag}"
    consumers = [_consumer(guarded.bootstrap, group) for _ in range(5)]
    for consumer in consumers:
        consumer.subscribe([topic])
    refused: dict[Consumer, int] = {}
    members: list[Any] = []
    deadline = time.monotonic() + WAIT
    with _client(kafka_cluster.bootstrap) as client:
        while (len(refused) < 3 or len(members) != 2) and time.monotonic() < deadline:
            for consumer in consumers:
                message = consumer.poll(0.05)
                if message is not None and (error := message.error()):
                    refused[consumer] = error.code()
            (described,) = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
            assert len(described.members) <= 2
            members = described.members if described.group_state == "Stable" else []
    for consumer in consumers:
        consumer.close()
    assert [*refused.values()] == [KafkaError.GROUP_MAX_SIZE_REACHED] * 3
    assert len(members) == 2


def test_a_member_that_comes_and_goes_disturbs_the_others_only_so_often(
    guarded: ProxyProcess, member_programs: Programs, tag: str
) -> None:
    scene = GroupScene(guarded.bootstrap, member_programs, name=f"flapping-{tag}")
    try:
        topic = scene.topic(partitions=2)
        (steady,) = scene.start("confluent-kafka", "steady")
        steady.join()
        alone = scene.wait_until_stable(steady)
        first, second = (_consumer(guarded.bootstrap, scene.group) for _ in range(2))
        first.subscribe([topic])
        _joined(first)
        first.close()
        second.subscribe([topic])
        until = time.monotonic() + WAIT
        while f"reason=rebalance-rate group={scene.group}" not in guarded.log():
            message = second.poll(0.1)
            assert message is None or not message.error()
            assert time.monotonic() < until
        # Three rebalances are allowed: of the steady member, of the first that joined, and of its leaving.
        assert scene.wait_until_stable(steady).generation == alone.generation + 2
        assert not second.assignment()
        second.close()
        scene.conclude()
    finally:
        scene.close()


def test_clients_that_are_held_up_by_the_rate_wait_and_are_let_in(
    guarded: ProxyProcess, member_programs: Programs, tag: str
) -> None:
    scene = GroupScene(guarded.bootstrap, member_programs, name=f"queue-{tag}")
    try:
        scene.topic(partitions=4)
        members = [scene.start(client, client)[0] for client in ("confluent-kafka", "java", "kafka-python")]
        scene.wait_for(lambda: all(member.events("ready") for member in members), "the programs to start")
        members[0].join()
        alone = scene.wait_until_stable(members[0])
        for member in members[1:]:
            member.join()
        all_of_them = scene.wait_until_stable(*members)
        assert sorted(all_of_them.shares().values()) == [1, 1, 2]
        assert all_of_them.generation > alone.generation
        scene.conclude()
    finally:
        scene.close()


# Subscriptions


def _join_with(client: Client, group: str, metadata: bytes) -> ErrorCode:
    protocols = [{"name": "range", "metadata": metadata}]
    timeouts = {"session_timeout": 10.0, "rebalance_timeout": 10.0}
    answer = client.ask(ApiKey.JOIN_GROUP, 5, group_id=group, protocol_type="consumer", protocols=protocols, **timeouts)
    code: ErrorCode = answer.error_code
    return code


def test_a_malformed_subscription_does_not_reach_the_cluster_unless_that_is_wanted(
    guarded: ProxyProcess, kafka_cluster: KafkaCluster, kcoord_proxy_factory: Factory, tag: str
) -> None:
    with (
        kcoord_proxy_factory(kafka_cluster.bootstrap, "--no-check-subscriptions") as unchecked,
        _client(guarded.bootstrap) as client,
        _client(unchecked.bootstrap) as careless,
    ):
        group = f"broken-{tag}"
        assert _join_with(client, group, b"\x00\x01broken") is ErrorCode.inconsistent_group_protocol
        assert _join_with(careless, group, b"\x00\x01broken") is ErrorCode.member_id_required
    assert f"refused api=JoinGroup reason=subscription group={group} peer=127.0.0.1:" in guarded.log()


# Groups that the proxy coordinates


def test_guards_stand_before_groups_that_the_proxy_coordinates_itself(
    kafka_cluster: KafkaCluster, kcoord_proxy_factory: Factory, topic: str, tag: str
) -> None:
    local = ("--coordinate", "local", "--set", "group.initial.rebalance.delay.ms=0")
    options = ("--read-only", "--deny", "groups:secret-.*", "--max-group-size", "1")
    with kcoord_proxy_factory(kafka_cluster.bootstrap, *local, *options) as proxy:
        names = [f"open-{tag}", f"secret-{tag}"]
        with _client(proxy.bootstrap) as client:
            found = client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=names).coordinators
            described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=names).groups
        for answers in (found, described):
            assert [each.error_code for each in answers] == [ErrorCode.none, ErrorCode.group_authorization_failed]
        first, second = (_consumer(proxy.bootstrap, names[0]) for _ in range(2))
        first.subscribe([topic])
        _joined(first)
        second.subscribe([topic])
        assert _first_error(second).code() == KafkaError.GROUP_MAX_SIZE_REACHED
        first.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        first.close()
        second.close()
        with pytest.raises(KafkaException) as refused:
            _create(proxy.bootstrap, f"no-{tag}")
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert refused.value.args[0].str() == "refused by the proxy: it is read-only"
