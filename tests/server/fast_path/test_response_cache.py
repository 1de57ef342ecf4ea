"""Heartbeats and commits that are answered from the cache: the answers are always those of a decision."""

import logging
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.groups.classic.member import Member
from kcoord.offsets_log.group_log import CommitAppender
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from tests.server.conftest import Serve, Server
from tests.server.groups.test_serving_groups import join

NONE, SESSION = ErrorCode.none, timedelta(seconds=30)
ENOUGH = 20  # requests sent one at a time, until responses are cached
TOPICS = (("t", 3), ("u", 2))


class CacheHits(list[tuple[int, bytes]]):
    """The API key and the answer of each cache hit."""

    def __call__(self, cached: Any, chunk: bytes, answer: bytes) -> None:
        self.append((int.from_bytes(chunk[4:6]), answer))

    def keys(self) -> list[int]:
        return [key for key, _ in self]


@pytest.fixture
def cache_hits() -> CacheHits:
    return CacheHits()


@pytest.fixture
def server(serve: Serve, cache_hits: CacheHits) -> Server:
    server = serve(topics=TOPICS, **{"group.initial.rebalance.delay.ms": "0"})
    server.runtime.on_cache_hit = cache_hits
    return server


@pytest.fixture
def member(server: Server) -> Iterator["Asking"]:
    with server.client() as client:
        yield Asking(client)


class Asking:
    """A member of a Stable group of one."""

    def __init__(self, client: Client, group_id: str = "g") -> None:
        self.client = client
        self.group_id = group_id
        self.joined = join(client, group_id)
        self.correlation_id = 0
        who = {"generation_id": self.joined.generation_id, "member_id": self.joined.member_id}
        client.ask(ApiKey.SYNC_GROUP, 3, group_id=group_id, **who, assignments=[])

    def frame(self, api_key: int, version: int, **values: Any) -> bytes:
        self.correlation_id += 1
        header = RequestHeader(api_key, version, self.correlation_id, "c")
        return encode_request(
            header, build_entity(request_type(api_key, version), {"group_id": self.group_id, **values})
        )

    def a_heartbeat(self, **values: Any) -> bytes:
        who = {"generation_id": self.joined.generation_id, "member_id": self.joined.member_id}
        return self.frame(ApiKey.HEARTBEAT, 4, **{**who, **values})

    def a_commit(self, offset: int, topics: tuple[str, ...] = ("t",), partition: int = 0) -> bytes:
        line = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        who = {"generation_id_or_member_epoch": self.joined.generation_id, "member_id": self.joined.member_id}
        asked = [{"name": name, "partitions": [line]} for name in topics]
        return self.frame(ApiKey.OFFSET_COMMIT, 9, **who, topics=asked)

    def receive(self, api_key: int, version: int) -> Any:
        correlation_id, answer = decode_response(self.client.receive_frame(), api_key, version)
        assert correlation_id == self.correlation_id
        return answer

    def beat(self, **values: Any) -> ErrorCode:
        self.client.send_bytes(self.a_heartbeat(**values))
        error: ErrorCode = self.receive(ApiKey.HEARTBEAT, 4).error_code
        return error

    def commit(self, offset: int, topics: tuple[str, ...] = ("t",), partition: int = 0) -> list[ErrorCode]:
        self.client.send_bytes(self.a_commit(offset, topics, partition))
        answer = self.receive(ApiKey.OFFSET_COMMIT, 9)
        return [line.error_code for topic in answer.topics for line in topic.partitions]

    def warm_up(self) -> None:
        for number in range(ENOUGH):
            assert self.beat() is NONE
            assert self.commit(number) == [NONE]

    def fetched(self, topic: str = "t", partition: int = 0) -> int:
        asked = [{"name": topic, "partition_indexes": [partition]}]
        answer = self.client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=asked, require_stable=False)
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


def test_who_asks_one_by_one_is_soon_answered_where_it_is_read(member: Asking, cache_hits: CacheHits) -> None:
    member.warm_up()
    cache_hits.clear()
    for number in range(5):
        assert member.beat() is NONE
        assert member.commit(100 + number) == [NONE]
        assert member.fetched() == 100 + number
    assert cache_hits.keys() == [ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT] * 5


def test_a_session_goes_on_with_what_stands(member: Asking, server: Server, cache_hits: CacheHits) -> None:
    def ends_at() -> float:
        (found,) = member_of(server).values()
        assert found.session.at is not None
        return found.session.at

    member.warm_up()
    for ask in (member.beat, lambda: member.commit(7)):
        before, count = server.on_loop(ends_at), len(cache_hits)
        ask()
        assert len(cache_hits) == count + 1
        assert server.on_loop(ends_at) > before


def member_of(server: Server) -> dict[str, Member]:
    assert server.runtime.groups is not None
    (coordinator,) = server.runtime.groups._coordinators.values()
    return coordinator.groups["g"].members


