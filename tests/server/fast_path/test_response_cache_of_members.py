"""Cached joins and syncs of a large group: parked where they are read, and answered like any other."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.protocol.response_template import ResponseTemplate
from kcoord.server.cluster_runtime import ClusterRuntime
from kcoord.server.connection.connection import Connection
from kcoord.server.dispatch.dispatch import Answer
from kcoord.server.fast_path.caching_connection import CachingConnection
from kcoord.server.fast_path.response_cache import CachedRebalanceFrame
from kcoord.tickets import Ticket
from tests.server.conftest import Serve, Server
from tests.server.fast_path.test_request_templates_of_members import Rebalancing
from tests.server.fast_path.test_response_cache import wait_until
from tests.server.groups.test_serving_groups import (
    NOT_COORDINATOR,
    fail_to_flush,
    quick,
)
from tests.server.test_metrics import counting

MEMBERS = 40  # a group counts as large from 32 on
JOIN, SYNC = "JoinGroup", "SyncGroup"
UNANSWERED = "a parked request could not be answered"


def nothing_waits(server: Server) -> bool:
    """Whether no request is pending and no bytes are held."""
    waiting: tuple[int, int] = server.on_loop(
        lambda: (len(server.runtime._pending_requests.requests), server.runtime._held_bytes)
    )
    return waiting == (0, 0)


class Crowd:
    """The members of one group, which all join with new subscriptions each time. The first one leads.

    Some are older clients. All of them and half of them sync before the plan, alternately.
    """

    def __init__(self, clients: list[Client], onlooker: Client) -> None:
        self.members = [Rebalancing(client, join_version=2 + number % 2) for number, client in enumerate(clients)]
        self.clients = clients
        self.rounds = 0
        self._onlooker = onlooker
        leader, *others = self.members
        leader.join(b"alone")
        leader.joined()
        for each in others:
            each.join(b"round 0")
        while len(self.described().members) < len(self.members):
            pass
        leader.join(b"round 0")
        self.all_are_in()
        self.sync()

    def described(self) -> Any:
        return self._onlooker.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0]

    def rebalance(self) -> None:
        for each in self.members:
            each.join(b"round %d" % self.rounds)
        self.all_are_in()
        self.sync()

    def all_are_in(self) -> None:
        replies = [each.joined() for each in self.members]
        assert len({each.generation_id for each in replies}) == 1
        assert {each.metadata for each in replies[0].members} == {each.subscription for each in self.members}
        assert [len(each.members) for each in replies] == [len(self.members), *[0] * (len(self.members) - 1)]

    def begin_to_sync(self, server: Server) -> tuple[Rebalancing, list[Rebalancing]]:
        """Returns the leader and the others after a few rebalances: all have joined, and all but the leader wait for a
        plan."""
        for _ in range(3):
            self.rebalance()
        leader, *others = self.members
        for each in self.members:
            each.join(b"at last")
        self.all_are_in()
        for each in others:
            each.sync({})
        wait_until(server, lambda: len(server.runtime._pending_requests.requests) == len(others))
        return leader, others

    def sync_all_but_one(self, its_part: bytes) -> None:
        """Hands the plan out to all but the second member, whose connection is closed."""
        leader, unlucky, *others = self.members
        plan = {each.member_id: b"for %s" % each.member_id.encode() for each in (leader, *others)}
        leader.sync({**plan, unlucky.member_id: its_part})
        assert {each.member_id: each.assignment() for each in (leader, *others)} == plan
        with pytest.raises(ConnectionError):
            self.clients[1].receive_frame()

    def sync(self) -> None:
        self.rounds += 1
        leader, *others = self.members
        plan = {each.member_id: b"%s in %d" % (each.member_id.encode(), self.rounds) for each in self.members}
        early = len(others) if self.rounds % 2 else len(others) // 2
        for each in others[:early]:
            each.sync({})
        leader.sync(plan)
        for each in others[early:]:
            each.sync({})
        assert {each.member_id: each.assignment() for each in self.members} == plan


@pytest.fixture
def server(serve: Serve) -> Server:
    return quick(serve)


@pytest.fixture
def decide_counts(monkeypatch: pytest.MonkeyPatch) -> "Counter[tuple[str, str]]":
    """Counts by API how many cached requests were parked, answered, or had to be decided."""
    counts: Counter[tuple[str, str]] = Counter()
    ask_again = ClusterRuntime.decide_cached

    def counted(
        runtime: ClusterRuntime, connection: Connection, cached: CachedRebalanceFrame, chunk: bytes
    ) -> Answer | Ticket | None:
        outcome = ask_again(runtime, connection, cached, chunk)
        what = "answered" if isinstance(outcome, Answer) else "decided" if outcome is None else "parked"
        counts[cached.route.api.name, what] += 1
        return outcome

    monkeypatch.setattr(ClusterRuntime, "decide_cached", counted)
    return counts


@pytest.fixture
def crowd(server: Server, decide_counts: Any) -> Iterator[Crowd]:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(MEMBERS)]
        yield Crowd(clients, stack.enter_context(server.client()))


def test_all_get_their_own_answers_and_most_wait_where_they_are_read(
    crowd: Crowd, server: Server, decide_counts: "Counter[tuple[str, str]]"
) -> None:
    for _ in range(3):
        crowd.rebalance()  # after which all have joined and synced twice with the same words
    decide_counts.clear()
    for _ in range(3):
        crowd.rebalance()
    assert decide_counts[JOIN, "parked"] == 3 * (MEMBERS - 2), "one begins, one is the last"
    assert decide_counts[SYNC, "parked"] + decide_counts[SYNC, "answered"] >= 3 * (MEMBERS - 1)
    assert nothing_waits(server)


def test_who_hangs_up_while_it_waits_holds_up_nobody(crowd: Crowd, server: Server) -> None:
    for _ in range(3):
        crowd.rebalance()
    *stay, goes = crowd.members
    for each in (*stay[1:], goes):
        each.join(b"at last")
    wait_until(server, lambda: len(server.runtime._pending_requests.requests) == MEMBERS - 1)
    crowd.clients.pop().close()
    wait_until(server, lambda: len(server.runtime._pending_requests.requests) == MEMBERS - 2)
    stay[0].join(b"at last")
    assert len({each.joined().generation_id for each in stay}) == 1
    assert nothing_waits(server)


def test_what_is_sent_behind_a_join_that_waits_is_answered_after_it(crowd: Crowd, server: Server) -> None:
    for _ in range(3):
        crowd.rebalance()
    leader, *others = crowd.members
    for each in others:
        each.join(b"at last")
    wait_until(server, lambda: len(server.runtime._pending_requests.requests) == MEMBERS - 1)
    who = {"group_id": "g", "generation_id": -1, "member_id": others[-1].member_id}
    crowd.clients[-1].send(ApiKey.HEARTBEAT, 3, **who)
    wait_until(server, lambda: any(each._frames for each in server.runtime.connections))
    leader.join(b"at last")
    for each in others:
        each.joined()
    assert crowd.clients[-1].receive(ApiKey.HEARTBEAT, 3).error_code.name == "illegal_generation"
    assert nothing_waits(server)


def test_large_assignments_come_whole(crowd: Crowd, server: Server) -> None:
    leader, others = crowd.begin_to_sync(server)
    sizes = (0, 1, 4000, 4096, 4097, 9000)  # small ones leave together, large ones at once
    plan = {each.member_id: bytes([number]) * sizes[number % 6] for number, each in enumerate(crowd.members)}
    leader.sync(plan)
    assert {each.member_id: each.assignment() for each in (leader, *others)} == plan


def test_who_cannot_be_answered_holds_up_nobody(
    crowd: Crowd, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd.begin_to_sync(server)
    answer_flushed = CachingConnection.answer_flushed

    def fails(connection: CachingConnection, frame: bytes, now: float) -> int:
        assert b"unsendable" not in frame
        return answer_flushed(connection, frame, now)

    monkeypatch.setattr(CachingConnection, "answer_flushed", fails)
    crowd.sync_all_but_one(b"unsendable")
    assert caplog.text.count(UNANSWERED) == 1
    assert nothing_waits(server)


def test_a_plan_that_is_not_kept_is_given_to_nobody(crowd: Crowd, server: Server) -> None:
    leader, _ = crowd.begin_to_sync(server)
    server.on_loop(lambda: fail_to_flush(server, "g"))
    leader.sync({each.member_id: b"a part" for each in crowd.members})
    for client in crowd.clients[1:]:
        assert client.receive(ApiKey.SYNC_GROUP, 3).error_code is NOT_COORDINATOR
    with pytest.raises(ConnectionError):
        crowd.clients[0].receive_frame()
    assert nothing_waits(server)


def test_an_answer_that_cannot_be_written_is_the_matter_of_its_member_alone(
    crowd: Crowd, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd.begin_to_sync(server)
    write_part = ResponseTemplate._encode_member_part

    def fails(splice: ResponseTemplate, reply: Any) -> bytes:
        assert reply[0] != b"unwritable"
        return write_part(splice, reply)

    monkeypatch.setattr(ResponseTemplate, "_encode_member_part", fails)
    crowd.sync_all_but_one(b"unwritable")
    assert caplog.text.count(UNANSWERED) == 1
    assert nothing_waits(server)


def test_they_are_counted_as_any_other() -> None:
    with counting() as cluster:
        crowd = Crowd([cluster.client() for _ in range(MEMBERS)], cluster.client())
        for _ in range(5):
            crowd.rebalance()
        scrape = cluster.scrape()
        joins = scrape("kcoord_requests_total", api=JOIN, error="NONE")
        syncs = scrape("kcoord_requests_total", api=SYNC, error="NONE")
        assert (joins, syncs) == (1 + 6 * MEMBERS, 6 * MEMBERS)
        assert JOIN not in scrape.by("kcoord_requests_parked", "api")
