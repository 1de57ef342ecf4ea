"""Topics that are deleted or recreated upstream: which offsets are deleted, even if the journal is lost meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from uuid import UUID

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.api_keys import ApiKey
from kcoord.groups.records import OffsetsStored
from kcoord.proxy.local import topic_refresher
from kcoord.proxy.local.topic_refresher import TopicRefresher
from kcoord.proxy.local.upstream_topics import KnownTopic
from kcoord.server.clock import instant, now_ms
from tests.proxy.local.desk import Desk
from tests.support.guest import Guest, commit_fields, offsets_of

FIRST, SECOND = UUID(int=1), UUID(int=2)
Offsets = dict[tuple[str, int], tuple[int, int, str]]


class Upstream:
    """An upstream whose topics the test sets."""

    def __init__(self, desk: Desk) -> None:
        self.topics = {"orders": KnownTopic(FIRST, 3)}
        upstream = Connection(bootstrap=("nowhere:1",))
        self._refreshing = TopicRefresher(upstream, desk.topics, desk.runtime.coordinator, desk.runtime.drain_parked)

    async def is_listed(self, *, times: int = 1) -> None:
        for _ in range(times):
            await self._refreshing._refresh()


def played(scenario: Callable[[Desk, Upstream], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    def gone_of(_: object, names: Collection[str], listed: Collection[str]) -> list[str]:
        return list(names)

    async def play() -> None:
        async with Desk() as desk:
            upstream = Upstream(desk)
            monkeypatch.setattr(topic_refresher, "_list_topics", lambda _: dict(upstream.topics))
            monkeypatch.setattr(topic_refresher, "_deleted_topics", gone_of)
            await upstream.is_listed()
            await scenario(desk, upstream)

    asyncio.run(play())


async def commit(desk: Desk, group: str, offset: int) -> None:
    guest = Guest(desk)
    asked = guest.begin(ApiKey.OFFSET_COMMIT, 8, **commit_fields(group, "orders", {0: offset}))
    while not asked.answered.done():
        await desk.turn()
        desk.writer.commit_all()


async def committed(desk: Desk, group: str) -> Offsets:
    reading = asyncio.ensure_future(offsets_of(Guest(desk), group))
    while not reading.done():
        await desk.turn()
        desk.writer.commit_all()
    return await reading


def test_what_was_committed_for_a_topic_that_was_made_anew_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(desk: Desk, upstream: Upstream) -> None:
        an_hour_ago = OffsetsStored("before", "orders", [0], [17], [5], [""], now_ms() - 3_600_000, None, FIRST)
        desk.runtime.coordinator.import_offsets([an_hour_ago], instant())
        upstream.topics = {"orders": KnownTopic(SECOND, 3)}  # not listed yet
        await commit(desk, "after", 500)

        await upstream.is_listed(times=3)

        assert await committed(desk, "before") == {}
        assert await committed(desk, "after") == {("orders", 0): (500, 5, "")}
        desk.writer.lose()
        desk.writer.load()
        await desk.until_read()
        await upstream.is_listed(times=3)
        assert await committed(desk, "after") == {("orders", 0): (500, 5, "")}, "it is the new topic's for good"

    played(scenario, monkeypatch)


def test_offsets_of_a_deleted_topic_go_though_their_deletion_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(desk: Desk, upstream: Upstream) -> None:
        await commit(desk, "payments", 17)
        upstream.topics = {}
        await upstream.is_listed(times=2)
        desk.writer.lose()
        await desk.turn()
        desk.writer.load()
        await desk.until_read()
        assert await committed(desk, "payments") == {("orders", 0): (17, 5, "")}

        await upstream.is_listed(times=2)

        assert await committed(desk, "payments") == {}

    played(scenario, monkeypatch)
