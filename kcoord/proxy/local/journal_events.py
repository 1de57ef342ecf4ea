"""Applies the reports of the journal's writer to groups and held answers.

| report    | groups                                                 | held answers                            |
|-----------|--------------------------------------------------------|-----------------------------------------|
| Loaded    | are read, and then served                              | there are none                          |
| Committed | –                                                      | are sent, if their round is committed   |
| Lost      | are unloaded; parked requests are refused              | their requests are retried, and refused |
| Fenced    | are another proxy's: none is coordinated here any more | as for Lost                             |
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, assert_never

from kcoord.broker.cluster import NodeId
from kcoord.proxy.local.held_responses import HeldResponses
from kcoord.proxy.local.kafka_log import KafkaLog
from kcoord.proxy.local.kafka_writer import Committed, Fenced, Loaded, Lost, Report, Round
from kcoord.server.clock import instant

if TYPE_CHECKING:
    from kcoord.proxy.local.runtime import LocalRuntime

log = logging.getLogger("kcoord.storage")


class JournalWriter(Protocol):
    """The thread that writes the journal (the topic with groups' records on the upstream cluster), as the event loop
    sees it: a KafkaWriter. No call blocks except `stop`.
    """

    def start(self) -> None:
        """Starts the thread, which claims the journal (the topic with groups' records) and reads it."""

    def submit(self, round_: Round) -> None:
        """Has a round (all records of one flush) committed in a transaction; Committed or Lost is reported later."""

    def reload(self, epoch: int) -> None:
        """Has the journal (the topic with groups' records) read again, unless it was read after the load of this
        number; Lost, then Loaded are reported.
        """

    def stop(self) -> None:
        """Waits until submitted rounds are committed, then ends the thread."""


class JournalEvents:
    """The event loop's side of a journal on the upstream cluster (the topic with groups' records, of so many
    `partitions`): it applies the writer thread's reports to groups and held responses.

    `make_writer` gets the function that takes the writer's reports.
    """

    def __init__(
        self, topic: str, partitions: int, make_writer: Callable[[Callable[[Report], None]], JournalWriter]
    ) -> None:
        self.is_fenced = False
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._writer = make_writer(self._report)
        # `make_log` sets the real node id.
        self.log = KafkaLog(NodeId(1), partitions, self._writer.submit, self._writer.reload)
        self.held_responses = HeldResponses(self.log)
        self._runtime: LocalRuntime | None = None

    def make_log(self, node_id: NodeId) -> KafkaLog:
        """Returns the journal as the group runtime uses it; this node coordinates all groups."""
        self.log.leaders = [node_id] * len(self.log.leaders)
        return self.log

    def begin(self, runtime: "LocalRuntime") -> None:
        """Starts the journal's writer thread; `runtime` must have been made with `make_log`."""
        self._runtime = runtime
        self._writer.start()

    async def end(self) -> None:
        """Waits until the journal's writer thread has stopped."""
        await asyncio.to_thread(self._writer.stop)

    def _report(self, report: Report) -> None:
        """Passes a report from the writer's thread to the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_report, report)

    def _on_report(self, report: Report) -> None:
        assert self._runtime is not None
        match report:
            case Loaded():
                self.log.on_loaded(report)
                log.info("journal read topic=%s keys=%s", self._topic, sum(map(len, report.partitions)))
                self._runtime.coordinator.on_journal_ready()
                self._runtime.read_groups()
            case Committed():
                self.log.on_committed(report.number, self._runtime.coordinator.counts)
                self.held_responses.on_committed()
            case Lost():
                log.error("journal lost topic=%s: groups are read again why=%r", self._topic, report.why)
                self._drop_undecided()
                self._runtime.coordinator.on_flush_lost(report.why, instant())
                self._retry_held()
            case Fenced():
                self.is_fenced = True
                log.error(
                    "fenced: another proxy writes the journal topic=%s, and groups are no longer coordinated here; "
                    "records are still forwarded. A restart takes the groups back why=%r",
                    self._topic,
                    report.why,
                )
                self._drop_undecided()
                self._runtime.coordinator.resign(instant())
                self._retry_held()
            case _:
                assert_never(report)

    def _drop_undecided(self) -> None:
        """Drops what waits for the next flush, and closes connections with unsent answers that depend on it."""
        assert self._runtime is not None
        self.log.on_lost()
        self._runtime.close_unsent()

    def _retry_held(self) -> None:
        assert self._runtime is not None
        self.held_responses.on_lost()
        self._runtime.drain_parked()
