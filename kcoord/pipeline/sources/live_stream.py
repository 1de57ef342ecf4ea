"""Reads a live cluster as a stream: how far each log was read, and what is read next.

The checkpoint stores how far a stream has come, as JSON:

    {"cluster": "<id>", "asked": {…}, "logs": {"__consumer_offsets@<topic id>": {"0": 4711, …}, …}}

A log that is not in it is read from its beginning: that offset is looked up when the log is read, so nothing has to be
stored before the first offsets are. A topic that was deleted and recreated has another id, and is another log. Where a
log was truncated, the stream goes on at its new end.

An end that is in the checkpoint is a promise: the next micro-batch begins there. So what is planned up to an end is
read, or reported as a gap, or ends the query; nothing is skipped because a broker does not return it for now.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from kcoord.admin.cluster_client import Refused
from kcoord.admin.model import Answers, Topic, TopicPartition
from kcoord.admin.retry import RETRIABLE
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.client.connect_errors import LoginFailed
from kcoord.exceptions import InvalidInput, RemoteFailure
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.arrow_packing import pack_rows
from kcoord.pipeline.sources.live_log import GONE, CannotRead, open_with_retries, read_ranges
from kcoord.pipeline.sources.live_partitions import RangesPartition
from kcoord.pipeline.sources.live_plan import TopicSelection, find_starts, find_topics, pack_tasks, split_log
from kcoord.pipeline.sources.pickled_connection import PickledConnection
from kcoord.pipeline.sources.request_fingerprint import Fingerprint, check_fingerprint, fingerprint

RETRY_TIMEOUT: Final = 600.0
"""Seconds that all brokers may be away."""
_TOPICS_INTERVAL: Final = 30.0
"""Seconds after which the topics that groups commit to are looked up again."""
_BACKOFF: Final = 1.0

Value = TypeVar("Value")


class WrongCluster(InvalidInput, ValueError):
    """Raised when a stream is continued on another cluster than the one it began on."""


class TemporarilyRefused(RemoteFailure, ConnectionError):
    """Raised when brokers answer with an error that may pass, such as a missing leader; the stream asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """How far a stream has read a live cluster, as Spark stores it in the checkpoint: the next offset of each log, by
    `<topic>@<topic id>` and partition; and the cluster and the options that it began with."""

    cluster: str = ""
    asked: Fingerprint = field(default_factory=dict)
    logs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "StreamOffset":
        """Parses what `to_json` has returned."""
        logs = {
            log: {int(index): offset for index, offset in offsets.items()} for log, offsets in document["logs"].items()
        }
        return cls(cluster=document["cluster"], asked=document["asked"], logs=logs)

    def to_json(self) -> dict[str, Any]:
        """Returns the offset as JSON for Spark's checkpoint, with its keys in one order, since Spark compares it as
        text."""
        logs = {
            log: {str(index): offsets[index] for index in sorted(offsets)} for log, offsets in sorted(self.logs.items())
        }
        return {"cluster": self.cluster, "asked": dict(self.asked), "logs": logs}

    def advanced_to(self, cluster: str, ends: Mapping[str, Mapping[int, int]]) -> "StreamOffset":
        """Returns the offset advanced to these ends of logs; a log whose end is unknown now stays where it is. Raises
        WrongCluster."""
        if self.cluster and cluster != self.cluster:
            raise WrongCluster(
                f"the tables are of the cluster {self.cluster}, and this is {cluster}: name another folder"
            )
        logs = {log: {**self.logs.get(log, {}), **ends.get(log, {})} for log in {*self.logs, *ends}}
        return StreamOffset(cluster=cluster, asked=self.asked, logs=logs)


def log_name(topic: Topic) -> str:
    """Returns the name of a topic's log in the checkpoint: `<topic>@<topic id>`."""
    return f"{topic.name}@{topic.id or ''}"


def ranges_between(start: StreamOffset, end: StreamOffset) -> tuple[list[LogRange], dict[TopicPartition, int]]:
    """Returns the ranges of offsets to read from one stream offset to another; and the partitions that are new and read
    from the beginnings of their logs, with their ends."""
    ranges: list[LogRange] = []
    new: dict[TopicPartition, int] = {}
    for log, ends in end.logs.items():
        topic = log.rpartition("@")[0]
        for index, last in ends.items():
            first = start.logs.get(log, {}).get(index)
            if first is None:
                new[TopicPartition(topic, index)] = last
            elif first > last:
                ranges.append(LogRange(topic=topic, partition=index, start=first, end=last))
            else:
                ranges += split_log(TopicPartition(topic, index), first, last)
    return ranges, new


