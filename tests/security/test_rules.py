"""What authorization rules allow."""

from typing import Any

import pytest

from kcoord.broker.alter_configs import AlterConfigs, AlteredResource, alter_configs
from kcoord.broker.cluster import Node, NodeId, RequestContext
from kcoord.broker.describe_configs import DescribeConfigs, RequestedResource, describe_configs
from kcoord.errors import ErrorCode
from kcoord.security.listener import ANONYMOUS
from kcoord.security.rules import CLUSTER_NAME, Kind, Operation, Rights, Verdict
from kcoord.security.rules_file import possible_operations, read_rules
from kcoord.server.authorization import topic_apis
from kcoord.server.authorization.permissions import Permissions

HOST = "127.0.0.1"
TOPIC, GROUP, CLUSTER = Kind


def rights(text: str, principal: str = "User:alice", host: str = HOST) -> Rights:
    return read_rules(text, "rules").rights_of(principal, host)


def may(text: str, operation: str, topic: str, principal: str = "User:alice", host: str = HOST) -> bool:
    return rights(text, principal, host).may(Operation[operation], TOPIC, topic)


def test_what_no_rule_allows_is_denied() -> None:
    assert not may("", "READ", "orders")
    assert not may("allow User:alice write topic orders", "READ", "orders")
    assert not may("allow User:alice read topic orders", "READ", "payments")
    assert not may("allow User:alice read group orders", "READ", "orders")
    assert not may("allow User:bob read topic orders", "READ", "orders")


def test_a_name_means_one_topic_and_a_prefix_all_that_begin_so() -> None:
    assert may("allow User:alice read topic orders", "READ", "orders")
    assert not may("allow User:alice read topic orders", "READ", "orders-2")
    assert may("allow User:alice read topic orders*", "READ", "orders-2")
    assert may("allow User:alice read topic orders*", "READ", "orders")
    assert not may("allow User:alice read topic orders-*", "READ", "orders")
    assert may("allow User:alice read topic *", "READ", "anything")


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter"])
def test_who_may_do_something_with_a_topic_may_describe_it(operation: str) -> None:
    rule = f"allow User:alice {operation} topic orders"
    assert may(rule, "DESCRIBE", "orders")
    assert not may(rule, "DESCRIBE_CONFIGS", "orders")


@pytest.mark.parametrize("operation", ["create", "alter-configs", "describe-configs"])
def test_to_create_a_topic_or_see_its_settings_is_not_to_describe_it(operation: str) -> None:
    assert not may(f"allow User:alice {operation} topic orders", "DESCRIBE", "orders")


def test_who_may_alter_settings_may_describe_them() -> None:
    assert may("allow User:alice alter-configs topic orders", "DESCRIBE_CONFIGS", "orders")
    assert not may("allow User:alice alter topic orders", "DESCRIBE_CONFIGS", "orders")


def test_a_denial_wins_wherever_it_stands() -> None:
    allow, deny = "allow User:alice all topic *", "deny User:alice read topic ord*"
    for text in (f"{allow}\n{deny}", f"{deny}\n{allow}"):
        assert not may(text, "READ", "orders")
        assert may(text, "READ", "payments")
        assert may(text, "WRITE", "orders")


def test_who_is_denied_to_read_may_still_describe() -> None:
    text = "allow User:alice write topic orders\ndeny User:alice read topic orders"
    assert may(text, "DESCRIBE", "orders")
    assert not may("allow User:alice write topic orders\ndeny User:alice all topic orders", "DESCRIBE", "orders")


def test_everybody_is_also_who_did_not_log_in() -> None:
    rule = "allow User:* read topic orders"
    assert may(rule, "READ", "orders", principal="User:bob")
    assert may(rule, "READ", "orders", principal=ANONYMOUS)
    assert not may("deny User:* read topic orders\nallow User:bob all topic *", "READ", "orders", principal="User:bob")


def test_rules_for_a_host_are_for_that_host() -> None:
    rule = "allow User:alice read topic orders from 10.0.0.7"
    assert may(rule, "READ", "orders", host="10.0.0.7")
    assert not may(rule, "READ", "orders", host="10.0.0.8")
    assert may("allow User:alice read topic orders from 2001:DB8::0:1", "READ", "orders", host="2001:db8::1")
    denied = "allow User:alice read topic orders\ndeny User:alice read topic orders from 10.0.0.7"
    assert not may(denied, "READ", "orders", host="10.0.0.7")
    assert may(denied, "READ", "orders", host="10.0.0.8")


