"""Commands when brokers are unreachable or no Kafka: the available part is printed, the rest is one line, and no
command hangs."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

import pytest
from kio.index import load_response_schema

from kcoord.admin.model import Committed, Group, TopicPartition
from kcoord.admin.retry import ERROR_TIMEOUTS
from kcoord.admin.wire.cluster import WireCluster
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import encode_response
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader
from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, connection

from ...support.admin.group_kinds import LONG, until

main: Any = import_module("kcoord.commands.main").main  # by name: mypy sees the folder, commands/

ORDERS = [TopicPartition("orders", number) for number in range(6)]
NAMES = [f"group-{number}" for number in range(24)]
ENOUGH = 30.0  # seconds that a timeout of one second may take on a slow machine


class Run:
    """The output of a command, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        started = time.monotonic()
        with pytest.raises(SystemExit) as ended:
            main(["groups", *arguments])
        self.seconds = time.monotonic() - started
        self.exit_code = ended.value.code
        self.stdout, self.stderr = capsys.readouterr()


# A broker is killed


@pytest.fixture(scope="module")
def kafka(kafka_cluster_factory: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Three brokers, each the coordinator of some groups and the leader of some partitions."""
    with kafka_cluster_factory(brokers=3, properties={"offsets.topic.num.partitions": "6"}) as kafka:
        host, _, port = kafka.bootstrap.split(",")[0].rpartition(":")
        topic = {"name": "orders", "num_partitions": 6, "replication_factor": 3, "assignments": (), "configs": ()}
        with Client(host, int(port)) as client:
            client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=LONG, validate_only=False)
        with LiveFixture(kafka.bootstrap) as live:
            for name in NAMES:
                until(lambda name=name: _has_committed(live.cluster, name) or None)  # type: ignore[misc]
        yield kafka


def _has_committed(cluster: WireCluster, name: str) -> bool:
    done = cluster.commit(name, {tp: Committed(tp.partition) for tp in ORDERS})
    return set(done.found.values()) == {ErrorCode.none}


def test_a_killed_broker_is_named_and_its_groups_are_told_once_they_have_moved(
    kafka: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    hasty, patient = (WireCluster(connection(kafka.bootstrap, timeout=seconds)) for seconds in (1.0, 60.0))
    with closing(hasty), closing(patient):
        before = hasty.list_groups().found
        committed = hasty.committed(NAMES).found
        bounds = hasty.bounds(ORDERS).found
        patient.committed(NAMES)  # its cache has the coordinators from before
        patient.bounds(ORDERS)
        homes = {name: before[name].coordinator for name in NAMES}
        assert set(homes.values()) == {1, 2, 3}
        gone = 2
        left = {name for name in NAMES if homes[name] != gone}
        kafka.kill(gone)

        listed = hasty.list_groups()
        described = hasty.describe_groups(NAMES)
        assert listed.found.keys() >= left
        assert [refusal.what for refusal in listed.refused] == [f"broker {gone}"]
        assert listed.refused[0].error in (ErrorCode.network_exception, ErrorCode.broker_not_available)
        assert described.found.keys() >= left
        assert {refusal.what for refusal in described.refused} == {
            f"group {name}" for name in NAMES if name not in described.found
        }
        assert all(f"broker {gone}" in str(refusal) or refusal.message == "" for refusal in described.refused)

        moved = until(lambda: _complete(patient))
        assert {group.coordinator.id for group in moved.values()} == {1, 3}
        assert patient.committed(NAMES).found == committed
        assert patient.bounds(ORDERS).found == bounds
        relisted = patient.list_groups()
        assert relisted.found.keys() >= set(NAMES)
        assert {refusal.error for refusal in relisted.refused} <= {ErrorCode.broker_not_available}

    done = Run(capsys, "list", "--names", "-b", kafka.bootstrap)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.split() == sorted(NAMES)


def _complete(cluster: WireCluster) -> Mapping[str, Group] | None:
    """Whether all groups are complete. A new coordinator briefly denies groups whose last records its followers have
    not fetched yet."""
    described = cluster.describe_groups(NAMES)
    assert {refusal.error for refusal in described.refused} <= {ErrorCode.group_id_not_found, *ERROR_TIMEOUTS}
    return None if described.refused else described.found


# Unreachable addresses


@pytest.fixture(scope="module")
def embedded(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[EmbeddedCluster]:
    with kcoord_cluster_factory(topics={"orders": 1}) as cluster, LiveFixture(cluster.bootstrap) as live:
        live.cluster.commit("shop", {TopicPartition("orders", 0): Committed(0)})
        yield cluster


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An endpoint on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_dead_first_address_is_passed_over(
    embedded: EmbeddedCluster, nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Run(capsys, "list", "--names", "-b", f"{nowhere},{embedded.bootstrap}")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "shop\n", "")


def test_an_address_of_something_else_is_passed_over_too(
    embedded: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with stranger(lambda _: b"\0\0\0\4what") as address:
        done = Run(capsys, "list", "--names", "-b", f"{address},{embedded.bootstrap}")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "shop\n", "")


def test_where_nobody_listens_it_is_one_line_at_once(nowhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Run(capsys, "describe", "shop", "-b", nowhere)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"kcoord: cannot connect to {nowhere}: connection refused; is a broker running there?\n"


def test_where_nobody_listens_at_several_addresses_each_is_named(
    nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Run(capsys, "list", "-b", f"{nowhere},no-such-host.invalid:9092")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"kcoord: no broker can be reached: cannot connect to {nowhere}: ")
    assert "'no-such-host.invalid' is not known" in done.stderr
    assert done.stderr.count("\n") == 1


# Servers that are no brokers


Answerer = Callable[[int], bytes | None]
"""Returns the answer to the request of that number; None closes the connection, empty bytes send nothing."""


@contextmanager
def stranger(answer: Answerer) -> Iterator[str]:
    """A server that answers each request with arbitrary bytes."""
    server = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=_talk, args=(connection, answer), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for connection in connections:
            connection.close()


def _talk(connection: socket.socket, answer: Answerer) -> None:
    splitter = FrameSplitter(1 << 20)
    requests = itertools.count()
    while True:
        try:
            chunk = connection.recv(1 << 16)
            if not chunk:
                return
            for _ in splitter.feed(chunk):
                reply = answer(next(requests))
                if reply is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(reply)
        except OSError:
            return


def versions() -> bytes:
    """Returns the answer of a broker that supports Metadata and ListGroups."""
    spoken = [{"api_key": key, "min_version": 0, "max_version": 4} for key in (3, 16)]
    response = build_entity(
        load_response_schema(ApiKey.API_VERSIONS, 0), {"error_code": ErrorCode.none, "api_keys": spoken}
    )
    return encode_response(RequestHeader(ApiKey.API_VERSIONS, 0, correlation_id=1, client_id=None), response)


def metadata(*addresses: str) -> bytes:
    """Returns the answer of a broker whose cluster has these endpoints, numbered from 1."""
    endpoints = [address.rpartition(":") for address in addresses]
    brokers = [{"node_id": 1 + each, "host": host, "port": int(port)} for each, (host, _, port) in enumerate(endpoints)]
    response = build_entity(
        load_response_schema(ApiKey.METADATA, 4), {"brokers": brokers, "topics": (), "cluster_id": "c"}
    )
    return encode_response(RequestHeader(ApiKey.METADATA, 4, correlation_id=2, client_id=None), response)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: b"\xde\xad\xbe\xef" * 16, "does not answer as a Kafka broker does: a frame length of -559038737"),
        (lambda _: b"\0\0\0\4what", "does not answer as a Kafka broker does: the body ends too early"),
        (lambda _: b"\0\0\0\0", "does not answer as a Kafka broker does: "),
        (lambda _: b"\0\0\0\x0c\0\0\0\1\0\0\x7f\xff\xff\xff\0\0", "does not answer as a Kafka broker does: "),
        (lambda _: None, "closed the connection"),
        (lambda _: b"", "did not answer within 1 s"),
        (
            lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "does not answer as a Kafka broker does: it speaks HTTP",
        ),
        (lambda _: b"\0\0\1\0" + bytes(10), "did not answer within 1 s"),
        (lambda number: versions() if number == 0 else b"\0\0\0\4what", "does not answer as a Kafka broker does: "),
        (lambda number: versions() if number == 0 else None, "closed the connection"),
        (lambda number: versions() if number == 0 else b"", "did not answer within 1 s"),
    ],
    ids=[
        *("no-frames", "short-body", "empty-frame", "lying-length", "hangs-up", "silent", "http", "unfinished"),
        *("then-garbage", "then-hangs-up", "then-silent"),
    ],
)
def test_what_is_no_broker_is_one_line_that_names_it(
    answer: Answerer, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stranger(answer) as address:
        done = Run(capsys, "list", "-b", address, "--request-timeout", "1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"kcoord: {address} {message}")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert done.seconds < ENOUGH


def test_brokers_of_a_cluster_that_are_none_are_each_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster answers, and advertises endpoints of other servers as its brokers."""
    with (
        stranger(lambda _: b"\0\0\0\4what") as first,
        stranger(lambda _: None) as second,
        stranger(lambda number: versions() if number == 0 else metadata(first, second)) as address,
    ):
        done = Run(capsys, "list", "-b", address, "--request-timeout", "1")
    assert done.exit_code == 1
    one, two = sorted(done.stderr.splitlines())
    assert one.startswith(f"kcoord: broker 1: NETWORK_EXCEPTION ({first} does not answer as a Kafka broker does: ")
    assert two.startswith(f"kcoord: broker 2: NETWORK_EXCEPTION ({second} closed the connection")


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for_without_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over = threading.Event()

    def trickle() -> None:
        connection, _ = server.accept()
        with connection:
            try:
                connection.sendall(b"\0\0\1\0")
                while not over.wait(0.2):
                    connection.sendall(b"\0")
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        try:
            done = Run(capsys, "list", "-b", address, "--request-timeout", "1")
        finally:
            over.set()
            thread.join()
    assert done.exit_code == 1
    assert done.stderr == f"kcoord: {address} did not answer within 1 s\n"
    assert done.seconds < ENOUGH
