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
from kcoord.server.preloading import run_in_slices

if TYPE_CHECKING:
    from kcoord.server.groups.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.server")

_MAX_IDLE_CHECK_INTERVAL: Final = 30.0
IDLE_INTERVAL: Final = 1.0
_MAX_STEP_SECONDS: Final = 0.01


class MaintenanceTarget(Protocol):
    """The runtime whose cluster is maintained."""

    cluster: Cluster
    groups: "GroupRuntime | None"

    @property
    def connections(self) -> Set[Connection]:
        """The open connections of clients."""

    def now(self) -> Instant:
        """Returns the current time."""

    def drain_parked(self) -> None:
        """Answers all parked requests (joins, syncs, fetches that wait) that can be answered by now."""


class Maintenance:
    """Runs a cluster's periodic tasks: retention, expiry of offsets, compaction, closing of idle connections, loading
    of groups. Each flush sets `is_busy`, and `has_slack`: that memory may have been freed.
    """

    def __init__(self, target: MaintenanceTarget) -> None:
        self.is_busy = self.has_slack = False
        self._target = target
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic tasks."""
        settings = self._target.cluster.settings
        jobs: list[tuple[Callable[[], None], float]] = [
            (self._enforce_retention, settings.log_retention_check_interval_ms / 1000),
            (self._expire_offsets, settings.offsets_retention_check_interval_ms / 1000),
            (self._trim_memory, IDLE_INTERVAL),
            (self._warn_if_full, IDLE_INTERVAL),
        ]
        self._tasks = [asyncio.create_task(_repeat(job, every)) for job, every in jobs]
        self._tasks.append(
            asyncio.create_task(
                self._close_idle(min(settings.connections_max_idle_ms / 4000, _MAX_IDLE_CHECK_INTERVAL))
            )
        )
        self._tasks.append(asyncio.create_task(self._compact()))

    def repeat(self, job: Callable[[], None], every: float) -> None:
        """Calls a function every so many seconds until `stop`."""
        self._tasks.append(asyncio.create_task(_repeat(job, every)))

    def run_once(self, make_steps: Callable[[], Iterator[None]]) -> None:
        """Runs the steps of a generator once in the background, with requests served in between."""
        self._tasks.append(asyncio.create_task(run_in_slices(make_steps())))

    def load_groups(self, groups: "GroupRuntime", *, pause: float = 0.0) -> None:
        """Loads groups in the background, with requests served in between; after a pause in seconds if a disk has just
        failed.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._load_groups(groups, pause))

    async def _load_groups(self, groups: "GroupRuntime", pause: float) -> None:
        while groups.to_load:
            await asyncio.sleep(pause)
            pause = IDLE_INTERVAL  # if more is to be loaded already, a disk has failed again
            try:
                await self._load_due_groups(groups)
            except Exception:
                log.exception("bug: groups are not read retry_in=%gs", pause)

    async def _load_due_groups(self, groups: "GroupRuntime") -> None:
        until = time.monotonic() + _MAX_STEP_SECONDS
        for _ in groups.load(self._target.now):
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _MAX_STEP_SECONDS
        self._target.drain_parked()

    async def _compact(self) -> None:
        settings = self._target.cluster.settings
        while True:
            await asyncio.sleep(settings.log_cleaner_backoff_ms / 1000)
            if self._target.groups is None:
                continue
            from kcoord.server.groups.compactor import compact_worthwhile_partitions  # imported with the first group

            try:
                await compact_worthwhile_partitions(self._target.cluster, self._target.groups)
            except Exception:
                log.exception("bug: compaction failed; it is tried again")

    async def stop(self) -> None:
        """Cancels all tasks and waits for their end."""
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
        """Closes the connections that have been idle for longer than connections.max.idle.ms, unless requests have
        arrived on them.
        """
        allowed_ms = self._target.cluster.settings.connections_max_idle_ms
        oldest_allowed = self._target.now().now - allowed_ms / 1000
        await drain()
        idle = [c for c in self._target.connections if c.last_active < oldest_allowed and c.ticket is None]
        for connection in idle:
            connection.close(f"idle for more than connections.max.idle.ms={allowed_ms}", closing=CloseReason.IDLE)

    def _trim_memory(self) -> None:
        """Returns free memory to the system after a while without requests."""
        if self.has_slack and not self.is_busy:
            self.has_slack = False
            from kcoord.server.memory import trim  # imported here, since ctypes takes its time

            trim()
        self.is_busy = False

    def _warn_if_full(self) -> None:
        cluster = self._target.cluster
        refused, cluster.refused_as_full = cluster.refused_as_full, 0
        if refused:
            log.warning("full kcoord.log.bytes=%s: batches refused=%s", cluster.settings.kcoord_log_bytes, refused)

    def _enforce_retention(self) -> None:
        cluster = self._target.cluster
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
        if groups := self._target.groups:
            groups.expire_offsets(self._target.now())
            self._target.drain_parked()


async def _repeat(job: Callable[[], None], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        try:
            job()
        except Exception:
            log.exception("bug: a chore failed; it is tried again in %s s", every)
