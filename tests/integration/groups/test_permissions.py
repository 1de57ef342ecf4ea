"""A user who may see some groups and topics of a real Kafka: the others are named in errors, and the visible ones
printed."""

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from kcoord.admin.model import Committed, TopicPartition
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.properties import to_text
from kcoord.testing.tools import JavaTools
from tests.support.admin.fake_cluster import LiveFixture, orders

from ...support.admin.group_kinds import ConsumerMember, create_topic

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/

PASSWORD: Final = "viewer-secret"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPIC, GROUP = 2, 3
READ, DESCRIBE = 3, 8
LITERAL, ALLOW = 3, 3
SERVER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f'{MODULE} user_viewer="{PASSWORD}";',
}


@pytest.fixture(scope="module")
def config(java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A client.properties for the viewer, who may read `orders` and describe `payments`, but nothing of `secrets`.

    Of the groups `shop`, `mixed` and `planned` may be seen, `hidden` may not.
    """
    with KafkaCluster(listeners={"LOGIN": "SASL_PLAINTEXT"}, properties=SERVER) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with Client(host, int(port)) as client, LiveFixture(kafka.bootstrap) as live:
            for topic in ("orders", "payments", "secrets"):
                create_topic(client, topic, 1)
                live.produce(tp(topic), [Record(timestamp=1_700_000_000_000, value=b"v") for _ in range(5)])
            acls = [(TOPIC, "orders", READ), (TOPIC, "payments", DESCRIBE)]
            allow(client, *acls, *((GROUP, name, DESCRIBE) for name in ("shop", "mixed", "planned")))
            live.cluster.commit("shop", {tp("orders"): Committed(1)})
            live.cluster.commit("hidden", {tp("orders"): Committed(1)})
            live.cluster.commit("mixed", {tp(name): Committed(1) for name in ("orders", "payments", "secrets")})
            live.join("shop", assignment=orders(0))
            ConsumerMember(client, "planned").take_assignment("secrets")
            path = tmp_path_factory.mktemp("viewer") / "client.properties"
            path.write_text(to_text(_properties(kafka.bootstrap_of("LOGIN"))))
            yield path


def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def allow(client: Client, *acls: tuple[int, str, int]) -> None:
    creations = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": LITERAL,
            "principal": "User:viewer",
            "host": "*",
            "operation": operation,
            "permission_type": ALLOW,
        }
        for kind, name, operation in acls
    ]
    results = client.ask(ApiKey.CREATE_ACLS, 3, creations=creations).results
    assert {each.error_code for each in results} == {ErrorCode.none}


def _properties(bootstrap: str) -> Mapping[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} username="viewer" password="{PASSWORD}";',
        "request.timeout.ms": "20000",
    }


def groups(config: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["groups", *arguments, "--command-config", str(config)])
    assert PASSWORD not in done.output
    return done


def test_only_groups_that_may_be_seen_are_listed(config: Path) -> None:
    """A broker does not reveal that there are others."""
    done = groups(config, "list", "--names")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.split() == ["mixed", "planned", "shop"]


def test_a_group_that_may_not_be_seen_is_named_and_the_other_is_shown(config: Path) -> None:
    done = groups(config, "describe", "hidden", "shop", "-o", "json")
    assert done.exit_code == 1
    assert done.stderr == "kcoord: group hidden: GROUP_AUTHORIZATION_FAILED\n"
    document = json.loads(done.stdout)
    (shop,) = document["groups"]
    assert (shop["group"], shop["state"], shop["total_lag"], len(shop["members"])) == ("shop", "Stable", 4, 1)
    assert document["refused"] == [{"what": "group hidden", "error": "GROUP_AUTHORIZATION_FAILED", "message": ""}]


def test_what_may_be_described_but_not_read_has_lag_but_no_time(config: Path) -> None:
    """For `mixed` Kafka omits the topic that may not be described."""
    done = groups(config, "describe", "mixed", "-o", "json")
    assert done.exit_code == 1
    assert done.stderr == "kcoord: topic payments: TOPIC_AUTHORIZATION_FAILED (the times of its records)\n"
    (mixed,) = json.loads(done.stdout)["groups"]
    assert [(each["topic"], each["lag"]) for each in mixed["partitions"]] == [("orders", 4), ("payments", 4)]
    read, unread = mixed["partitions"]
    assert read["next_record_at"] == "2023-11-14T22:13:20.000Z"
    assert unread["next_record_at"] is None
    without = groups(config, "describe", "mixed", "--no-time")
    assert (without.exit_code, without.stderr) == (0, "")


def test_a_kip_848_group_of_a_topic_that_may_not_be_seen_is_named(config: Path) -> None:
    done = groups(config, "lag", "--all-groups", "--by", "group", "--no-time", "-o", "json")
    assert done.exit_code == 1
    assert done.stderr.startswith("kcoord: group planned: TOPIC_AUTHORIZATION_FAILED")
    assert done.stderr.count("\n") == 1
    document = json.loads(done.stdout)
    assert [(each["group"], each["lag"]) for each in document["lag"]] == [("mixed", 8), ("shop", 4)]
    assert [each["what"] for each in document["refused"]] == ["group planned"]


def test_a_list_shows_what_could_not_be_described_without_its_figures(config: Path) -> None:
    done = groups(config, "list", "-o", "json")
    assert done.exit_code == 1
    (planned,) = [each for each in json.loads(done.stdout)["groups"] if each["group"] == "planned"]
    assert (planned["state"], planned["type"], planned["members"], planned["total_lag"]) == (
        *("Stable", "consumer"),
        *(None, None),
    )


def test_who_may_only_look_cannot_remove_a_member(config: Path) -> None:
    done = groups(config, "remove-member", "shop", "--all-members", "--execute")
    assert done.exit_code == 1
    assert done.stderr == "kcoord: group shop: GROUP_AUTHORIZATION_FAILED\n"
    assert done.stdout.splitlines()[-1].endswith("GROUP_AUTHORIZATION_FAILED")
    assert len(json.loads(groups(config, "describe", "shop", "-o", "json").stdout)["groups"][0]["members"]) == 1


def test_a_wrong_password_is_one_line_and_is_not_shown(config: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "client.properties"
    wrong.write_text(config.read_text().replace(PASSWORD, "not-the-password"))
    done = CliRunner().invoke(cli, ["groups", "list", "--command-config", str(wrong)])
    assert done.exit_code == 1
    assert isinstance(done.exception, ConnectionError)
    assert "\n" not in str(done.exception)
    assert "not-the-password" not in f"{done.output}{done.exception!r}"