def test_super_users_may_do_everything_whatever_is_denied() -> None:
    text = "super User:alice\ndeny User:* all topic *"
    assert may(text, "READ", "orders")
    assert rights(text).may(Operation.CREATE, CLUSTER, CLUSTER_NAME)
    assert not may(text, "READ", "orders", principal="User:bob")


def test_the_line_that_decides_is_told() -> None:
    text = (
        "super User:admin\n\nallow User:alice read topic *\nallow User:alice all topic orders\ndeny User:* all group g"
    )
    assert rights(text).verdict(Operation.READ, TOPIC, "orders") == Verdict(is_allowed=True, line=3)
    assert rights(text).verdict(Operation.WRITE, TOPIC, "orders") == Verdict(is_allowed=True, line=4)
    assert rights(text).verdict(Operation.WRITE, TOPIC, "payments") == Verdict(is_allowed=False, line=None)
    assert rights(text).verdict(Operation.READ, GROUP, "g") == Verdict(is_allowed=False, line=5)
    assert rights(text, "User:admin").verdict(Operation.READ, GROUP, "g") == Verdict(is_allowed=True, line=1)


def test_operations_are_told_as_bits() -> None:
    assert rights("allow User:alice read, alter-configs group g").operations(GROUP, "g") == sum(
        1 << code for code in (3, 8, 10, 11)
    )
    assert rights("").operations(TOPIC, "orders") == 0


@pytest.mark.parametrize("kind", Kind)
def test_all_that_can_be_done_is_what_a_server_without_rules_tells(kind: Kind) -> None:
    from kcoord.broker.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
    from kcoord.groups.describing import GROUP_OPERATIONS

    expected = {TOPIC: TOPIC_OPERATIONS, GROUP: GROUP_OPERATIONS, CLUSTER: CLUSTER_OPERATIONS}
    assert rights("super User:alice").operations(kind, "x") == expected[kind]
    assert set(possible_operations(kind)) >= {each for each in Operation if expected[kind] & (1 << each)}


@pytest.mark.parametrize(
    ("text", "is_some"),
    [
        ("", False),
        ("super User:alice", True),
        ("allow User:alice write topic orders", True),
        ("allow User:alice all topic x*", True),
        ("allow User:alice read topic *", False),
        ("allow User:alice write topic *\ndeny User:alice write topic orders", True),
        ("allow User:alice write topic orders\ndeny User:alice write topic orders", False),
        ("allow User:alice write topic orders\ndeny User:alice all topic ord*", False),
        ("allow User:alice write topic ord*\ndeny User:alice write topic orders", True),
        ("allow User:alice write topic ord*\ndeny User:alice write topic or*", False),
        ("allow User:alice write topic *\ndeny User:* all topic *", False),
        ("allow User:alice write topic orders from 10.0.0.7", False),
    ],
)
def test_whether_there_is_a_topic_that_may_be_written(text: str, is_some: bool) -> None:
    assert rights(text).may_some(Operation.WRITE, TOPIC) is is_some


def test_what_is_remembered_of_made_up_names_is_bounded() -> None:
    alice = rights("allow User:alice read topic orders")
    for number in range(25_000):
        assert not alice.may(Operation.READ, TOPIC, f"made-up-{number}")
    assert len(alice._decisions) <= 10_000
    assert alice.may(Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("allow User:alice alter-configs group orders", ErrorCode.invalid_request),
        ("allow User:alice all topic *", ErrorCode.group_authorization_failed),
    ],
)
def test_settings_of_groups_are_asked_for_by_who_may_though_there_are_none(rules: str, expected: ErrorCode) -> None:
    permissions = Permissions(rights(rules), "User:alice", HOST)
    cluster: Any = None  # it is not used
    asked = DescribeConfigs(
        resources=(RequestedResource(resource_type=32, resource_name="orders", configuration_keys=None),)
    )
    altered = AlterConfigs(resources=(AlteredResource(resource_type=32, resource_name="orders", alterations=()),))
    at = RequestContext(node=Node(node_id=NodeId(1), host=HOST, port=9092), now_ms=0)
    described = topic_apis.describe_configs(
        asked, permissions, cluster, lambda allowed: describe_configs(cluster, allowed, at)
    )
    changed = topic_apis.alter_configs(
        altered, permissions, cluster, lambda allowed: alter_configs(cluster, allowed, at)
    )
    assert [line.error_code for line in described.results] == [expected]
    assert [line.error_code for line in changed.responses] == [expected]
