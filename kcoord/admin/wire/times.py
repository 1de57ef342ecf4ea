"""Reads records at positions from the logs: one fetch answers for every position in the batches that it returns."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.model import Answers, Position, Refusal, Resource, TopicPartition, by_topic
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.retry import Attempt, retry_until_resolved
from kcoord.admin.wire.apis import FETCH
from kcoord.admin.wire.logs import Logs, PartitionQuery, Partitions, Piggyback
from kcoord.admin.wire.record_times import FetchedRecord, FetchScan, mark_of, scan_fetched, time_of
from kcoord.errors import ErrorCode

# For one position a batch is enough: by default Java's producers make them of up to 16 KiB, others make larger ones.
# If there are few partitions, each has space for those at once; if there are many, a partition whose batch did not fit
# gets it at the next attempt. A batch of any size is returned if its partition is alone in the request.
ROOM_FOR_ONE: Final = 16 * 1024
MORE_ROOM: Final = 64 * 1024
AT_FIRST: Final = 2 * 1024 * 1024
ROOM_FOR_MANY: Final = 256 * 1024
RESPONSE_BYTES: Final = 8 * 1024 * 1024
WHAT: Final = "the times of its records"
RECORDS: Final = "its records"

Value = TypeVar("Value")
Time = int | None
_NO_TIMES: Final[Mapping[TopicPartition, FetchScan[Time]]] = {}


def piggyback_times(positions: Collection[Position], attempt: Attempt[TopicPartition, FetchScan[Time]]) -> Piggyback:
    """Returns queries that read the times of the records at these positions, to be sent along with the requests for the
    bounds of the logs. The positions most likely lie within the bounds."""
    open_offsets = _OpenOffsets(positions)
    of_times = _RecordReader(time_of, WHAT)
    return [
        _fetch_query(open_offsets, attempt, of_times, count, only=partitions)
        for partitions, count in open_offsets.batches()
    ]


def timestamps(
    logs: Logs,
    positions: Collection[Position],
    *,
    timeout: float,
    prefetched: Mapping[TopicPartition, FetchScan[Time]] = _NO_TIMES,
) -> Answers[Position, int]:
    """Reads the times of the records at these positions (Fetch), in ms since 1970; records without a time are
    left out."""
    read = _read(logs, positions, _RecordReader(time_of, WHAT), timeout=timeout, prefetched=prefetched)
    return Answers(found={key: at for key, at in read.found.items() if at is not None}, refused=read.refused)


def record_marks(logs: Logs, positions: Collection[Position], *, timeout: float) -> Answers[Position, RecordMark]:
    """Reads the marks (offset, time, checksum) of the records at these positions (Fetch)."""
    return _read(logs, positions, _RecordReader(mark_of, RECORDS), timeout=timeout, prefetched={})


class _RecordReader(NamedTuple, Generic[Value]):
    """How a value is read from a record, and how refusals name such values."""

    read: Callable[[FetchedRecord], Value]
    what: str


def _read(
    logs: Logs,
    positions: Collection[Position],
    reading: _RecordReader[Value],
    *,
    timeout: float,
    prefetched: Mapping[TopicPartition, FetchScan[Value]],
) -> Answers[Position, Value]:
    """Reads a value at each position. A partition for which a fetch together with others returns nothing is fetched
    alone in the end; if that returns nothing, it has no record.

    Positions that are not read before the timeout are refused: a log that returns a little each time is not read
    forever. What was prefetched is not requested again.
    """
    open_offsets = _OpenOffsets(positions)
    found: dict[Position, Value] = {}

    def take(tp: TopicPartition, scan: FetchScan[Value] | None, *, was_alone: bool) -> None:
        found.update({(tp, offset): value for offset, value in (scan.found if scan else {}).items()})
        open_offsets.advance(tp, scan, was_alone=was_alone)

    for tp, scan in prefetched.items():
        if tp in open_offsets.waiting:
            take(tp, scan, was_alone=False)
    refused: dict[Refusal, None] = {}
    deadline = time.monotonic() + timeout
    is_late = False
    while open_offsets.waiting and not is_late:
        for partitions, per_request in open_offsets.batches():
            left = max(0.0, deadline - time.monotonic())
            answers = _fetch(logs, open_offsets, partitions, reading, per_request=per_request, timeout=left)
            refused |= dict.fromkeys(answers.refused)
            for tp in partitions:
                take(tp, answers.found.get(tp), was_alone=per_request == 1)
        is_late = time.monotonic() > deadline
    for topic in by_topic(open_offsets.waiting):
        late = Refusal(kind=Resource.TOPIC, name=topic, error=ErrorCode.request_timed_out, message=reading.what)
        refused[late] = None
    return Answers(found=found, refused=tuple(refused))


class _OpenOffsets:
    """The offsets of each partition that are still open, and the offset that each partition is fetched from next."""

    def __init__(self, positions: Iterable[Position]) -> None:
        offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        for tp, offset in positions:
            offsets[tp].add(offset)
        self.waiting = {tp: sorted(wanted) for tp, wanted in offsets.items()}
        self.next_offsets = {tp: wanted[0] for tp, wanted in self.waiting.items()}
        self._first_room = min(MORE_ROOM, max(ROOM_FOR_ONE, AT_FIRST // max(1, len(self.waiting))))
        self._crowded: set[TopicPartition] = set()  # a fetch together with others returned nothing of them
        self._alone: set[TopicPartition] = set()

    def batches(self) -> list[tuple[Partitions, int]]:
        """Returns partitions, and how many of them fit into one request."""
        together = [tp for tp in self.waiting if tp not in self._alone]
        alone = [tp for tp in self.waiting if tp in self._alone]
        room = max(map(self.room, together), default=ROOM_FOR_ONE)
        return [
            (partitions, count) for partitions, count in ((together, RESPONSE_BYTES // room), (alone, 1)) if partitions
        ]

    def room(self, tp: TopicPartition) -> int:
        if len(self.waiting[tp]) > 1:
            return ROOM_FOR_MANY
        return MORE_ROOM if tp in self._crowded else self._first_room

    def advance(self, tp: TopicPartition, scan: FetchScan[Any] | None, *, was_alone: bool) -> None:
        """Advances behind the scanned batches. A partition that returned nothing gets more space, then a request of its
        own, then no more requests."""
        left = [offset for offset in self.waiting[tp] if scan and offset not in scan.found]
        has_moved = scan is not None and (bool(scan.found) or scan.end > self.next_offsets[tp])
        self._alone.discard(tp)
        if not left or scan is None or (was_alone and not has_moved):
            del self.waiting[tp], self.next_offsets[tp]
            return
        if not has_moved and self.room(tp) < MORE_ROOM:
            self._crowded.add(tp)
        elif not has_moved:
            self._alone.add(tp)
        self.waiting[tp] = left
        self.next_offsets[tp] = max(
            self.next_offsets[tp], left[0], scan.end
        )  # never backwards: that would be an endless loop


def _fetch(
    logs: Logs,
    open_offsets: _OpenOffsets,
    partitions: Partitions,
    reading: _RecordReader[Value],
    *,
    per_request: int,
    timeout: float,
) -> Answers[TopicPartition, FetchScan[Value]]:
    def ask(pending: Partitions, attempt: Attempt[TopicPartition, FetchScan[Value]]) -> None:
        logs.ask_leaders(pending, _fetch_query(open_offsets, attempt, reading, per_request))

    return retry_until_resolved(partitions, ask, timeout=timeout)


def _fetch_query(
    open_offsets: _OpenOffsets,
    attempt: Attempt[TopicPartition, FetchScan[Value]],
    reading: _RecordReader[Value],
    per_request: int,
    *,
    only: Partitions | None = None,
) -> PartitionQuery[FetchScan[Value]]:
    def fields(chunk: Partitions) -> Mapping[str, Any]:
        topics = [{"topic": name, "partitions": [one(tp) for tp in tps]} for name, tps in by_topic(chunk).items()]
        return {"min_bytes": 0, "max_bytes": RESPONSE_BYTES, "topics": topics}

    def one(tp: TopicPartition) -> Mapping[str, int]:
        return {
            "partition": tp.partition,
            "fetch_offset": open_offsets.next_offsets[tp],
            "partition_max_bytes": open_offsets.room(tp),
        }

    def read(response: Any, answered: Attempt[TopicPartition, FetchScan[Value]]) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                tp = TopicPartition(topic.topic, each.partition_index)
                if each.error_code is not ErrorCode.none:
                    answered.refuse(tp, Resource.TOPIC, tp.topic, each.error_code, reading.what)
                elif tp in open_offsets.waiting:
                    answered.found[tp] = scan_fetched(each.records, open_offsets.waiting[tp], reading.read)

    return PartitionQuery(attempt, FETCH, fields, read, per_request, None if only is None else set(only))