def ranges_of_new_logs(starts: Answers[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[LogRange]:
    """Returns the ranges of offsets of partitions that are new in a stream, from their first offsets to these ends.

    A topic that is gone is included, from the offset 0 on: its reader reports it as a gap. Raises TemporarilyRefused,
    CannotRead.
    """
    for refusal in starts.refused:
        if refusal.error in RETRIABLE:
            raise TemporarilyRefused(str(refusal))
    for refusal in starts.refused:
        if refusal.error not in GONE:
            raise CannotRead(str(refusal))
    return [each for tp, end in ends.items() for each in split_log(tp, starts.found.get(tp, 0), end)]


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's reader of a live cluster in a streaming query: it plans each micro-batch, and fetches and decodes it in
    the tasks. Spark makes one instance where it plans, and one for each task."""

    def __init__(self, connection: PickledConnection, wanted: RowSelection, choice: TopicSelection) -> None:
        self._connection = connection
        self._wanted = wanted
        self._choice = choice
        self._fingerprint = fingerprint(wanted, choice)
        self._fetching: LogFetcher | None = None
        self._topics: list[Topic] = []
        self._topics_found_at = 0.0
        self._final_ends: tuple[str, Mapping[str, Mapping[int, int]]] | None = None
        # The driver handles Ctrl-C, and ends this process when the batch is written.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset of a stream that has read nothing, for Spark's checkpoint."""
        return StreamOffset(asked=self._fingerprint).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns that each micro-batch reads all that is available."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Looks up the ends of the logs now, at which a stream that stops at the end ends."""
        self._final_ends = self._with_retries(self._ends)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offset at which the next micro-batch ends: the ends of the logs now. Spark calls it before each
        one."""
        reached = StreamOffset.from_json(start)
        check_fingerprint(reached.asked, self._fingerprint)
        cluster, ends = self._final_ends or self._with_retries(self._ends)
        return reached.advanced_to(cluster, ends).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangesPartition]:
        """Returns the ranges of offsets that each Spark task reads, for the micro-batch between two offsets of the
        stream."""
        reached = StreamOffset.from_json(end)
        check_fingerprint(reached.asked, self._fingerprint)  # a micro-batch that is read again has not been checked
        ranges, new = ranges_between(StreamOffset.from_json(start), reached)

        def from_starts(fetching: LogFetcher) -> list[LogRange]:
            return ranges_of_new_logs(find_starts(fetching, new, self._wanted), new)

        if new:
            ranges += self._with_retries(from_starts)
        return [RangesPartition(each) for each in pack_tasks(ranges)]

    def read(self, partition: RangesPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Fetches and decodes the ranges of one Spark task: yields packed rows, each of which holds many rows of one
        table as Arrow's bytes."""
        connection = self._connection.unpickle()
        yield from pack_rows(read_ranges(connection, partition.ranges, self._wanted, retry_timeout=RETRY_TIMEOUT))

    def stop(self) -> None:
        """Closes the connection to the cluster."""
        if self._fetching:
            self._fetching.close()

    def _ends(self, fetching: LogFetcher) -> tuple[str, Mapping[str, Mapping[int, int]]]:
        if time.monotonic() > self._topics_found_at + _TOPICS_INTERVAL or not self._topics:
            self._find_topics(fetching)
        found = fetching.stable_ends([tp for topic in self._topics for tp in topic.partitions]).found
        ends = {
            log_name(topic): {tp.partition: found[tp] for tp in topic.partitions if tp in found}
            for topic in self._topics
        }
        return fetching.cluster_id or "", ends

    def _find_topics(self, fetching: LogFetcher) -> None:
        try:
            self._topics, _ = find_topics(self._connection.unpickle(), fetching, self._choice)
        except Refused:  # coordinators may be starting; the topics found before are good for a while
            if not self._topics:
                raise
        self._topics_found_at = time.monotonic()

    def _with_retries(self, ask: Callable[[LogFetcher], Value]) -> Value:
        deadline = time.monotonic() + RETRY_TIMEOUT
        while True:
            try:
                self._fetching = self._fetching or open_with_retries(self._connection.unpickle(), RETRY_TIMEOUT)
                return ask(self._fetching)
            except LoginFailed:
                raise
            except ConnectionError:
                self.stop()
                self._fetching = None
                if time.monotonic() > deadline:
                    raise
            time.sleep(_BACKOFF)
