"""Groups that are taken over while the journal is lost and loaded again: none is served without its upstream offsets.

The test provides the upstream offsets; test_coordination takes groups over from a real cluster.
"""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterable

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.committed_offsets import Commits, TopicCommits
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.proxy.local import offset_seeding
from kcoord.proxy.local.coordination import LocalCoordination, LocalSetup
from kcoord.proxy.local.offset_seeding import OffsetSeeder, UpstreamOffsets
from kcoord.server.clock import instant
from tests.proxy.local.desk import Desk
from tests.support.guest import Guest, SentRequest

LOADING, DONE = ErrorCode.coordinator_load_in_progress, ErrorCode.none
UPSTREAM = 42
EVERY_GROUP = re.compile(".*")

Answers = dict[str, tuple[ErrorCode, list[int]]]


def played(scenario: Callable[[Desk, LocalCoordination], Awaitable[None]]) -> None:
    async def play() -> None:
        async with Desk() as desk:
            coordination = at(desk)
            await scenario(desk, coordination)

    asyncio.run(play())


def at(desk: Desk) -> LocalCoordination:
    """Returns the desk's coordination with offset seeding."""
    upstream = Connection(bootstrap=("nowhere:1",))
    coordination = LocalCoordination(LocalSetup(upstream=upstream, seed=EVERY_GROUP))
    coordination.runtime, coordination._journal_events = desk.runtime, desk.journal_events
    coordination._seeder = OffsetSeeder(EVERY_GROUP, upstream, desk.runtime.coordinator, desk.topics, instant)
    return coordination


def found() -> UpstreamOffsets:
    return UpstreamOffsets(Commits([TopicCommits("orders", [0], [UPSTREAM], [-1], [None])]), has_members=False)


def fetch(guest: Guest, group_ids: Iterable[str]) -> SentRequest:
    groups = [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": None} for name in group_ids]
    return guest.begin(ApiKey.OFFSET_FETCH, 9, groups=groups, require_stable=False)


async def answers(desk: Desk, guest: Guest, asked: SentRequest) -> Answers:
    """Returns the error and offsets of each group, while the journal commits everything."""
    while not asked.answered.done():
        await desk.turn()
        desk.writer.commit_all()
    response = await guest.reply_to(asked)
    return {
        group.group_id: (
            group.error_code,
            [each.committed_offset for topic in group.topics for each in topic.partitions],
        )
        for group in response.groups
    }


def test_a_group_that_is_asked_for_just_before_it_is_read_is_not_decided_on_without_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        desk.writer.lose()
        await desk.turn()
        desk.writer.load()
        asked = []
        for number in range(12):  # in every iteration of the loop, until after the groups are loaded
            guest, name = Guest(coordination), f"group-{number}"
            asked.append((name, guest, fetch(guest, [name])))
            await asyncio.sleep(0)

        answered = [(await answers(desk, guest, one))[name] for name, guest, one in asked]

        assert {error for error, _ in answered} == {LOADING, DONE}, "some came too early"
        assert [offsets for error, offsets in answered if error is DONE] == [
            [UPSTREAM] for error, _ in answered if error is DONE
        ]

    monkeypatch.setattr(offset_seeding, "_ask", lambda upstream, group_id: found())
    played(scenario)


def test_who_waits_for_the_upstream_when_the_journal_is_lost_hears_of_no_group_without_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        failures = [desk.writer.lose]

        def ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
            if failures:
                failures.pop()()
                desk.writer.load()
            return found()

        monkeypatch.setattr(offset_seeding, "_ask", ask)
        guest = Guest(coordination)

        answered = await answers(desk, guest, fetch(guest, ["payments"]))

        assert answered["payments"] in [(LOADING, []), (DONE, [UPSTREAM])]

    played(scenario)


def test_the_coordinator_is_not_asked_for_a_group_whose_journal_was_lost_while_it_was_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        def ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
            desk.writer.lose()
            return found()

        monkeypatch.setattr(offset_seeding, "_ask", ask)
        guest = Guest(coordination)

        assert await answers(desk, guest, fetch(guest, ["payments"])) == {"payments": (LOADING, [])}
        assert not desk.runtime.connections, "when its turn came, the group might have been read"

    played(scenario)


def test_what_was_taken_over_and_lost_while_another_group_was_waited_for_is_taken_over_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        is_asked, may_answer = threading.Event(), threading.Event()

        def ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
            if group_id == "slow":
                is_asked.set()
                assert may_answer.wait(60)
            return found()

        monkeypatch.setattr(offset_seeding, "_ask", ask)
        guest = Guest(coordination)
        asked = fetch(guest, ["quick", "slow"])
        await asyncio.to_thread(is_asked.wait, 60)
        desk.writer.lose()
        await desk.turn()
        desk.writer.load()
        await desk.until_read()
        may_answer.set()

        assert await answers(desk, guest, asked) == {"quick": (DONE, [UPSTREAM]), "slow": (DONE, [UPSTREAM])}

    played(scenario)


def test_a_group_that_has_nothing_upstream_is_asked_for_once_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []

    def ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
        questions.append(group_id)
        return UpstreamOffsets(Commits(), has_members=False)

    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        assert await answers(desk, guest, fetch(guest, ["new", "newer"])) == {"new": (DONE, []), "newer": (DONE, [])}
        assert questions == ["new", "newer"]

    monkeypatch.setattr(offset_seeding, "_ask", ask)
    played(scenario)


class Hasty(Guest):
    """A guest whose next request begins within the previous answer, as one that the proxy has already received."""

    def __init__(self, coordination: LocalCoordination) -> None:
        super().__init__(coordination)
        self.second: SentRequest | None = None

    def answer(self, pieces: list[bytes]) -> None:
        super().answer(pieces)
        if self.second is None:
            self.second = fetch(self, ["payments"])


def test_a_client_that_goes_while_its_second_request_waits_is_waited_for_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(desk: Desk, coordination: LocalCoordination) -> None:
        may_answer = threading.Event()
        questions: list[str] = []

        def ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
            questions.append(group_id)
            if len(questions) > 1:
                assert may_answer.wait(60)
            raise ConnectionError("down")

        monkeypatch.setattr(offset_seeding, "_ask", ask)
        guest = Hasty(coordination)
        first = fetch(guest, ["payments"])
        assert await answers(desk, guest, first) == {"payments": (ErrorCode.coordinator_not_available, [])}
        await desk.turn()
        (waiting,) = coordination._seeding_tasks.values()

        guest.leave()
        await asyncio.gather(waiting, return_exceptions=True)
        may_answer.set()
        await desk.turn()

        assert waiting.cancelled()
        assert not coordination._seeding_tasks
        assert coordination._seeder is not None
        await coordination._seeder.end()

    played(scenario)
