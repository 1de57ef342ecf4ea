"""Periodic maintenance tasks of a running cluster."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING, Final, Protocol

from kcoord.broker.cluster import Cluster
from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import CloseReason
from kcoord.server.clock import now_ms
from kcoord.server.connection.connection import Connection
from kcoord.server.connection.draining import drain
from kcoord.server.preloading import in_slices

if TYPE_CHECKING:
    from kcoord.server.groups.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.server")

_LONGEST_NAP: Final = 30.0
REST: Final = 1.0
_LONGEST_STEP: Final = 0.01


class Household(Protocol):
    """The cluster that is maintained."""

    cluster: Cluster
    groups: "GroupRuntime | None"

    @property
    def connections(self) -> Set[Connection]: ...

    def now(self) -> Instant: ...

    def settle(self) -> None:
        """Answers all parked requests that can be answered by now."""


class Chores:
    """Runs the maintenance tasks. Each flush sets `is_busy`, and `has_slack`: that memory may have been freed."""

    def __init__(self, household: Household) -> None:
        self.is_busy = self.has_slack = False
        self._household = household
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: asyncio.Task[None] | None = None

    def begin(self) -> None:
        settings = self._household.cluster.settings
        chores: list[tuple[Callable[[], None], float]] = [
            (self._enforce_retention, settings.log_retention_check_interval_ms / 1000),
            (self._expire_offsets, settings.offsets_retention_check_interval_ms / 1000),
            (self._give_back_memory, REST),
            (self._warn_if_full, REST),
        ]
        self._tasks = [asyncio.create_task(_repeat(chore, every)) for chore, every in chores]
        self._tasks.append(
            asyncio.create_task(self._close_idle(min(settings.connections_max_idle_ms / 4000, _LONGEST_NAP)))
        )
        self._tasks.append(asyncio.create_task(self._compact()))

    def repeat(self, chore: Callable[[], None], every: float) -> None:
        """Runs a function every so many seconds."""
        self._tasks.append(asyncio.create_task(_repeat(chore, every)))

    def do(self, make_steps: Callable[[], Iterator[None]]) -> None:
        """Runs the steps once, with others served in between."""
        self._tasks.append(asyncio.create_task(in_slices(make_steps())))

    def read_groups(self, groups: "GroupRuntime", *, pause: float = 0.0) -> None:
        """Loads groups, with others served in between; after a pause if a disk has just failed."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_groups(groups, pause))

    async def _read_groups(self, groups: "GroupRuntime", pause: float) -> None:
        while groups.unread:
            await asyncio.sleep(pause)
            pause = REST  # if more is to be loaded already, a disk has failed again
            try:
                await self._read_what_is_due(groups)
            except Exception:
                log.exception("bug: groups are not read retry_in=%gs", pause)

    async def _read_what_is_due(self, groups: "GroupRuntime") -> None:
        until = time.monotonic() + _LONGEST_STEP
        for _ in groups.read(self._household.now):
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _LONGEST_STEP
        self._household.settle()

    async def _compact(self) -> None:
        settings = self._household.cluster.settings
        while True:
            await asyncio.sleep(settings.log_cleaner_backoff_ms / 1000)
            if self._household.groups is None:
                continue
            from kcoord.server.groups.compactor import compact_what_is_worth_it  # imported with the first group

            try:
                await compact_what_is_worth_it(self._household.cluster, self._household.groups)
            except Exception:
                log.exception("bug: compaction failed; it is tried again")

    async def end(self) -> None:
        tasks = [*self._tasks, *([self._reading] if self._reading else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close_idle(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await self.close_idle()
            except Exception:
                log.exception("bug: idle connections are not closed; it is tried again in %s s", every)

    async def close_idle(self) -> None:
        """Closes the connections that are idle for too long as of now, unless requests have arrived on them."""
        allowed_ms = self._household.cluster.settings.connections_max_idle_ms
        oldest_allowed = self._household.now().now - allowed_ms / 1000
        await drain()
        idle = [c for c in self._household.connections if c.last_active < oldest_allowed and c.ticket is None]
        for connection in idle:
            connection.close(f"idle for more than connections.max.idle.ms={allowed_ms}", closing=CloseReason.IDLE)

    def _give_back_memory(self) -> None:
        """Returns free memory to the system after a while without requests."""
        if self.has_slack and not self.is_busy:
            self.has_slack = False
            from kcoord.server.memory import give_back  # imported here, since ctypes takes its time

            give_back()
        self.is_busy = False

    def _warn_if_full(self) -> None:
        cluster = self._household.cluster
        refused, cluster.refused_as_full = cluster.refused_as_full, 0
        if refused:
            log.warning("full kcoord.log.bytes=%s: batches refused=%s", cluster.settings.kcoord_log_bytes, refused)

    def _enforce_retention(self) -> None:
        cluster = self._household.cluster
        for partition in cluster.partitions():
            before = partition.log.size
            try:
                deleted = partition.log.enforce_retention(now_ms())
            except OSError as error:
                log.warning("retention failed log=%s error=%r", partition.log.name, str(error))
                continue
            partition.log.expire_producers(now_ms(), cluster.settings.producer_id_expiration_ms)
            if deleted:
                self.has_slack = True
                cluster.freed(before - partition.log.size)
                log.info("retention topic=%s partition=%s segments=%s", partition.topic, partition.index, deleted)

    def _expire_offsets(self) -> None:
        if groups := self._household.groups:
            groups.expire_offsets(self._household.now())
            self._household.settle()


async def _repeat(chore: Callable[[], None], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        try:
            chore()
        except Exception:
            log.exception("bug: a chore failed; it is tried again in %s s", every)