def test_another_request_is_another(member: Asking, cache_hits: CacheHits) -> None:
    member.warm_up()
    cache_hits.clear()
    assert member.beat(generation_id=member.joined.generation_id + 1) is ErrorCode.illegal_generation
    assert member.beat(member_id="x" * len(member.joined.member_id)) is ErrorCode.unknown_member_id
    assert member.commit(5, partition=2) == [NONE]
    assert member.commit(5, partition=3) == [ErrorCode.unknown_topic_or_partition]
    assert not cache_hits
    assert (member.fetched(), member.fetched(partition=2)) == (ENOUGH - 1, 5)


def test_a_member_hears_of_a_rebalance_and_stands_again_in_its_next_generation(
    member: Asking, server: Server, cache_hits: CacheHits
) -> None:
    member.warm_up()
    with server.client() as other:
        ask_to_join(other)
        wait_until(server, lambda: len(member_of(server)) == 2)
        cache_hits.clear()
        assert member.beat() is ErrorCode.rebalance_in_progress
        assert member.commit(500) == [NONE], "in the join phase members may commit"
        again = join(member.client, "g", member_id=member.joined.member_id)
        who = {"generation_id": again.generation_id, "member_id": again.member_id}
        assert member.beat() is ErrorCode.illegal_generation
        assert member.commit(501) == [ErrorCode.illegal_generation]
        assert not cache_hits
        other.receive(ApiKey.JOIN_GROUP, 3)
        member.client.ask(ApiKey.SYNC_GROUP, 3, group_id="g", **who, assignments=[])
        member.joined = again
        member.warm_up()
        assert cache_hits


def wait_until(server: Server, is_so: Any) -> None:
    while not server.on_loop(is_so):
        pass


def test_who_was_removed_hears_of_it(member: Asking, server: Server) -> None:
    member.warm_up()
    with server.client() as operator:
        operator.ask(
            ApiKey.LEAVE_GROUP,
            3,
            group_id="g",
            members=[{"member_id": member.joined.member_id, "group_instance_id": None}],
        )
    assert member.beat() is ErrorCode.unknown_member_id
    assert member.commit(9) == [ErrorCode.unknown_member_id]


def test_a_commit_to_a_topic_that_is_gone_is_refused_and_one_that_is_made_anew_has_its_own_offsets(
    member: Asking, server: Server, cache_hits: CacheHits
) -> None:
    for number in range(ENOUGH):
        assert member.commit(number, ("t", "u")) == [NONE] * 2
    with server.client() as operator:
        soon = timedelta(seconds=5)
        operator.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "u", "topic_id": None}], timeout=soon)
        cache_hits.clear()
        assert member.commit(77, ("t", "u")) == [ErrorCode.unknown_topic_or_partition, NONE]
        made = {"name": "u", "num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}
        operator.ask(ApiKey.CREATE_TOPICS, 7, topics=[made], timeout=soon, validate_only=False)
        assert member.fetched("u") == -1
        assert member.commit(78, ("t", "u")) == [NONE] * 2
        assert not cache_hits
    assert (member.fetched("t"), member.fetched("u")) == (78, 78)


def test_requests_that_come_together_are_worked_on_together(member: Asking, cache_hits: CacheHits) -> None:
    member.warm_up()
    cache_hits.clear()
    beats = [member.a_heartbeat() for _ in range(3)]
    member.client.send_bytes(b"".join(beats))
    member.correlation_id -= 3
    for _ in beats:
        member.correlation_id += 1
        assert member.receive(ApiKey.HEARTBEAT, 4).error_code is NONE
    assert member.beat() is NONE
    assert not cache_hits


def test_a_frame_in_two_parts_is_one_frame(member: Asking, cache_hits: CacheHits) -> None:
    member.warm_up()
    cache_hits.clear()
    for cut in (2, 4, 8, 11, 20):
        beat = member.a_heartbeat()
        member.client.send_bytes(beat[:cut])
        member.client.send_bytes(beat[cut:])
        assert member.receive(ApiKey.HEARTBEAT, 4).error_code is NONE


def test_what_comes_behind_a_commit_before_its_turn_is_answered_behind_it(member: Asking, server: Server) -> None:
    member.warm_up()
    for cut in (0, 2, 20):
        commits = [member.a_commit(700 + number) for number in range(2)]
        beat = member.a_heartbeat()

        def come(pieces: tuple[bytes, ...] = (*commits, beat[:cut], beat[cut:])) -> None:
            (connection,) = server.runtime.connections
            for piece in pieces:
                connection.data_received(piece)

        server.on_loop(come)
        member.correlation_id -= 3
        for api_key, version in ((ApiKey.OFFSET_COMMIT, 9), (ApiKey.OFFSET_COMMIT, 9), (ApiKey.HEARTBEAT, 4)):
            member.correlation_id += 1
            member.receive(api_key, version)
        assert member.fetched() == 701
        member.warm_up()


def test_a_commit_of_a_connection_that_is_closed_before_its_turn_is_none(member: Asking, server: Server) -> None:
    member.warm_up()
    commit = member.a_commit(999)

    def come_and_go() -> None:
        (connection,) = server.runtime.connections
        connection.data_received(commit)
        connection.close("enough")

    server.on_loop(come_and_go)
    with server.client() as later:
        member.client = later
        assert member.fetched() == ENOUGH - 1


def test_what_is_behind_a_parked_request_waits(member: Asking, server: Server, cache_hits: CacheHits) -> None:
    member.warm_up()
    cache_hits.clear()
    with server.client() as other:
        ask_to_join(other)
        wait_until(server, lambda: len(member_of(server)) == 2)
        joined = join(member.client, "g", member_id=member.joined.member_id)
        second = other.receive(ApiKey.JOIN_GROUP, 3)
        ask_to_join(member.client, joined.member_id, metadata=b"new")  # and waits for the other
        member.client.send_bytes(member.a_heartbeat())
        ask_to_join(other, second.member_id, metadata=b"new")
        again = member.client.receive(ApiKey.JOIN_GROUP, 3)
        assert again.generation_id == joined.generation_id + 1
        assert member.receive(ApiKey.HEARTBEAT, 4).error_code is ErrorCode.illegal_generation
    assert not cache_hits


def ask_to_join(client: Client, member_id: str = "", metadata: bytes = b"") -> None:
    protocols = [{"name": "range", "metadata": metadata}]
    times = {"session_timeout": SESSION, "rebalance_timeout": SESSION}
    client.send(
        ApiKey.JOIN_GROUP, 3, group_id="g", member_id=member_id, protocol_type="consumer", protocols=protocols, **times
    )


def test_a_commit_that_cannot_be_kept_is_not_acknowledged(
    member: Asking, server: Server, cache_hits: CacheHits
) -> None:
    member.warm_up()
    assert server.runtime.groups is not None
    journal: Any = server.runtime.groups._log
    original, index = journal.flush, journal.partition_of("g")

    def fail(now_ms: int) -> dict[int, str]:
        journal.flush = original
        journal._pending.clear()
        return {index: "no space left"}

    cache_hits.clear()
    journal.flush = fail
    member.client.send_bytes(member.a_commit(999))
    with pytest.raises(ConnectionError):
        member.client.receive_frame()
    assert cache_hits.keys() == [ApiKey.OFFSET_COMMIT]
    with server.client() as later:
        wait_until(server, lambda: not server.runtime.groups or not server.runtime.groups.is_loading)
        asked = [{"name": "t", "partition_indexes": [0]}]
        answer = later.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=asked, require_stable=False)
        assert answer.topics[0].partitions[0].committed_offset == ENOUGH - 1


