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
from kcoord.proxy.local.held_responses import WaitingAnswers
from kcoord.proxy.local.kafka_log import KafkaLog
from kcoord.proxy.local.kafka_writer import Fenced, Kept, Loaded, Lost, Report, Round
from kcoord.server.clock import instant

if TYPE_CHECKING:
    from kcoord.proxy.local.runtime import LocalRuntime

log = logging.getLogger("kcoord.storage")


class Writer(Protocol):
    """What the coordinator's side needs of a KafkaWriter. No call blocks except `stop`."""

    def start(self) -> None: ...

    def submit(self, round_: Round) -> None:
        """Commits a round, and reports it later."""

    def reload(self, epoch: int) -> None:
        """Loads the journal again unless that epoch is outdated; reports Lost, then Loaded."""

    def stop(self) -> None: ...


class Journaling:
    """The coordinator's side of a journal on the upstream cluster, whose topic has `partitions` partitions.

    `make_writer` gets the function that takes the writer's reports.
    """

    def __init__(self, topic: str, partitions: int, make_writer: Callable[[Callable[[Report], None]], Writer]) -> None:
        self.is_fenced = False
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._writer = make_writer(self._tell)
        # `make_log` sets the real node id.
        self.log = KafkaLog(NodeId(1), partitions, self._writer.submit, self._writer.reload)
        self.answers = WaitingAnswers(self.log)
        self._runtime: LocalRuntime | None = None

    def make_log(self, node_id: NodeId) -> KafkaLog:
        self.log.leaders = [node_id] * len(self.log.leaders)
        return self.log

    def begin(self, runtime: "LocalRuntime") -> None:
        """Starts the writer; `runtime` must have been made with `make_log`."""
        self._runtime = runtime
        self._writer.start()

    async def end(self) -> None:
        await asyncio.to_thread(self._writer.stop)

    def _tell(self, report: Report) -> None:
        """Passes a report from the writer's thread to the event loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._heard, report)

    def _heard(self, report: Report) -> None:
        assert self._runtime is not None
        match report:
            case Loaded():
                self.log.was_loaded(report)
                log.info("journal read topic=%s keys=%s", self._topic, sum(map(len, report.partitions)))
                self._runtime.coordinator.journal_is_ready()
                self._runtime.read_groups()
            case Kept():
                self.log.was_kept(report.number, self._runtime.coordinator.counts)
                self.answers.kept()
            case Lost():
                log.error("journal lost topic=%s: groups are read again why=%r", self._topic, report.why)
                self._forget_undecided()
                self._runtime.coordinator.flush_was_lost(report.why, instant())
                self._refuse_waiting()
            case Fenced():
                self.is_fenced = True
                log.error(
                    "fenced: another proxy writes the journal topic=%s, and groups are no longer coordinated here; "
                    "records are still forwarded. A restart takes the groups back why=%r",
                    self._topic,
                    report.why,
                )
                self._forget_undecided()
                self._runtime.coordinator.stand_down(instant())
                self._refuse_waiting()
            case _:
                assert_never(report)

    def _forget_undecided(self) -> None:
        """Drops what waits for the next flush, and closes connections with unsent answers that depend on it."""
        assert self._runtime is not None
        self.log.was_lost()
        self._runtime.close_unsent()

    def _refuse_waiting(self) -> None:
        assert self._runtime is not None
        self.answers.lost()
        self._runtime.settle()
