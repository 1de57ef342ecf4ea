"""Local coordination with a manual journal: the test decides what the upstream commits, and when."""

import asyncio
import time
from collections.abc import Callable
from typing import Self
from uuid import UUID

from kcoord.proxy.forwarding.interceptors import ClientInfo, Decision, Handle, Request
from kcoord.proxy.local.client_link import ClientLink
from kcoord.proxy.local.journal_events import JournalEvents
from kcoord.proxy.local.kafka_reader import Contents
from kcoord.proxy.local.kafka_writer import Committed, Fenced, Loaded, Lost, Report, Round
from kcoord.proxy.local.runtime import LocalRuntime, RuntimeSetup
from kcoord.proxy.local.upstream_topics import MirroredTopics
from kcoord.settings import Settings

PARTITIONS = 4


class ManualWriter:
    """A journal writer with an in-memory topic, to which the test commits round by round."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self.rounds: list[Round] = []
        self.partitions: list[Contents] = [{} for _ in range(PARTITIONS)]
        self._report = report
        self._epoch = 0

    def start(self) -> None:
        self.load()

    def submit(self, round_: Round) -> None:
        self.rounds.append(round_)

    def stop(self) -> None: ...

    def load(self, *, proven_ago: float = 0.0) -> None:
        self._epoch += 1
        self._report(Loaded(self._epoch, [dict(each) for each in self.partitions], time.monotonic() - proven_ago))

    def reload(self, epoch: int) -> None:
        if epoch == self._epoch:
            self.commit_all()
            self.lose()
            self.load()

    def commit_all(self) -> None:
        """Commits and reports all submitted rounds."""
        rounds = self._written()
        if rounds:
            self._report(Committed(rounds[-1].number))

    def lose(self) -> None:
        self.rounds.clear()
        self._report(Lost("the upstream does not answer"))

    def commit_without_answer(self) -> None:
        """Commits all submitted rounds, but reports Lost: the answer to the commit never came."""
        self._written()
        self._report(Lost("the upstream does not answer"))

    def _written(self) -> list[Round]:
        """Writes the submitted rounds to the topic, except those of an earlier epoch, which a writer drops."""
        rounds, self.rounds = [each for each in self.rounds if each.epoch == self._epoch], []
        for partition, key, value in (entry for each in rounds for entry in each.entries):
            self.partitions[partition].pop(key, None)
            if value is not None:
                self.partitions[partition][key] = value
        return rounds

    def fence(self) -> None:
        self._report(Fenced("another has begun"))


class Desk:
    """A substitute for LocalCoordination, as far as a Guest needs it. `orders` is a topic of 3 partitions."""

    def __init__(self) -> None:
        self.topics = MirroredTopics()
        self.topics.on_topic("orders", UUID(int=1), 3)
        self.writer: ManualWriter
        self._links: dict[ClientInfo, ClientLink] = {}

    async def __aenter__(self) -> Self:
        self.journal_events = JournalEvents("journal", PARTITIONS, self._make_writer)
        settings = Settings(group_initial_rebalance_delay_ms=0)
        self.runtime = LocalRuntime(RuntimeSetup(settings=settings), self.topics, self.journal_events.make_log)
        await self.runtime.__aenter__()
        self.journal_events.begin(self.runtime)
        await self.until_read()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.journal_events.end()
        await self.runtime.__aexit__(None, None, None)

    async def until_read(self) -> None:
        await self.turn()
        while self.runtime.coordinator.is_loading:
            await self.turn()

    async def turn(self) -> None:
        """Lets the event loop run all callbacks that are due."""
        for _ in range(5):
            await asyncio.sleep(0)

    def break_next_append(self) -> None:
        """Makes the next append fail, as after a bug: the groups of its partition alone are then unloaded."""
        log = self.journal_events.log

        def fail(records: object, now_ms: int) -> None:
            del vars(log)["append"]
            raise ValueError("no record can hold it")

        vars(log)["append"] = fail

    def request(self, client: ClientInfo, request: Request) -> Decision:
        return Handle(lambda: self._ask(client, request))

    def on_closed(self, client: ClientInfo) -> None:
        if client in self._links:
            self._links[client].on_client_closed()

    def _ask(self, client: ClientInfo, request: Request) -> None:
        if client not in self._links:
            self._links[client] = ClientLink(
                client, self.runtime.connect(), self.journal_events.held_responses, self._forget
            )
        self._links[client].ask(request)

    def _forget(self, link: ClientLink) -> None:
        del self._links[link.client]

    def _make_writer(self, report: Callable[[Report], None]) -> ManualWriter:
        self.writer = ManualWriter(report)
        return self.writer
