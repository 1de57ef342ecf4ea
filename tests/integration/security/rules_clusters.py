"""A real Kafka with ACLs and `kcoord serve` with the same rules, with the same requests by the same users."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.scram import FEWEST_ITERATIONS
from kcoord.client.secret import Secret
from kcoord.client.security import Plain as PlainLogin
from kcoord.client.security import Security
from kcoord.errors import ErrorCode
from kcoord.security.rules import ANY, Rule
from kcoord.security.rules_file import read_rules
from kcoord.security.users import editing_users
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from tests.support.differential.difference import Differs, explain, in_any_order
from tests.support.differential.pair import (
    Marker,
    Pair,
    Side,
    cluster_id,
    reported_settings,
    server_settings,
    wait_for_coordinators,
)
from tests.support.differential.plain import Naming, Plain

RULES: Final = """
super User:ANONYMOUS
super User:root

allow User:reader     read                     topic orders
allow User:reader     read                     group shop
allow User:writer     write                    topic orders
allow User:viewer     describe                 topic orders
allow User:viewer     describe                 group shop
allow User:viewer     describe                 group elsewhere
allow User:deleter    delete                   topic *
allow User:deleter    delete                   group *
deny  User:deleter    describe                 topic hidden
deny  User:deleter    describe                 topic numbered-*
allow User:cleaner    delete                   group shop
allow User:cleaner    delete                   group old-*
allow User:cleaner    read                     topic orders
allow User:cleaner    delete, describe         cluster
allow User:changer    alter, alter-configs     topic orders
allow User:changer    alter-configs            cluster
allow User:maker      create                   cluster
allow User:maker      describe                 topic *
allow User:namer      create, describe         topic new-*
allow User:namer      describe-configs         topic new-namer
allow User:namer      describe-configs         topic orders
allow User:family     all                      topic ord*
allow User:family     all                      group sh*
allow User:family     describe-configs         cluster
deny  User:family     write                    topic orders
allow User:banned     all                      topic *
allow User:banned     all                      group *
allow User:banned     all                      cluster
deny  User:banned     read                     topic orders
deny  User:banned     read                     group shop
deny  User:banned     all                      topic hidden
allow User:near       read, write              topic orders       from 127.0.0.1
allow User:far        read, write              topic orders       from 10.9.8.7
deny  User:near       read                     topic orders       from 10.9.8.7
allow User:broker     cluster-action           cluster
allow User:broker     idempotent-write         cluster
allow User:watcher    describe                 cluster
allow User:watcher    describe                 topic *
allow User:void       write                    topic gone-*
deny  User:void       write                    topic gon*
allow User:*          describe                 topic open
"""
USERS: Final = (
    *("nobody", "reader", "writer", "viewer", "deleter", "cleaner", "changer", "maker", "namer"),
    *("family", "banned", "near", "far", "broker", "watcher", "void", "root"),
)
ONE_PARTITION: Final = {"num_partitions": 1, "replication_factor": 1}
TOPICS: Final = ("orders", "hidden", "open")

_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}  # Kafka's values in tests
_LITERAL, _PREFIXED, _DENY, _ALLOW = 3, 4, 2, 3
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_LOGINS: Final = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
_SERVER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f"{_MODULE} {_LOGINS};",
}
# Kafka collects these in hash maps and sets, or lists denied ones first.
_UNORDERED: Final = ("groups", "topics", "partitions", "results", "responses", "coordinators", "partition_responses")


@dataclass(slots=True, kw_only=True)
class UserSide(Side):
    """One of the two clusters, accessed as one user."""

    user: str

    def __post_init__(self) -> None:
        self.client = _logged_in(self.address, self.user)

    def reconnect(self) -> None:
        self.client.close()
        self.client = _logged_in(self.address, self.user)


class UserPair(Pair):
    """Sends requests to both as one user, and compares."""

    def compare(self, api_key: int, version: int, values: Mapping[str, Any], kafka: Plain, kcoord: Plain) -> Plain:
        theirs, ours = (in_any_order(answer, *_UNORDERED, "configs") for answer in (kafka, kcoord))
        if theirs != ours:
            raise Differs(explain(f"API {api_key} version {version}", values, theirs, ours))
        return ours


class ClusterPair:
    """Both clusters. `pair("alice")` returns alice's connections, the same each time; `admin` may do everything."""

    def __init__(self, kafka: KafkaCluster, kcoord: EmbeddedCluster) -> None:
        at_kafka, self._kafka, self._kcoord = (
            _address(each) for each in (kafka.bootstrap, kafka.bootstrap_of("LOGIN"), kcoord.bootstrap)
        )
        wait_for_coordinators(at_kafka)
        _allow(at_kafka, read_rules(RULES, "rules").rules)
        self._marker = Marker(at_kafka)
        with _logged_in(self._kcoord, "root") as client:
            settings = server_settings(at_kafka) | reported_settings(client)
            # A topic that Kafka has and kcoord does not, and one that kcoord creates on demand.
            client.ask(ApiKey.CREATE_TOPICS, 7, topics=[{"name": self._marker.topic, **ONE_PARTITION}])
            client.ask(ApiKey.LIST_GROUPS, 0)
        self._namings = (
            Naming(port=self._kafka[1], cluster_id=cluster_id(at_kafka), server_settings=settings),
            Naming(port=self._kcoord[1], cluster_id=kcoord.cluster_id, server_settings=settings),
        )
        self._pairs: dict[str, UserPair] = {}
        self.admin = self.pair("root")

    def pair(self, user: str) -> UserPair:
        if user not in self._pairs:
            kafka, kcoord = self._namings
            self._pairs[user] = UserPair(
                UserSide(address=self._kafka, naming=kafka, user=user),
                UserSide(address=self._kcoord, naming=kcoord, user=user),
                self._marker,
            )
        return self._pairs[user]

    def close(self) -> None:
        for pair in self._pairs.values():
            pair.close()
        self._marker.close()


