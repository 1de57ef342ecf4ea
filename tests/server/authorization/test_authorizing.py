"""Rules at work in a server. tests/integration/security/test_rules_like_kafka.py compares its answers with Kafka's."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record, write_batch
from kcoord.security.rules import Kind, Operation
from kcoord.security.rules_file import BadRules, RulesFile
from kcoord.server.authorization import (
    group_apis,
    record_apis,
    topic_apis,
)
from kcoord.server.authorization.authorizing_dispatch import AuthorizingDispatch
from kcoord.server.authorization.permissions import Authorizer
from kcoord.server.dispatch.dispatch import Dispatch
from kcoord.server.runtime import Runtime
from kcoord.server.setup import CannotServe, Setup
from tests.server.conftest import Serve, Server

NONE, NOT_THE_GROUP = ErrorCode.none, ErrorCode.group_authorization_failed
NOT_THE_TOPIC = ErrorCode.topic_authorization_failed
SESSION: Final = timedelta(seconds=60)
MEMBER: Final = "allow User:ANONYMOUS read group g\nallow User:ANONYMOUS read topic t\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.txt"
    path.write_text(MEMBER)
    return path


def guarded(serve: Serve, rules: Path) -> Server:
    return serve(topics=(("t", 1), ("u", 1)), rules=rules, **{"group.initial.rebalance.delay.ms": "0"})


def change(server: Server, rules: Path, text: str) -> None:
    """Replaces the rules and reloads them without waiting for the periodic reload."""
    rules.write_text(text)
    authorizer: Any = server.runtime._authorizer
    for _ in range(3):
        server.on_loop(authorizer.reload)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def joined(client: Client) -> dict[str, Any]:
    """A member of g that owns nothing."""
    joining = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    times = {"session_timeout": SESSION, "rebalance_timeout": SESSION}
    member = client.ask(ApiKey.JOIN_GROUP, 3, group_id="g", member_id="", **times, **joining)
    me = {"group_id": "g", "member_id": member.member_id, "generation_id": member.generation_id}
    assert client.ask(ApiKey.SYNC_GROUP, 3, **me, assignments=[]).error_code is NONE
    return {**me, "generation_id_or_member_epoch": member.generation_id}


def committed(client: Client, me: dict[str, Any], offset: int, *topics: str) -> list[tuple[str, ErrorCode]]:
    lines = [{"partition_index": 0, "committed_offset": offset}]
    answer = client.ask(
        ApiKey.OFFSET_COMMIT, 8, **me, topics=[{"name": topic, "partitions": lines} for topic in topics]
    )
    return [(topic.name, topic.partitions[0].error_code) for topic in answer.topics]


def seen(client: Client, topic: str) -> ErrorCode:
    answer = client.ask(ApiKey.METADATA, 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    return ErrorCode(answer.topics[0].error_code)


def test_every_api_that_is_served_says_who_may_use_it() -> None:
    tables = (group_apis.GUARDS, record_apis.GUARDS, topic_apis.GUARDS)
    guards = [key for table in tables for key in table]
    assert sorted([*guards, ApiKey.FETCH, ApiKey.API_VERSIONS]) == sorted(SERVED)
    assert set(group_apis.GUARDS) == {api.key for api in SERVED.values() if api.is_group_api}


def test_without_rules_nothing_is_looked_at(serve: Serve, rules: Path) -> None:
    assert [type(each) for each in serve().runtime._dispatches.values()] == [Dispatch]
    assert [type(each) for each in serve(rules=rules).runtime._dispatches.values()] == [AuthorizingDispatch]


def test_rules_that_cannot_be_read_stop_a_server_before_it_listens(rules: Path) -> None:
    rules.write_text("allow everything\n")
    with pytest.raises(BadRules, match=r"rules\.txt, line 1"):
        Runtime(Setup(rules=rules))
    with pytest.raises(CannotServe, match="do not fit"):  # which is seen later
        Runtime(Setup(port=65535, brokers=2))


def test_a_member_that_repeats_itself_is_looked_at_each_time(serve: Serve, rules: Path) -> None:
    """A frame that matches a template is not decoded again, but it must be authorized again."""
    server = guarded(serve, rules)
    with server.client() as client:
        me = joined(client)
        for offset in range(5):
            assert client.ask(ApiKey.HEARTBEAT, 3, **me).error_code is NONE
            assert committed(client, me, offset, "t") == [("t", NONE)]
        change(server, rules, MEMBER.replace("read topic t", "read topic u"))
        for offset in range(5):
            assert client.ask(ApiKey.HEARTBEAT, 3, **me).error_code is NONE
            assert committed(client, me, offset, "t") == [("t", NOT_THE_TOPIC)]
            assert committed(client, me, offset, "t", "u") == [("t", NOT_THE_TOPIC), ("u", NONE)]
        change(server, rules, "")
        for offset in range(5):
            assert client.ask(ApiKey.HEARTBEAT, 3, **me).error_code is NOT_THE_GROUP
            assert committed(client, me, offset, "t") == [("t", NOT_THE_GROUP)]
        change(server, rules, MEMBER)
        assert client.ask(ApiKey.HEARTBEAT, 3, **me).error_code is NONE
        assert committed(client, me, 9, "t") == [("t", NONE)]


def test_a_fetch_that_waits_is_answered_by_the_rules_of_then(serve: Serve, rules: Path) -> None:
    rules.write_text("allow User:ANONYMOUS read, write topic t\n")
    server = guarded(serve, rules)
    with server.client() as reader, server.client() as writer:
        line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        asked = {"max_wait": timedelta(seconds=60), "min_bytes": 1, "max_bytes": 1 << 20}
        reader.send(ApiKey.FETCH, 11, **asked, session_epoch=-1, topics=[{"topic": "t", "partitions": [line]}])
        until(lambda: bool(server.on_loop(lambda: server.runtime._pending_requests.requests)))
        change(server, rules, "allow User:ANONYMOUS write topic t\n")
        batch = write_batch([Record(timestamp=1, value=b"secret")])
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
        written = writer.ask(ApiKey.PRODUCE, 9, acks=1, topic_data=data)
        assert written.responses[0].partition_responses[0].error_code is NONE
        (answer,) = reader.receive(ApiKey.FETCH, 11).responses[0].partitions
        assert (answer.error_code, answer.records) == (NOT_THE_TOPIC, b"")


def test_a_changed_file_is_taken_up_while_the_server_runs(serve: Serve, rules: Path) -> None:
    server = guarded(serve, rules)
    with server.client() as client:
        assert (seen(client, "t"), seen(client, "u")) == (NONE, NOT_THE_TOPIC)
        rules.write_text("allow User:* describe topic u\n")
        until(lambda: seen(client, "u") is NONE)
        assert seen(client, "t") is NOT_THE_TOPIC


def test_a_broken_file_is_one_line_of_the_log_and_the_rules_stay(
    serve: Serve, rules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = guarded(serve, rules)
    with caplog.at_level(logging.INFO, logger="kcoord.server"), server.client() as client:
        change(server, rules, "allow User:ANONYMOUS raed topic u\n")
        assert (seen(client, "t"), seen(client, "u")) == (NONE, NOT_THE_TOPIC)
    (message,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("rules")]
    assert "rules.txt, line 1: 'raed' is no operation" in message


def test_what_is_denied_is_logged_once_with_its_name_made_harmless(
    serve: Serve, rules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = guarded(serve, rules)
    with caplog.at_level(logging.INFO, logger="kcoord.server"), server.client() as client:
        for _ in range(3):
            assert seen(client, "evil\nINFO forged") is NOT_THE_TOPIC
        client.ask(ApiKey.METADATA, 9, topics=None)  # silent checks log nothing
    messages = [record.getMessage() for record in caplog.records if record.getMessage().startswith("denied")]
    assert messages == [
        "denied principal='User:ANONYMOUS' host=127.0.0.1 operation=describe topic='evil\\nINFO forged'"
    ]


def test_of_many_denials_the_first_are_logged_and_the_others_counted(
    rules: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer = Authorizer(RulesFile(rules))
    bob = authorizer.permissions_of("User:bob", "/10.0.0.7")
    with caplog.at_level(logging.INFO, logger="kcoord.server"):
        for _ in range(2):
            for number in range(3000):
                assert not bob.may_topic(Operation.DESCRIBE, f"t{number}")
        assert len(caplog.messages) == 1000
        assert caplog.messages[-1].endswith("topic='t999'")
        for _ in range(2):
            authorizer.reload()
        bob.may_topic(Operation.DESCRIBE, "new")
        for number in range(1000):
            authorizer.permissions_of(f"User:{number}", "/10.0.0.7")
        authorizer.reload()
    assert caplog.messages[1000:] == [
        "denied principal='User:bob' host=10.0.0.7 more=4000",
        "denied principal='User:bob' host=10.0.0.7 more=1",
    ]


def test_what_is_remembered_of_those_who_ask_is_bounded(rules: Path) -> None:
    authorizer = Authorizer(RulesFile(rules))
    for number in range(2500):
        authorizer.permissions_of(f"User:{number}", "/127.0.0.1")
    assert len(authorizer._permissions) <= 1000
    rights = authorizer._file.rules.rights_of("User:a", "127.0.0.1")
    for number in range(12_000):
        rights.may(Operation.READ, Kind.GROUP, f"group-{number}")
    assert len(rights._decisions) <= 10_000
    before = len(rights._decisions)
    rights.may(Operation.READ, Kind.GROUP, "g" * 30_000)
    assert len(rights._decisions) == before, "a long name is not remembered"


def test_an_address_is_the_same_however_the_listener_sees_it(rules: Path) -> None:
    rules.write_text("allow User:a describe topic t from 10.0.0.7\n")
    authorizer = Authorizer(RulesFile(rules))
    for host, is_allowed in (("/10.0.0.7", True), ("/::ffff:10.0.0.7", True), ("/10.0.0.8", False)):
        assert authorizer.permissions_of("User:a", host).may_topic(Operation.DESCRIBE, "t") is is_allowed


@pytest.mark.parametrize(("group", "message"), [("g", "NONE"), ("denied", "Group authorization failed.")])
def test_an_old_client_is_told_in_words_why_it_has_no_coordinator(
    serve: Serve, rules: Path, group: str, message: str
) -> None:
    with guarded(serve, rules).client() as client:
        assert client.ask(ApiKey.FIND_COORDINATOR, 2, key=group, key_type=0).error_message == message
