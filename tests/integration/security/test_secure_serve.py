"""Real clients at `kcoord serve` with TLS and logins: some log in and work, while others are refused."""

import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kcoord.client.secret import Secret
from kcoord.security.users import editing_users
from kcoord.testing.tools import JavaTools
from tests.integration.security.java_settings import connected_by_java
from tests.integration.security.secure_serve import LET_IN, PASSWORDS, REFUSED, WRONG, SecureServe, secure_serve

TOPICS = {f"of-{kind}": 1 for kind in (*LET_IN, "java")} | {"watched": 1}
AS_MEMBER = {"client.id": "of-java", "group.id": "java", "auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServe]:
    with secure_serve(tmp_path_factory.mktemp("secure-serve"), TOPICS) as scene:
        yield scene


def until(is_so: Callable[[], Any], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def produce(settings: dict[str, Any], topic: str, *values: str) -> None:
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(60) == 0


@contextmanager
def member(settings: dict[str, Any], topic: str, group: str) -> Iterator[Consumer]:
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int) -> list[str]:
    """Reads and commits so many records."""
    values: list[str] = []
    deadline = time.monotonic() + 60
    while len(values) < count:
        assert time.monotonic() < deadline, values
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
    consumer.commit(asynchronous=False)
    return values


@pytest.mark.parametrize("kind", LET_IN)
def test_librdkafka_writes_and_reads_in_a_group(secure: SecureServe, kind: str) -> None:
    settings = secure.librdkafka(kind)
    produce(settings, f"of-{kind}", "a", "b", "c")
    with member(settings, f"of-{kind}", f"group-{kind}") as consumer:
        assert read(consumer, 3) == ["a", "b", "c"]


def test_java_writes_and_reads_in_a_group_or_is_refused_for_the_same_reasons(
    secure: SecureServe, java_tools: JavaTools
) -> None:
    kinds = [*LET_IN, *REFUSED]
    files = [secure.properties(kind, AS_MEMBER if kind == "scram512" else {}) for kind in kinds]
    results = dict(zip(kinds, connected_by_java(files), strict=True))
    ids = {kind: secure.cluster(kind).cluster_id for kind in LET_IN}
    assert {kind: results[kind] for kind in LET_IN} == ids | {"scram512": f"{ids['scram512']} written"}
    for kind in ("wrong", "unknown"):
        assert "SaslAuthenticationException" in results[kind], results[kind]
    for kind in ("bare", "expired", "foreign"):
        assert "SslAuthenticationException" in results[kind], results[kind]
    for kind, why in REFUSED.items():
        assert why in secure.refusals(secure.cluster(kind))


def librdkafka_error(settings: dict[str, Any]) -> KafkaError:
    """Returns librdkafka's error of a connection that fails."""
    errors: list[KafkaError] = []
    quiet: dict[str, Any] = {"error_cb": errors.append, "reconnect.backoff.ms": 1000}
    client: Any = AdminClient(settings | quiet)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.5)
    until(lambda: client.poll(0.1) or errors, lambda: "no error was told")
    return errors[0]


def test_who_is_refused_is_counted_and_a_member_of_a_group_goes_on(secure: SecureServe) -> None:
    settings = secure.librdkafka("scram512")
    with member(settings, "watched", "watched") as consumer:
        produce(settings, "watched", "before")
        assert read(consumer, 1) == ["before"]
        for kind in ("wrong", "unknown"):
            assert librdkafka_error(secure.librdkafka(kind)).code() == KafkaError._AUTHENTICATION
        for kind, alert in {"bare": "required", "expired": "expired", "foreign": "unknown ca"}.items():
            assert alert in librdkafka_error(secure.librdkafka(kind)).str()
        _send_plaintext(secure.logins.bootstrap)
        _ask_before_the_login(secure)
        for kind, why in REFUSED.items():
            assert why in secure.refusals(secure.cluster(kind))
        until(
            lambda: {"not-tls", "before-login"} <= set(secure.refusals(secure.logins)),
            lambda: secure.refusals(secure.logins),
        )
        produce(settings, "watched", "after")
        assert read(consumer, 1) == ["after"]
        generations = re.findall(r"group=watched generation=(\d+)", secure.logins.log())
        assert max(generations) == "1", "nobody had to join again"


def _send_plaintext(bootstrap: str) -> None:
    """Sends an unencrypted ApiVersions request to a TLS port."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass


def _ask_before_the_login(secure: SecureServe) -> None:
    settings = secure.librdkafka("scram512") | {"security.protocol": "SSL"}
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=1)


def test_a_new_user_may_log_in_at_once_and_one_who_is_removed_no_more(secure: SecureServe) -> None:
    settings = secure.librdkafka("scram256") | {"sasl.username": "carol", "sasl.password": "carols-own"}
    assert librdkafka_error(settings).code() == KafkaError._AUTHENTICATION
    with editing_users(secure.folder / "users.json") as users:
        users[0] = users[0].with_user("carol", Secret("carols-own"))
    client: Any = AdminClient(settings)
    assert client.list_topics(timeout=60).cluster_id == secure.logins.cluster_id
    with editing_users(secure.folder / "users.json") as users:
        users[0] = users[0].without("carol")
    assert librdkafka_error(settings).code() == KafkaError._AUTHENTICATION


@pytest.mark.parametrize("kind", LET_IN)
def test_kcoords_own_commands_log_in(secure: SecureServe, kind: str) -> None:
    """The commands run in separate processes: in this one, clients of other tests may still log errors of servers that
    are gone."""
    command = [sys.executable, "-m", "kcoord.commands", "groups", "list", "-o", "json"]
    ran = subprocess.run(
        [*command, "--command-config", str(secure.properties(kind))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '"groups":' in ran.stdout


def test_no_secret_is_in_a_log(secure: SecureServe) -> None:
    """This runs at the end, when all the others have logged in or failed to."""
    logs = secure.logins.log() + secure.mutual.log()
    assert "let in peer=" in logs
    assert "principal='User:CN=client'" in logs
    assert not [secret for secret in (*PASSWORDS.values(), WRONG, "carols-own", "PRIVATE KEY") if secret in logs]
