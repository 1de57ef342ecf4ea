"""The metrics of a running cluster, as Prometheus reads them. Values that are deterministic are compared exactly."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kcoord.security.login  # noqa: F401 - here, as two threads that import at once can trip over pytest's rewriting
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.client.connect_errors import CannotConnect, LoginFailed
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Scram, Security
from kcoord.metrics.listening import Endpoint, endpoint_of, listen_on
from kcoord.security.listener import Listener, Sasl
from kcoord.security.users import Users
from kcoord.server.metrics.metrics_source import instrumented
from kcoord.server.setup import Setup, settings_of
from tests.support.scrapes import OPEN_METRICS, Scrape, ask

SESSION = timedelta(seconds=30)
USERS = Users.nobody().with_user("alice", Secret("wonderland"), iterations=4096)
RANGE = ({"name": "range", "metadata": b"topics"},)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    bootstrap: str
    url: str
    clients: ExitStack

    def client(self, **options: Any) -> Client:
        """Opens a client that is closed at the end of the test."""
        host, _, port = self.bootstrap.rpartition(":")
        return self.clients.enter_context(Client(host, int(port), **options))

    def scrape(self) -> Scrape:
        return Scrape(f"{self.url}/metrics")

    def until(self, is_so: Callable[[Scrape], bool]) -> Scrape:
        deadline = time.monotonic() + 60
        while not is_so(scrape := self.scrape()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return scrape


@contextmanager
def counting(
    data_dir: Path | None = None, *, fsync: bool = False, listener: Listener | None = None, **settings: str
) -> Iterator[Counted]:
    """A cluster with metrics in this process, with its loop in a separate thread."""
    given = {"group.initial.rebalance.delay.ms": "0", **settings}
    setup = Setup(
        topics=(("t", 3),),
        settings=settings_of(given, data_dir),
        data_dir=data_dir,
        fsync=fsync,
        listener=listener,
    )
    listening = listen_on(Endpoint(host="127.0.0.1", port=0))
    url = f"http://{endpoint_of(listening)}"
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()
    try:
        serving = stack.enter_async_context(instrumented(setup, listening))
        runtime = asyncio.run_coroutine_threadsafe(serving, loop).result(60)
        with ExitStack() as clients:
            yield Counted(bootstrap=runtime.bootstrap, url=url, clients=clients)
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


Count = Callable[..., Counted]


@pytest.fixture
def count() -> Iterator[Count]:
    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(counting(*given, **named))


class Member:
    """A scripted member with its separate connection."""

    def __init__(self, counted: Counted, group_id: str = "g", instance_id: str | None = None) -> None:
        self.client = counted.client()
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    def ask_to_join(self, protocols: Any = RANGE, session: timedelta = SESSION) -> None:
        self.client.send(
            ApiKey.JOIN_GROUP,
            5,
            group_id=self.group_id,
            session_timeout=session,
            rebalance_timeout=session,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=protocols,
        )

    def joined(self) -> Any:
        answer = self.client.receive(ApiKey.JOIN_GROUP, 5)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, **named: Any) -> None:
        """Joins twice: a dynamic member gets an id first and joins again with it."""
        self.ask_to_join(**named)
        if self.joined().error_code.name == "member_id_required":
            self.ask_to_join(**named)
            self.joined()

    def sync(self, *others: str) -> None:
        plan = [{"member_id": member_id, "assignment": b"some"} for member_id in (self.member_id, *others)]
        self.client.ask(ApiKey.SYNC_GROUP, 3, **self._self(), assignments=plan)

    def heartbeat(self) -> str:
        error: str = self.client.ask(
            ApiKey.HEARTBEAT, 3, **self._self(), group_instance_id=self.instance_id
        ).error_code.name
        return error

    def leave(self) -> None:
        leaving = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        self.client.ask(ApiKey.LEAVE_GROUP, 3, group_id=self.group_id, members=leaving)

    def commit(self, *partitions: int, topic: str = "t") -> None:
        lines = [
            {"partition_index": each, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
            for each in partitions
        ]
        topics = [{"name": topic, "partitions": lines}]
        member = {"generation_id_or_member_epoch": self.generation, "member_id": self.member_id}
        self.client.ask(ApiKey.OFFSET_COMMIT, 8, group_id=self.group_id, **member, topics=topics)

    def _self(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "generation_id": self.generation, "member_id": self.member_id}


def stable(counted: Counted, **named: Any) -> Member:
    member = Member(counted, **named)
    member.join()
    member.sync()
    return member


def errors(scrape: Scrape, api: str) -> dict[str, float]:
    """Returns the counts of an API's requests by error."""
    samples = scrape.families["kcoord_requests"].samples
    return {sample.labels["error"]: sample.value for sample in samples if sample.labels["api"] == api}