@contextmanager
def rules_clusters(folder: Path) -> Iterator[ClusterPair]:
    rules, users = folder / "rules", folder / "users.json"
    rules.write_text(RULES)
    with editing_users(users) as current:
        for user in USERS:
            current[0] = current[0].with_user(user, _password(user), iterations=FEWEST_ITERATIONS)
    options = ("--sasl", "PLAIN", "--users", str(users), "--rules", str(rules))
    with (
        KafkaCluster(listeners={"LOGIN": "SASL_PLAINTEXT"}, properties=_SERVER) as kafka,
        EmbeddedCluster(settings=_SETTINGS, options=options) as kcoord,
    ):
        clusters = ClusterPair(kafka, kcoord)
        yield clusters
        clusters.close()


def _logged_in(address: tuple[str, int], user: str) -> Client:
    return Client(*address, security=Security(sasl=PlainLogin(username=user, password=_password(user))))


def _password(user: str) -> Secret:
    return Secret(f"{user}-secret")


def _allow(admin: tuple[str, int], rules: tuple[Rule, ...]) -> None:
    with Client(*admin) as client:
        acls = [_acl(rule, operation) for rule in rules for operation in rule.operations]
        results = client.ask(ApiKey.CREATE_ACLS, 3, creations=acls).results
        assert {each.error_code for each in results} == {ErrorCode.none}


def _acl(rule: Rule, operation: int) -> dict[str, Any]:
    is_prefix = rule.pattern.is_prefix and rule.pattern != ANY
    return {
        "resource_type": int(rule.kind),
        "resource_name": rule.pattern.name or "*",
        "resource_pattern_type": _PREFIXED if is_prefix else _LITERAL,
        "principal": rule.principal,
        "host": rule.host or "*",
        "operation": int(operation),
        "permission_type": _DENY if rule.is_denial else _ALLOW,
    }


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
