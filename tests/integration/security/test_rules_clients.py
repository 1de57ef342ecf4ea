"""librdkafka's clients at `kcoord serve` with logins and rules do what they may, and get errors for the rest."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kcoord.client.scram import FEWEST_ITERATIONS
from kcoord.client.secret import Secret
from kcoord.security.users import editing_users
from kcoord.testing.embedded import EmbeddedCluster

RULES = """
allow User:writer   write       topic orders
allow User:reader   read        topic orders
allow User:reader   read        group shop
allow User:outsider read        group shop
"""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("rules")
    rules, users = folder / "rules.txt", folder / "users.json"
    rules.write_text(RULES)
    with editing_users(users) as current:
        for user in ("writer", "reader", "outsider"):
            current[0] = current[0].with_user(user, Secret(f"{user}-secret"), iterations=FEWEST_ITERATIONS)
    options = ("--sasl", "SCRAM-SHA-512", "--users", str(users), "--rules", str(rules))
    with EmbeddedCluster(topics={"orders": 1}, options=options) as cluster:
        yield cluster


def settings(cluster: EmbeddedCluster, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def produce(cluster: EmbeddedCluster, user: str, **more: Any) -> KafkaError | None:
    errors: list[KafkaError | None] = []
    producer = Producer(settings(cluster, user, **more))
    producer.produce("orders", b"v", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(PATIENCE) == 0
    return errors[0]


def consume(cluster: EmbeddedCluster, user: str, group: str) -> bytes | None:
    """Returns the first record, or raises KafkaException."""
    consumer = Consumer(settings(cluster, user, group_id=group, auto_offset_reset="earliest"))
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(PATIENCE)
        assert message is not None
        if error := message.error():
            raise KafkaException(error)
        consumer.commit(message=message, asynchronous=False)
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()


def test_who_may_write_produces_and_who_may_read_consumes(cluster: EmbeddedCluster) -> None:
    assert produce(cluster, "writer", enable_idempotence=True) is None
    assert consume(cluster, "reader", "shop") == b"v"


@pytest.mark.parametrize(
    ("user", "group", "error"),
    [
        ("outsider", "shop", KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ("reader", "others", KafkaError.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_a_consumer_is_told_what_it_may_not_read(cluster: EmbeddedCluster, user: str, group: str, error: int) -> None:
    with pytest.raises(KafkaException) as caught:
        consume(cluster, user, group)
    assert caught.value.args[0].code() == error


def test_a_producer_is_told_that_it_may_not_write(cluster: EmbeddedCluster) -> None:
    error = produce(cluster, "reader")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "denied principal='User:reader' host=127.0.0.1 operation=write topic='orders'" in cluster.log()