# Groups.


def test_what_groups_hold_is_told_beside_their_limits(count: Count) -> None:
    counted = count()
    limits = counted.scrape().by("kcoord_group_limit", "of")
    assert limits == {"groups": 100_000, "members": 200_000, "bytes": 512 * 1024 * 1024}
    assert counted.scrape()("kcoord_group_held_bytes") == 0
    member = stable(counted)
    joined = counted.scrape()("kcoord_group_held_bytes")
    assert joined > 0
    member.commit(0)
    assert counted.scrape()("kcoord_group_held_bytes") > joined


def test_members_groups_and_rebalances_are_what_happened(count: Count) -> None:
    counted = count()
    first = stable(counted)
    second, third = Member(counted), Member(counted)
    for newcomer in (second, third):
        newcomer.ask_to_join()
        newcomer.joined()  # an id
        newcomer.ask_to_join()
    waiting = counted.until(lambda scrape: scrape("kcoord_requests_parked", api="JoinGroup") == 2)
    assert waiting("kcoord_groups", state="PreparingRebalance") == 1
    assert first.heartbeat() == "rebalance_in_progress"
    first.ask_to_join()
    for member in (first, second, third):
        member.joined()
    first.sync(second.member_id, third.member_id)
    for follower in (second, third):
        follower.sync()
    scrape = counted.scrape()
    assert scrape.by("kcoord_groups", "state") == {"Stable": 1}
    assert scrape("kcoord_group_members") == 3
    assert scrape("kcoord_group_pending_ids") == 0
    assert scrape("kcoord_requests_parked", api="JoinGroup") == 0
    # The second begins a rebalance, which the third comes into.
    assert scrape.by("kcoord_rebalances_total", "cause") == {"joined": 2}
    expected = {"made": 1, "id-given": 3, "joined": 3, "rebalancing": 2, "generation": 2, "stable": 2}
    assert scrape.by("kcoord_group_events_total", "event") == expected
    assert errors(scrape, "JoinGroup") == {"MEMBER_ID_REQUIRED": 3, "NONE": 4}
    assert errors(scrape, "SyncGroup") == {"NONE": 4}
    assert errors(scrape, "Heartbeat") == {"REBALANCE_IN_PROGRESS": 1}
    assert scrape("kcoord_request_duration_seconds_count", api="JoinGroup") == 7
    assert scrape("kcoord_connections_open") == 3


def test_rebalances_are_told_by_their_cause(count: Count) -> None:
    counted = count(**{"group.min.session.timeout.ms": "100"})
    member = stable(counted)
    member.ask_to_join(protocols=({"name": "range", "metadata": b"other topics"},))
    member.joined()
    member.sync()
    member.ask_to_join(protocols=({"name": "range", "metadata": b"other topics"},))  # the leader, with nothing new
    member.joined()
    member.sync()
    member.leave()
    causes = {"joined": 1, "new-subscription": 1, "leader-rejoined": 1, "left": 1}
    assert counted.scrape().by("kcoord_rebalances_total", "cause") == causes

    short = Member(counted, "silent")
    short.join(session=timedelta(milliseconds=100))
    short.sync()
    counted.until(lambda scrape: scrape("kcoord_rebalances_total", cause="session-expired") == 1)

    static = stable(counted, group_id="static", instance_id="i")
    back = Member(counted, "static", "i")
    back.ask_to_join(protocols=({"name": "sticky", "metadata": b""}, *RANGE))
    back.joined()
    scrape = counted.scrape()
    assert scrape("kcoord_rebalances_total", cause="static-returned") == 1
    assert scrape("kcoord_group_events_total", event="expired") == 1
    assert static.heartbeat() == "fenced_instance_id"


