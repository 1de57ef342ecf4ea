"""Real clients reach a real Kafka of 3 brokers through `kcoord proxy`, and get the same results as without it."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types do not export it

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.errors import ErrorCode
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.node import free_ports
from kcoord.testing.process import CapturedProcess
from kcoord.testing.proxy import ProxyProcess, proxy_command
from kcoord.testing.tools import JavaTools
from tests.clients.java_program import JavaProgram
from tests.clients.programs import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Program, franz_go
from tests.clients.records import PARTITIONS, digests, write_records
from tests.support.admin.group_kinds import set_group

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "franz-go", "java")
RECORDS = 3000
SEED = 11
DEADLINE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    kafka: KafkaCluster
    proxy: ProxyProcess
    client: Callable[[str], Program | JavaProgram]

    def topic(self, name: str, *, partitions: int = PARTITIONS, replicas: int = 3) -> str:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        config = {"retention.ms": "-1", "min.insync.replicas": "1"}  # some records are from 2023
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(60)
        until(lambda: len(self.leaders(name)) == partitions, f"leaders of {name}")
        return name

    def leaders(self, topic: str) -> dict[int, int]:
        """Returns node ids by partition, as every broker reports them."""
        seen = [_leaders(address, topic) for address in self.kafka.bootstrap.split(",")]
        return seen[0] if all(each == seen[0] for each in seen) else {}

    def direct(self, node: int | None = None) -> Client:
        return Client(*_address(self.kafka.bootstrap.split(",")[(node or 1) - 1]))

    def through(self, node: int | None = None) -> Client:
        """Connects to the bootstrap port, or to that of a broker."""
        if node is None:
            return Client(*_address(self.proxy.bootstrap))
        return Client(*self.endpoints()[node])

    def endpoints(self) -> dict[int, tuple[str, int]]:
        with self.through() as client:
            return {each.node_id: (each.host, each.port) for each in client.ask(ApiKey.METADATA, 12, topics=()).brokers}


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(",")[0].rpartition(":")
    return host, int(port)


def _leaders(address: str, topic: str) -> dict[int, int]:
    with Client(*_address(address)) as client:
        (found,) = client.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
    if found.error_code or any(each.error_code for each in found.partitions):
        return {}
    return {each.partition_index: each.leader_id for each in found.partitions}


def until(find: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE
    while not (found := find()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def scene(
    three_brokers: KafkaCluster,
    kcoord_proxy_factory: Callable[..., ProxyProcess],
    java_tools: JavaTools,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("clients")

    @cache
    def client(name: str) -> Program | JavaProgram:
        if name == "java":
            from kcoord.testing.jars import kafka_jvm

            return JavaProgram(jvm=kafka_jvm())
        if name == "franz-go":
            return franz_go(folder)
        return {program.name: program for program in (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)}[name]

    # The ports are fixed, so that clients find a proxy that is restarted.
    port = _ports_in_a_row(5)
    with kcoord_proxy_factory(three_brokers.bootstrap, listen=f"127.0.0.1:{port}") as proxy:
        yield Scene(kafka=three_brokers, proxy=proxy, client=client)


def _ports_in_a_row(count: int) -> int:
    """Returns the first of so many successive ports, all free now."""
    for first in free_ports(200):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


# Metadata.


def test_brokers_keep_their_ids_and_have_a_port_each(scene: Scene) -> None:
    host, port = _address(scene.proxy.bootstrap)
    endpoints = {node: (host, port + 1 + node) for node in (1, 2, 3)}
    with scene.through() as client, scene.direct() as straight:
        assert scene.endpoints() == endpoints
        response = client.ask(ApiKey.DESCRIBE_CLUSTER, 1)
        assert {each.broker_id: (each.host, each.port) for each in response.brokers} == endpoints
        assert response.cluster_id == straight.ask(ApiKey.DESCRIBE_CLUSTER, 1).cluster_id == scene.kafka.cluster_id


def test_coordinators_are_found_where_they_are(scene: Scene) -> None:
    groups = [f"group-{number}" for number in range(12)]
    with scene.through() as client, scene.direct() as straight:

        def found(asked: Client, version: int) -> dict[str, tuple[int, str, int]]:
            if version >= 4:
                lines = asked.ask(ApiKey.FIND_COORDINATOR, version, key_type=0, coordinator_keys=groups).coordinators
                return {each.key: (each.node_id, each.host, each.port) for each in lines}
            lines = {group: asked.ask(ApiKey.FIND_COORDINATOR, version, key_type=0, key=group) for group in groups}
            return {group: (each.node_id, each.host, each.port) for group, each in lines.items()}

        def all_found(asked: Client) -> bool:
            return all(node >= 0 for node, *_ in found(asked, 4).values())

        for node in (1, 2, 3):  # a broker may hear of an elected leader later than the others
            with scene.direct(node) as broker:
                until(partial(all_found, broker), "coordinators")
        endpoints = scene.endpoints()
        for version in (0, 2, 3, 4, 6):
            expected = {group: node for group, (node, *_) in found(straight, version).items()}
            assert found(client, version) == {group: (node, *endpoints[node]) for group, node in expected.items()}
        assert len(set(expected.values())) > 1


def test_only_versions_that_cannot_be_rewritten_are_not_told(scene: Scene) -> None:
    def versions_of(client: Client) -> dict[int, tuple[int, int]]:
        answer = client.ask(ApiKey.API_VERSIONS, 4, client_software_name="kcoord", client_software_version="1")
        assert answer.error_code is ErrorCode.none
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    with scene.through() as client, scene.direct() as straight:
        here, there = versions_of(client), versions_of(straight)
    assert here.keys() == there.keys()
    assert {key for key in here if here[key] != there[key]} == {ApiKey.DESCRIBE_QUORUM}
    assert here[ApiKey.DESCRIBE_QUORUM] == (0, 1)


@pytest.mark.parametrize("version", [10, 12])
def test_a_producer_at_the_wrong_broker_is_shown_to_the_leader_here(scene: Scene, version: int) -> None:
    topic = f"misled-{version}"
    scene.topic(topic, partitions=1, replicas=1)
    leader = scene.leaders(topic)[0]
    with scene.through(leader % 3 + 1) as client:
        parts = [{"index": 0, "records": _empty_batch()}]
        response = client.ask(ApiKey.PRODUCE, version, acks=1, topic_data=[{"name": topic, "partition_data": parts}])
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.not_leader_or_follower
    assert [(each.node_id, (each.host, each.port)) for each in response.node_endpoints] == [
        (leader, scene.endpoints()[leader])
    ]


@pytest.mark.parametrize("version", [16, 17])
def test_a_consumer_at_the_wrong_broker_is_never_shown_an_address_that_is_not_ours(scene: Scene, version: int) -> None:
    topic = f"lost-{version}"
    scene.topic(topic, partitions=1, replicas=1)
    leader = scene.leaders(topic)[0]
    with scene.through(leader % 3 + 1) as client:
        (found,) = client.ask(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}
        topics = [{"topic_id": found.topic_id, "partitions": [part]}]
        response = client.ask(ApiKey.FETCH, version, session_epoch=-1, max_bytes=1000, topics=topics)
    assert response.responses[0].partitions[0].error_code is ErrorCode.not_leader_or_follower
    assert response.responses[0].partitions[0].current_leader.leader_id == leader
    # Host names have the same length on both sides, so that the endpoints fit.
    assert [(each.node_id, (each.host, each.port)) for each in response.node_endpoints] == [
        (leader, scene.endpoints()[leader])
    ]


def _empty_batch() -> bytes:
    """Encodes one record without key and value, in a batch of version 2."""
    import crc32c

    record = bytes([12, 0, 0, 0, 1, 1, 0])
    body = b"".join(
        [
            bytes(2),  # attributes
            (0).to_bytes(4),  # last offset delta
            (0).to_bytes(8) * 2,  # timestamps
            b"\xff" * 14,  # no producer
            (1).to_bytes(4),
            record,
        ]
    )
    header = bytes(4) + b"\2" + crc32c.crc32c(body).to_bytes(4)
    return bytes(8) + len(header + body).to_bytes(4) + header + body


# Clients.


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_reads_back_what_it_wrote(scene: Scene, name: str, tmp_path: Path) -> None:
    client = scene.client(name)
    topic = scene.topic(f"written-by-{name}")
    records = client.records(SEED, RECORDS)
    write_records(tmp_path / "records", records)
    expected = digests(records)

    client.produce(scene.proxy.bootstrap, topic, codec="lz4", records=tmp_path / "records")
    read = client.consume(scene.proxy.bootstrap, topic, counts=[each.records for each in expected])

    left_out = {"timestamps"} if name == "java" else set()  # the console producer chooses these itself
    comparable = [{key: value for key, value in each.items() if key not in left_out} for each in read]
    assert comparable == [
        {key: value for key, value in each.summary().items() if key not in left_out} for each in expected
    ]


def test_a_transaction_with_offsets_in_it_is_there_or_not(scene: Scene) -> None:
    source, target = scene.topic("source", partitions=1), scene.topic("target", partitions=1)
    produce(scene.proxy.bootstrap, source, 10)
    group = {"group.id": "transactional", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = Consumer({"bootstrap.servers": scene.proxy.bootstrap, **group})
    reader.subscribe([source])
    read = consume(reader, 10)
    writer = Producer({"bootstrap.servers": scene.proxy.bootstrap, "transactional.id": "through-the-proxy"})
    writer.init_transactions(60)
    for end in ("aborted", "committed"):
        writer.begin_transaction()
        for message in read:
            writer.produce(target, f"{end} {message.value()!r}".encode())
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 60)
        if end == "aborted":
            writer.abort_transaction(60)
            assert committed(reader, source) < 0
        else:
            writer.commit_transaction(60)
    assert committed(reader, source) == 10
    reader.close()

    settings = {"group.id": "reads-committed", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    after = Consumer({"bootstrap.servers": scene.proxy.bootstrap, **settings})
    after.subscribe([target])
    assert {bytes(message.value() or b"")[:9] for message in consume(after, 10)} == {b"committed"}
    after.close()


def test_a_share_group_of_java_is_served(scene: Scene, java_tools: JavaTools) -> None:
    topic = scene.topic("shared", partitions=3)
    produce(scene.proxy.bootstrap, topic, 30)
    with scene.through() as client:
        set_group(client, "sharing", {"share.auto.offset.reset": "earliest"})
    run = java_tools.run(
        "console-share-consumer",
        *("--bootstrap-server", scene.proxy.bootstrap, "--topic", topic, "--group", "sharing"),
        *("--max-messages", "30", "--timeout-ms", "90000"),
        timeout=DEADLINE,
    )
    assert sorted(run.stdout.split()) == sorted(str(number) for number in range(30)), run.stderr


def test_an_operator_sees_the_same_group_through_the_proxy(scene: Scene) -> None:
    topic = scene.topic("described", partitions=4)
    produce(scene.proxy.bootstrap, topic, 100)
    consumer = Consumer(
        {"bootstrap.servers": scene.proxy.bootstrap, "group.id": "described", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    consume(consumer, 100)
    consumer.commit(asynchronous=False)
    straight, through = (
        describe(bootstrap, "described") for bootstrap in (scene.kafka.bootstrap, scene.proxy.bootstrap)
    )
    consumer.close()

    assert straight["groups"][0]["members"]
    endpoints = scene.endpoints()
    coordinator = through["groups"][0]["coordinator"]
    assert (coordinator["host"], coordinator["port"]) == endpoints[coordinator["id"]]
    for document in (straight, through):
        del document["groups"][0]["coordinator"]["host"], document["groups"][0]["coordinator"]["port"]
    assert through == straight


def describe(bootstrap: str, group: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kcoord.commands", "groups", "describe", group, "-b", bootstrap, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
    document: dict[str, Any] = without_times(json.loads(done.stdout))
    return document


def without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if key != "at" and not key.endswith("_at")}
    return [without_times(each) for each in document] if isinstance(document, list) else document


def produce(bootstrap: str, topic: str, count: int) -> None:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "random", "sticky.partitioning.linger.ms": 0})
    for number in range(count):
        producer.produce(
            topic, str(number).encode(), on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(DEADLINE) == 0
    assert not failures


def consume(consumer: Consumer, count: int) -> list[Message]:
    read: list[Message] = []
    deadline = time.monotonic() + DEADLINE
    while len(read) < count:
        assert time.monotonic() < deadline, f"{len(read)} of {count} came"
        for message in consumer.consume(count - len(read), 1.0):
            error = message.error()
            assert error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
            read += [message] if error is None else []
    return read


def committed(consumer: Consumer, topic: str) -> int:
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    return int(found.offset)


# Failures.


def test_a_broker_that_dies_and_comes_back_is_lost_and_found_by_clients(scene: Scene) -> None:
    topic = scene.topic("resilient", partitions=6, replicas=3)
    settings = {"bootstrap.servers": scene.proxy.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
    delivered: list[bytes] = []
    failures: list[str] = []

    def deliver(error: KafkaError | None, message: Message) -> None:
        if error:
            failures.append(str(error))
        else:
            delivered.append(bytes(message.value() or b""))

    producer = Producer({**settings, "enable.idempotence": True, "sticky.partitioning.linger.ms": 0})
    consumer = Consumer({**settings, "group.id": "resilient", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    victim = scene.leaders(topic)[0]

    def write(first: int, count: int) -> None:
        for number in range(first, first + count):
            producer.produce(topic, str(number).encode(), on_delivery=deliver)
        assert producer.flush(DEADLINE) == 0
        assert not failures

    write(0, 300)
    read = consume(consumer, 300)
    scene.kafka.kill(victim)
    write(300, 300)
    read += consume(consumer, 300)
    until(lambda: f"broker missing node={victim}" in scene.proxy.log(), "the proxy to miss the broker")
    scene.kafka.restart(victim)
    until(lambda: victim in scene.endpoints(), "the broker to be back")
    write(600, 300)
    read += consume(consumer, 300)
    consumer.close()

    assert sorted(int(value) for value in delivered) == list(range(900))
    assert sorted(int(message.value() or b"-1") for message in read) == list(range(900))
    with scene.through(victim) as client:
        assert not client.ask(ApiKey.METADATA, 12, topics=()).brokers[0].node_id < 0
    assert "Traceback" not in scene.proxy.log()


def test_clients_survive_a_proxy_that_is_killed_and_started_again(scene: Scene) -> None:
    topic = scene.topic("restarted", partitions=3)
    listen = f"127.0.0.1:{_ports_in_a_row(5)}"
    settings = {"bootstrap.servers": listen, "reconnect.backoff.max.ms": 500, "log_level": 0}
    with ProxyProcess(scene.kafka.bootstrap, listen=listen) as first:
        producer = Producer({**settings, "enable.idempotence": True})
        consumer = Consumer({**settings, "group.id": "restarted", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        producer.produce(topic, b"before")
        assert producer.flush(DEADLINE) == 0
        assert [message.value() for message in consume(consumer, 1)] == [b"before"]
        first.kill()
    producer.produce(topic, b"after")
    with ProxyProcess(scene.kafka.bootstrap, listen=listen):
        assert producer.flush(DEADLINE) == 0
        assert [message.value() for message in consume(consumer, 1)] == [b"after"]
        consumer.close()


def test_garbage_ends_only_its_own_connection_and_one_line_says_so(scene: Scene) -> None:
    host, port = _address(scene.proxy.bootstrap)
    with scene.through() as good:
        good.ask(ApiKey.METADATA, 12, topics=())
        all_garbage = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 100, bytes(12))
        before = scene.proxy.log().count("closed peer")
        for garbage in all_garbage:
            with socket.create_connection((host, port), timeout=60) as bad:
                bad.sendall(garbage)
                assert bad.recv(10) == b""
        until(lambda: scene.proxy.log().count("closed peer") == before + len(all_garbage), "the lines")
        assert good.ask(ApiKey.METADATA, 12, topics=()).brokers


def test_a_version_that_was_not_told_ends_the_connection(scene: Scene) -> None:
    with scene.through() as client:
        client.send_bytes(b"\0\0\0\x0a\0\1\0\x63\0\0\0\1\xff\xff")  # Fetch version 99
        with pytest.raises(Disconnected):
            client.receive_frame()


def test_an_upstream_that_is_not_there_is_one_line_and_exit_code_1() -> None:
    (port,) = free_ports(1)
    done = subprocess.run(proxy_command(f"127.0.0.1:{port}", ()), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert (
        done.stderr == f"kcoord: cannot connect to 127.0.0.1:{port}: connection refused; is a broker running there?\n"
    )


def test_a_port_that_is_taken_is_one_line_and_exit_code_1(scene: Scene) -> None:
    free = next(port for port in free_ports(100) if _is_free(port + 1))
    with socket.create_server(("127.0.0.1", free + 1)):
        port = free + 1
        for listen, options, message in (
            (f"127.0.0.1:{port}", (), f"cannot listen on 127.0.0.1:{port}: Address already in use"),
            (
                "127.0.0.1:0",
                ("--port-base", str(port - 2)),
                f"cannot listen on 127.0.0.1:{port} for broker 2: Address already in use",
            ),
            ("127.0.0.1:0", ("--port-base", "65534"), "port 65534 + 2 of broker 2 is above 65535"),
        ):
            command = proxy_command(scene.kafka.bootstrap, options, listen)
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1] == f"kcoord: {message}"


def test_a_proxy_that_waits_is_there_when_its_upstream_is(scene: Scene) -> None:
    """The upstream is another proxy, as that starts faster than a Kafka: proxies can be chained."""
    port = _ports_in_a_row(5)
    with CapturedProcess(proxy_command(f"127.0.0.1:{port}", ["--wait"]), name="a proxy that waits") as waiting:
        until(lambda: "upstream silent" in waiting.stderr(), "it to wait")
        with ProxyProcess(scene.kafka.bootstrap, listen=f"127.0.0.1:{port}"):
            bootstrap = json.loads(waiting.wait_for("proxy/v1", timeout=DEADLINE))["bootstrap"]
            produce(bootstrap, scene.topic("twice-removed", partitions=1), 3)


def test_no_request_fails_for_an_error_that_kafka_did_not_give(scene: Scene) -> None:
    """The log of the proxy that all tests of this file used contains no failure of the proxy itself."""
    assert "bug" not in scene.proxy.log()
    assert "fault" not in scene.proxy.log()
    admin = AdminClient({"bootstrap.servers": scene.proxy.bootstrap})  # must stay referenced until the result
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("a b", 1)])["a b"].result(60)