def test_a_fault_of_ours_closes_the_connection_and_leaves_nothing_undecided_in_memory(
    member: Asking, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(appending: CommitAppender, record: Any, now_ms: int) -> None:
        raise KeyError("ours")

    member.warm_up()
    monkeypatch.setattr(CommitAppender, "append", fail)
    member.client.send_bytes(member.a_commit(999))
    with pytest.raises(ConnectionError):
        member.client.receive_frame()
    assert "a request could not be answered" in caplog.text
    assert "unloaded partitions" in caplog.text


def test_nothing_stands_where_rules_say_who_may_do_what(serve: Serve, cache_hits: CacheHits, tmp_path: Path) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("allow User:ANONYMOUS read group g\nallow User:ANONYMOUS read topic t\n")
    server = serve(topics=TOPICS, rules=rules, **{"group.initial.rebalance.delay.ms": "0"})
    server.runtime.on_cache_hit = cache_hits
    with server.client() as client:
        Asking(client).warm_up()
    assert not cache_hits


def test_nothing_stands_where_each_request_is_to_have_its_line(
    serve: Serve, cache_hits: CacheHits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kcoord.server")
    server = serve(topics=TOPICS, **{"group.initial.rebalance.delay.ms": "0"})
    server.runtime.on_cache_hit = cache_hits
    with server.client() as client:
        Asking(client).warm_up()
    assert not cache_hits


@pytest.mark.parametrize("end", ["half-close", "hang-up"])
def test_a_commit_that_a_client_sends_last_is_applied(server: Server, end: str) -> None:
    with server.client() as observer:
        for number in range(10):
            group_id = f"g{number}"
            with server.client() as client:
                member = Asking(client, group_id)
                member.warm_up()
                client.send_bytes(member.a_commit(1000 + number))
                if end == "half-close":
                    client._socket.shutdown(socket.SHUT_WR)
                    assert member.receive(ApiKey.OFFSET_COMMIT, 9).topics[0].partitions[0].error_code is NONE
            wait_until(server, lambda: len(server.runtime.connections) == 1)
            asked = [{"name": "t", "partition_indexes": [0]}]
            answer = observer.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=asked, require_stable=False)
            assert answer.topics[0].partitions[0].committed_offset == 1000 + number


def test_a_commit_behind_a_large_request_is_answered_behind_it(member: Asking) -> None:
    member.warm_up()
    for number in range(20):
        large = member.a_commit(5, topics=("t",) * 2000)
        member.client.send_bytes(large + member.a_commit(number))
        answers = [member.client.receive_frame()[:4] for _ in range(2)]
        assert answers == [large[8:12], member.correlation_id.to_bytes(4)]
        assert member.fetched() == number
        assert member.beat() is NONE