def test_heartbeats_and_commits_are_counted_each_time_although_they_are_answered_the_same(count: Count) -> None:
    counted = count()
    member = stable(counted)
    for _ in range(5):
        member.heartbeat()
        member.commit(0, 1)
        member.commit(0, 1)
        member.heartbeat()
    member.commit(2)
    scrape = counted.scrape()
    assert errors(scrape, "Heartbeat") == {"NONE": 10}
    assert errors(scrape, "OffsetCommit") == {"NONE": 11}
    assert scrape("kcoord_offsets_committed_total") == 21
    assert scrape("kcoord_request_duration_seconds_count", api="Heartbeat") == 10


def test_what_is_answered_where_it_is_read_is_counted_all_the_same(count: Count) -> None:
    counted = count()
    member = stable(counted)
    for _ in range(40):
        member.heartbeat()
        member.commit(0, 1)
    scrape = counted.scrape()
    assert errors(scrape, "Heartbeat") == errors(scrape, "OffsetCommit") == {"NONE": 40}
    assert scrape("kcoord_offsets_committed_total") == 80
    for api in ("Heartbeat", "OffsetCommit"):
        assert scrape("kcoord_request_duration_seconds_count", api=api) == 40
        assert scrape("kcoord_request_duration_seconds_sum", api=api) > 0


def test_an_error_of_a_line_is_counted_under_its_name(count: Count) -> None:
    counted = count()
    member = stable(counted)
    member.commit(0, topic="missing")
    member.generation += 1
    member.commit(0)
    member.generation -= 1
    member.commit(0, 17)  # partition 17 is not there
    scrape = counted.scrape()
    assert errors(scrape, "OffsetCommit") == {"UNKNOWN_TOPIC_OR_PARTITION": 2, "ILLEGAL_GENERATION": 1}
    assert scrape("kcoord_offsets_committed_total") == 1


# Requests and connections.


def test_bytes_are_those_that_were_sent(count: Count) -> None:
    counted = count()
    frame = bytes.fromhex("0012 0000 00000007 0001 74".replace(" ", ""))  # ApiVersions 0 of client "t"
    with counted.client() as client:
        for _ in range(3):
            client.send_bytes(len(frame).to_bytes(4) + frame)
        answers = [client.receive_frame() for _ in range(3)]
    scrape = counted.scrape()
    assert scrape("kcoord_request_bytes_total", api="ApiVersions") == 3 * (4 + len(frame))
    assert scrape("kcoord_response_bytes_total", api="ApiVersions") == sum(4 + len(answer) for answer in answers)


def test_a_parked_request_took_the_whole_time(count: Count) -> None:
    counted = count()
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    with counted.client() as client:
        client.send(
            ApiKey.FETCH,
            12,
            max_wait=timedelta(seconds=0.3),
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[{"topic": "t", "partitions": [partition]}],
        )
        counted.until(lambda scrape: scrape("kcoord_requests_parked", api="Fetch") == 1)
        client.receive(ApiKey.FETCH, 12)
    scrape = counted.scrape()
    assert errors(scrape, "Fetch") == {"NONE": 1}
    assert scrape("kcoord_request_duration_seconds_sum", api="Fetch") >= 0.29
    assert scrape("kcoord_request_duration_seconds_bucket", api="Fetch", le="0.25") == 0


def test_a_client_that_hangs_up_while_it_waits_leaves_nothing_behind(count: Count) -> None:
    counted = count()
    stable(counted)
    newcomer = Member(counted)
    newcomer.ask_to_join()
    newcomer.joined()
    newcomer.ask_to_join()
    counted.until(lambda scrape: scrape("kcoord_requests_parked", api="JoinGroup") == 1)
    newcomer.client.close()
    scrape = counted.until(lambda scrape: scrape("kcoord_connections_closed_total", reason="client") == 1)
    assert scrape("kcoord_requests_parked", api="JoinGroup") == 0
    assert scrape("kcoord_connections_open") == 1


