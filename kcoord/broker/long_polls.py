"""Parked Fetch requests: what each waits for, and until when.

Deadlines are data (D2): `deadline()` returns when to call `tick(now)`. Tickets are returned when they are due;
`fetching.finish` decides their replies.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass

from kcoord.tickets import Ticket


@dataclass(slots=True, kw_only=True)
class _Parked:
    ticket: Ticket
    watched: tuple[tuple[str, int], ...]
    missing_bytes: int


class LongPolls:
    """The parked Fetch requests of a cluster (long polls), each by its ticket, with the bytes it waits for and its
    deadline.
    """

    def __init__(self) -> None:
        self._parked: dict[Ticket, _Parked] = {}
        self._watchers: defaultdict[tuple[str, int], dict[Ticket, _Parked]] = defaultdict(dict)
        self._deadlines: list[tuple[float, Ticket]] = []
        self.ready: list[Ticket] = []  # Collected for `take_ready`.

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, ticket: Ticket, watched: tuple[tuple[str, int], ...], missing_bytes: int, deadline: float) -> None:
        """Parks a Fetch until `missing_bytes` more have been appended to the watched partitions (topic and number), or
        until the deadline, an instant of the monotonic clock.
        """
        parked = _Parked(ticket=ticket, watched=watched, missing_bytes=missing_bytes)
        self._parked[ticket] = parked
        for partition in watched:
            self._watchers[partition][ticket] = parked
        heapq.heappush(self._deadlines, (deadline, ticket))
        if len(self._deadlines) > 2 * len(self._parked) + 64:
            self._drop_stale_deadlines()

    def appended(self, topic: str, partition: int, size: int) -> None:
        """Counts `size` bytes that were appended to the partition; `take_ready` then returns the tickets that have
        enough.
        """
        watchers = self._watchers.get((topic, partition))
        if not watchers:
            return
        for parked in watchers.values():
            was_missing = parked.missing_bytes > 0
            parked.missing_bytes -= size
            if was_missing and parked.missing_bytes <= 0:
                self.ready.append(parked.ticket)

    def topic_deleted(self, topic: str, partition: int) -> None:
        """Makes the tickets that watch a partition of a deleted topic ready."""
        for parked in self._watchers.get((topic, partition), {}).values():
            if parked.missing_bytes > 0:
                parked.missing_bytes = 0
                self.ready.append(parked.ticket)

    def take_ready(self) -> list[Ticket]:
        """Removes and returns the tickets of the Fetch requests that have enough bytes to be answered."""
        ready, self.ready = self.ready, []
        return self._take(ready)

    def tick(self, now: float) -> list[Ticket]:
        """Removes and returns the tickets whose deadline has passed."""
        due = []
        while self._deadlines and self._deadlines[0][0] <= now:
            due.append(heapq.heappop(self._deadlines)[1])
        return self._take(due)

    def deadline(self) -> float | None:
        """Returns the earliest deadline, when `tick` is to be called; None if nothing is parked."""
        while self._deadlines and self._deadlines[0][1] not in self._parked:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def forget(self, ticket: Ticket) -> None:
        """Drops the parked Fetch of a client that hung up."""
        self._take([ticket])

    def _drop_stale_deadlines(self) -> None:
        """Drops the deadlines of tickets that were taken early: those far in the future must not pile up."""
        self._deadlines = [entry for entry in self._deadlines if entry[1] in self._parked]
        heapq.heapify(self._deadlines)

    def _take(self, tickets: list[Ticket]) -> list[Ticket]:
        taken = []
        for ticket in tickets:
            parked = self._parked.pop(ticket, None)
            if parked is None:
                continue
            for partition in parked.watched:
                watchers = self._watchers[partition]
                watchers.pop(ticket, None)
                if not watchers:
                    del self._watchers[partition]
            taken.append(ticket)
        return taken
