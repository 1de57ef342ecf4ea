"""Fetches that wait for records: who waits for what, and until when.

Deadlines are data (D2): `deadline()` says when to call `tick(now)`. Both give the tickets that are to be answered;
what the answers are is decided by `fetching.finish`.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import NewType

from kcoord.broker.fetching import Waiting

Ticket = NewType("Ticket", int)


@dataclass(slots=True, kw_only=True)
class _Parked:
    ticket: Ticket
    waiting: Waiting
    missing_bytes: int


class LongPolls:
    def __init__(self) -> None:
        self._parked: dict[Ticket, _Parked] = {}
        self._watchers: defaultdict[tuple[str, int], dict[Ticket, _Parked]] = defaultdict(dict)
        self._deadlines: list[tuple[float, Ticket]] = []
        self._ready: list[Ticket] = []

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, ticket: Ticket, waiting: Waiting, deadline: float) -> None:
        parked = _Parked(ticket=ticket, waiting=waiting, missing_bytes=waiting.missing_bytes)
        self._parked[ticket] = parked
        for watched in waiting.watched:
            self._watchers[watched][ticket] = parked
        heapq.heappush(self._deadlines, (deadline, ticket))
        if len(self._deadlines) > 2 * len(self._parked) + 64:
            self._drop_stale_deadlines()

    def appended(self, topic: str, partition: int, size: int) -> None:
        """So many bytes came to the partition; `take_ready` tells for whom that was enough."""
        watchers = self._watchers.get((topic, partition))
        if not watchers:
            return
        for parked in watchers.values():
            was_missing = parked.missing_bytes > 0
            parked.missing_bytes -= size
            if was_missing and parked.missing_bytes <= 0:
                self._ready.append(parked.ticket)

    def take_ready(self) -> list[tuple[Ticket, Waiting]]:
        """Those who wait no longer because enough has come."""
        ready, self._ready = self._ready, []
        return self._take(ready)

    def tick(self, now: float) -> list[tuple[Ticket, Waiting]]:
        """Those whose time is up."""
        due = []
        while self._deadlines and self._deadlines[0][0] <= now:
            due.append(heapq.heappop(self._deadlines)[1])
        return self._take(due)

    def deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] not in self._parked:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def forget(self, ticket: Ticket) -> None:
        """The client hung up."""
        self._take([ticket])

    def _drop_stale_deadlines(self) -> None:
        """Those answered early left their deadlines behind; long ones must not pile up."""
        self._deadlines = [entry for entry in self._deadlines if entry[1] in self._parked]
        heapq.heapify(self._deadlines)

    def _take(self, tickets: list[Ticket]) -> list[tuple[Ticket, Waiting]]:
        taken = []
        for ticket in tickets:
            parked = self._parked.pop(ticket, None)
            if parked is None:
                continue
            for watched in parked.waiting.watched:
                watchers = self._watchers[watched]
                watchers.pop(ticket, None)
                if not watchers:
                    del self._watchers[watched]
            taken.append((ticket, parked.waiting))
        return taken