def test_connections_are_told_by_how_they_ended(count: Count) -> None:
    counted = count(**{"max.connections": "2"})
    with counted.client() as open_client:
        open_client.ask(ApiKey.METADATA, 12, topics=None)
        for sent in (b"\x00\x00\x00\x08\x00\x47\x00\x00\x00\x00\x00\x01", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\x00"):
            client = counted.client()
            client.send_bytes(sent)
            with pytest.raises(Disconnected):
                client.receive_frame()
        counted.until(lambda scrape: scrape("kcoord_connections_open") == 1)
        with counted.client() as second:
            second.ask(ApiKey.METADATA, 12, topics=None)
            with counted.client() as third, pytest.raises(Disconnected):
                third.ask(ApiKey.METADATA, 12, topics=None)
        scrape = counted.until(lambda scrape: scrape("kcoord_connections_open") == 1)
    assert scrape.by("kcoord_connections_refused_total", "reason") == {"limit": 1}
    assert scrape.by("kcoord_connections_closed_total", "reason") == {"unserved": 1, "malformed": 2, "client": 1}
    assert scrape("kcoord_connections_opened_total") == 5


def test_who_cannot_log_in_is_refused_and_was_never_let_in(count: Count) -> None:
    listener = Listener(sasl=Sasl(mechanisms=("PLAIN",), users=lambda: USERS))
    counted = count(listener=listener, **{"connection.failed.authentication.delay.ms": "0"})
    with pytest.raises(LoginFailed):
        counted.client(security=Security(sasl=Plain(username="alice", password=Secret("a guess"))))
    with pytest.raises(CannotConnect):
        counted.client(
            security=Security(sasl=Scram(mechanism="SCRAM-SHA-512", username="alice", password=Secret("wonderland")))
        )
    with counted.client(security=Security(sasl=Plain(username="alice", password=Secret("wonderland")))) as client:
        client.ask(ApiKey.METADATA, 12, topics=None)
        scrape = counted.until(
            lambda scrape: sum(scrape.by("kcoord_connections_refused_total", "reason").values()) == 2
        )
    assert scrape.by("kcoord_connections_refused_total", "reason") == {"credentials": 1, "mechanism": 1}
    assert scrape("kcoord_connections_opened_total") == scrape("kcoord_connections_open") == 1
    assert errors(scrape, "Metadata") == {"NONE": 1}


# The journal.


def test_the_journal_is_as_long_as_its_files_and_is_read_again(count: Count, tmp_path: Path) -> None:
    with counting(tmp_path, fsync=True) as counted:
        member = stable(counted)
        before = counted.scrape()
        member.commit(0, 1, 2)
        scrape = counted.scrape()
        written = scrape("kcoord_journal_written_bytes_total")
        assert written == sum(path.stat().st_size for path in tmp_path.glob("__consumer_offsets-*/*.log"))
        count_name = "kcoord_journal_fsync_duration_seconds_count"
        assert scrape(count_name) == before(count_name) + 1
        assert scrape("kcoord_log_bytes") == written
    again = count(tmp_path)
    scrape = again.until(lambda scrape: scrape("kcoord_ready") == 1)
    assert scrape("kcoord_journal_read_facts_total") == 3  # the group as it was made, as it became stable, a commit
    assert scrape("kcoord_journal_read_seconds_total") > 0
    assert scrape.by("kcoord_journal_partitions", "state") == {"known": 50}
    assert scrape.by("kcoord_groups", "state") == {"Stable": 1}
    assert scrape("kcoord_group_members") == 1
    assert scrape("kcoord_journal_written_bytes_total") == 0


def test_compactions_are_counted_with_what_they_freed(count: Count) -> None:
    counted = count(**{"kcoord.compaction.bytes": "1", "log.cleaner.backoff.ms": "20"})
    member = stable(counted)
    for _ in range(20):
        member.commit(0, 1, 2)
    scrape = counted.until(lambda scrape: scrape("kcoord_journal_compacted_bytes_total") > 0)
    assert scrape("kcoord_journal_compactions_total", outcome="done") >= 1
    assert scrape("kcoord_journal_compactions_total", outcome="failed") == 0


# All of it.


def test_every_family_of_a_server_is_told_and_both_formats_can_be_read(count: Count) -> None:
    counted = count()
    stable(counted)
    for accept in ("text/plain", OPEN_METRICS):
        scraped = Scrape(f"{counted.url}/metrics", accept).families
        assert {name for name in scraped if name.startswith("kcoord_")} == _families()
    assert ask(f"{counted.url}/readyz").text == "ready\n"


def _families() -> set[str]:
    from kcoord.metrics import catalogue
    from kcoord.server.metrics.metrics_source import ClusterSource

    return {family.name for family in (*catalogue.OF_ALL, *ClusterSource.families)}
