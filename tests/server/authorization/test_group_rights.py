"""The rights that requests about groups need when a server has rules. The error codes are Apache Kafka's."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.server.conftest import Serve, Server

NONE, NO_GROUP, NO_TOPIC = (
    ErrorCode.none,
    ErrorCode.group_authorization_failed,
    ErrorCode.topic_authorization_failed,
)
SESSION: Final = timedelta(seconds=60)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "rules.txt"


def serving(serve: Serve, rules: Path, *lines: str) -> Server:
    """Starts a cluster with topics t and u whose rules allow anonymous clients what the lines name."""
    rules.write_text("".join(f"allow User:ANONYMOUS {line}\n" for line in lines))
    return serve(topics=(("t", 1), ("u", 1)), rules=rules, **{"group.initial.rebalance.delay.ms": "0"})


def join(client: Client, group_id: str, version: int = 5) -> Any:
    protocols = [{"name": "range", "metadata": b""}]
    timeouts = {"session_timeout": SESSION, "rebalance_timeout": SESSION}
    return client.ask(
        ApiKey.JOIN_GROUP,
        version,
        group_id=group_id,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
        **timeouts,
    )


def commit(client: Client, group_id: str, *topics: str) -> None:
    partitions = [{"partition_index": 0, "committed_offset": 7}]
    response = client.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": partitions} for topic in topics],
    )
    assert [topic.partitions[0].error_code for topic in response.topics] == [NONE] * len(topics)


@pytest.mark.fact("J-007")
def test_a_join_without_read_on_the_group_is_refused_and_names_no_member(serve: Serve, rules: Path) -> None:
    with serving(serve, rules, "describe group g").client() as client:
        refused = join(client, "g")
    assert refused.error_code is NO_GROUP
    assert (refused.generation_id, refused.members, refused.member_id) == (-1, (), "")


@pytest.mark.fact("H-025")
def test_a_heartbeat_without_read_on_the_group_is_refused(serve: Serve, rules: Path) -> None:
    with serving(serve, rules, "read group g").client() as client:
        unknown = client.ask(ApiKey.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m")
        refused = client.ask(ApiKey.HEARTBEAT, 3, group_id="h", generation_id=1, member_id="m")
    assert (unknown.error_code, refused.error_code) == (ErrorCode.unknown_member_id, NO_GROUP)


@pytest.mark.fact("L-028")
def test_a_leave_without_read_on_the_group_is_refused_as_a_whole(serve: Serve, rules: Path) -> None:
    with serving(serve, rules, "read group g").client() as client:
        refused = client.ask(
            ApiKey.LEAVE_GROUP, 4, group_id="h", members=[{"member_id": "m", "group_instance_id": None}]
        )
    assert (refused.error_code, refused.members) == (NO_GROUP, ())


@pytest.mark.fact("O-114")
def test_offsets_of_a_topic_that_may_not_be_described_are_refused_by_name_and_left_out_of_all(
    serve: Serve, rules: Path
) -> None:
    server = serving(serve, rules, "read group g", "read topic t", "read topic u")
    with server.client() as client:
        commit(client, "g", "t", "u")
    reopened = rules.read_text().replace("allow User:ANONYMOUS read topic u\n", "")
    with serving_again(server, rules, reopened).client() as client:
        named = [{"name": topic, "partition_indexes": [0]} for topic in ("t", "u")]
        by_name = client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=named, require_stable=False)
        all_of_them = client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False)
    results = {topic.name: topic.partitions[0] for topic in by_name.topics}
    assert (results["t"].error_code, results["t"].committed_offset) == (NONE, 7)
    assert (results["u"].error_code, results["u"].committed_offset) == (NO_TOPIC, -1)
    assert (all_of_them.error_code, [topic.name for topic in all_of_them.topics]) == (NONE, ["t"])


@pytest.mark.fact("O-115")
def test_offsets_of_a_group_that_may_not_be_described_are_refused_for_that_group_alone(
    serve: Serve, rules: Path
) -> None:
    with serving(serve, rules, "read group g", "read topic t").client() as client:
        commit(client, "g", "t")
        asked = [{"group_id": group_id, "topics": None} for group_id in ("g", "h")]
        groups = client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked, require_stable=False).groups
    assert [(group.group_id, group.error_code) for group in groups] == [("g", NONE), ("h", NO_GROUP)]
    assert [len(group.topics) for group in groups] == [1, 0]


@pytest.mark.fact("O-212")
def test_deleting_offsets_needs_delete_on_the_group_and_read_on_each_topic(serve: Serve, rules: Path) -> None:
    allowed = ("read, delete group g", "read group h", "read topic t")
    with serving(serve, rules, *allowed).client() as client:
        commit(client, "g", "t")
        commit(client, "h", "t")
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]} for topic in ("t", "u")]
        deleted = client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
        refused = client.ask(ApiKey.OFFSET_DELETE, 0, group_id="h", topics=topics)
    results = {topic.name: topic.partitions[0].error_code for topic in deleted.topics}
    assert (deleted.error_code, results) == (NONE, {"t": NONE, "u": NO_TOPIC})
    assert (refused.error_code, refused.topics) == (NO_GROUP, ())


@pytest.mark.fact("A-010")
def test_without_describe_on_the_cluster_only_groups_that_may_be_described_are_listed(
    serve: Serve, rules: Path
) -> None:
    server = serving(serve, rules, "read group *", "read topic t")
    with server.client() as client:
        commit(client, "g", "t")
        commit(client, "h", "t")
        everyone = client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
    narrowed = "allow User:ANONYMOUS describe group g\n"
    with serving_again(server, rules, narrowed).client() as client:
        some = client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
    with serving_again(server, rules, "allow User:ANONYMOUS describe cluster\n").client() as client:
        by_cluster = client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
    assert sorted(group.group_id for group in everyone.groups) == ["g", "h"]
    assert (some.error_code, [group.group_id for group in some.groups]) == (NONE, ["g"])
    assert sorted(group.group_id for group in by_cluster.groups) == ["g", "h"]


@pytest.mark.fact("A-304")
def test_finding_the_coordinator_of_a_group_that_may_not_be_described_names_no_node(serve: Serve, rules: Path) -> None:
    with serving(serve, rules, "describe group g").client() as client:
        asked = client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g", "h"])
    found, refused = asked.coordinators
    assert (found.error_code, refused.error_code) == (NONE, NO_GROUP)
    assert (int(refused.node_id), refused.port) == (-1, -1)


def serving_again(server: Server, rules: Path, text: str) -> Server:
    """Returns the server once it has read these other rules, without waiting for its next poll."""
    rules.write_text(text)
    authorizer: Any = server.runtime._authorizer
    for _ in range(3):
        server.on_loop(authorizer.reload)
    return server
