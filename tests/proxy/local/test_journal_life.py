"""Random lives of a journal that commits, loses rounds, commits without an answer, and is loaded again.

Clients commit meanwhile, and the coordinator has bugs. Acknowledged commits must be there, refused ones may be there,
and every request is answered once.
"""

import asyncio
import random
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.server import cluster_runtime, maintenance
from tests.proxy.local.desk import Desk
from tests.support.guest import Guest, HungUp, SentRequest, commit_errors, offsets_of

CLIENTS = 5
STEPS = 400
LARGE = "x" * 4000  # a request with three of them is decided as soon as it arrives


class Committer:
    """Commits one offset after the other for one group, and records the outcomes."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.group = name
        self.acknowledged = 0
        self.tried = 0
        self._desk = desk
        self._guest = Guest(desk)
        self._asked: SentRequest | None = None

    @property
    def is_waiting(self) -> bool:
        return self._asked is not None

    def commit(self, *, text: str) -> None:
        self.tried += 1
        lines = [
            {
                "partition_index": index,
                "committed_offset": self.tried,
                "committed_leader_epoch": -1,
                "committed_metadata": text,
            }
            for index in range(3)
        ]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "orders", "partitions": lines}],
        }
        self._asked = self._guest.begin(ApiKey.OFFSET_COMMIT, 8, **fields)

    async def receive(self) -> None:
        """Records the answer, if there is one."""
        if self._asked is None or not self._asked.answered.done():
            return
        asked, self._asked = self._asked, None
        try:
            errors = commit_errors(await self._guest.reply_to(asked))
        except HungUp:
            self._guest = Guest(self._desk)
            return
        if errors == {ErrorCode.none}:
            self.acknowledged = self.tried
        else:
            assert errors == {ErrorCode.coordinator_load_in_progress}

    async def check(self) -> None:
        found = {offset for offset, *_ in (await offsets_of(Guest(self._desk), self.group)).values()}
        assert len(found) <= 1, "a commit is there as a whole"
        assert self.acknowledged <= (found.pop() if found else 0) <= self.tried


class Life:
    def __init__(self, desk: Desk, seed: int) -> None:
        self.clients = [Committer(desk, f"group-{number}") for number in range(CLIENTS)]
        self._desk = desk
        self._chance = random.Random(seed)
        self._is_lost = False

    async def step(self) -> None:
        happenings = {"commit": 10, "turn": 8, "keep": 6, "lose": 1, "load": 2, "break": 1}
        match self._chance.choices(list(happenings), weights=list(happenings.values()))[0]:
            case "commit":
                self._commit()
            case "turn":
                await self._desk.turn()
            case "keep" if not self._is_lost:
                self._desk.writer.commit_all()
            case "lose" if not self._is_lost:
                self._chance.choice([self._desk.writer.lose, self._desk.writer.commit_without_answer])()
                self._is_lost = True
            case "load" if self._is_lost:
                self._desk.writer.load()
                self._is_lost = False
            case "break":
                self._desk.break_next_append()
        await self._receive_all()

    async def end(self) -> None:
        """Lets the upstream recover, until every client has an answer."""
        if self._is_lost:
            self._desk.writer.load()
        await self._desk.until_read()
        async with asyncio.timeout(60):
            while any(client.is_waiting for client in self.clients):
                await self._desk.turn()
                self._desk.writer.commit_all()
                await self._receive_all()

    def _commit(self) -> None:
        for client in self.clients:
            if not client.is_waiting and self._chance.random() < 0.5:
                client.commit(text=self._chance.choice(["", "", LARGE]))

    async def _receive_all(self) -> None:
        for client in self.clients:
            await client.receive()


@pytest.mark.parametrize("seed", range(12))
def test_what_was_acknowledged_is_there_whatever_happened(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_runtime, "IDLE_INTERVAL", 0.0)
    monkeypatch.setattr(maintenance, "IDLE_INTERVAL", 0.0)

    async def play() -> None:
        async with Desk() as desk:
            life = Life(desk, seed)
            for _ in range(STEPS):
                await life.step()
            await life.end()
            for client in life.clients:
                await client.check()
            assert sum(client.acknowledged for client in life.clients) > CLIENTS, "it was a life"

    asyncio.run(play())
