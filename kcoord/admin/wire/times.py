"""Reads records at positions from the logs: one fetch answers for every position in the batches that it returns."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.model import Answers, Position, Refusal, TopicPartition, by_topic
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.retry import Round, settle
from kcoord.admin.wire.apis import FETCH
from kcoord.admin.wire.logs import Beside, Logs, Partitions, Wanted
from kcoord.admin.wire.record_times import FetchedRecord, Sweep, mark_of, sweep, time_of
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
_NO_TIMES: Final[Mapping[TopicPartition, Sweep[Time]]] = {}


def first_look(positions: Collection[Position], told: Round[TopicPartition, Sweep[Time]]) -> Beside:
    """Returns the queries to send along with the requests for bounds, for positions that most likely lie within
    them."""
    asking = _Asking(positions)
    of_times = _Reading(time_of, WHAT)
    return [_wanted(asking, told, of_times, count, only=partitions) for partitions, count in asking.turns()]


def timestamps(
    logs: Logs,
    positions: Collection[Position],
    *,
    patience: float,
    early: Mapping[TopicPartition, Sweep[Time]] = _NO_TIMES,
) -> Answers[Position, int]:
    """Reads the times of the records at these positions; records without a time are left out."""
    read = _read(logs, positions, _Reading(time_of, WHAT), patience=patience, early=early)
    return Answers(found={key: at for key, at in read.found.items() if at is not None}, refused=read.refused)


def record_marks(logs: Logs, positions: Collection[Position], *, patience: float) -> Answers[Position, RecordMark]:
    return _read(logs, positions, _Reading(mark_of, RECORDS), patience=patience, early={})


class _Reading(NamedTuple, Generic[Value]):
    """How a value is read from a record, and how refusals name such values."""

    read: Callable[[FetchedRecord], Value]
    what: str


def _read(
    logs: Logs,
    positions: Collection[Position],
    reading: _Reading[Value],
    *,
    patience: float,
    early: Mapping[TopicPartition, Sweep[Value]],
) -> Answers[Position, Value]:
    """Reads a value at each position. A partition for which a fetch together with others returns nothing is fetched
    alone in the end; if that returns nothing, it has no record.

    Positions that are not read before the timeout are refused: a log that returns a little each time is not read
    forever. What was prefetched is not requested again.
    """
    asking = _Asking(positions)
    found: dict[Position, Value] = {}

    def take(tp: TopicPartition, told: Sweep[Value] | None, *, was_alone: bool) -> None:
        found.update({(tp, offset): value for offset, value in (told.found if told else {}).items()})
        asking.go_on(tp, told, was_alone=was_alone)

    for tp, told in early.items():
        if tp in asking.waiting:
            take(tp, told, was_alone=False)
    refused: dict[Refusal, None] = {}
    deadline = time.monotonic() + patience
    is_late = False
    while asking.waiting and not is_late:
        for partitions, per_request in asking.turns():
            left = max(0.0, deadline - time.monotonic())
            answers = _fetch(logs, asking, partitions, reading, per_request=per_request, patience=left)
            refused |= dict.fromkeys(answers.refused)
            for tp in partitions:
                take(tp, answers.found.get(tp), was_alone=per_request == 1)
        is_late = time.monotonic() > deadline
    for topic in by_topic(asking.waiting):
        late = Refusal(what=f"topic {topic}", error=ErrorCode.request_timed_out, message=reading.what)
        refused[late] = None
    return Answers(found=found, refused=tuple(refused))


class _Asking:
    """The offsets of each partition that are still open, and the offset that each partition is fetched from next."""

    def __init__(self, positions: Iterable[Position]) -> None:
        offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        for tp, offset in positions:
            offsets[tp].add(offset)
        self.waiting = {tp: sorted(own) for tp, own in offsets.items()}
        self.places = {tp: own[0] for tp, own in self.waiting.items()}
        self._first_room = min(MORE_ROOM, max(ROOM_FOR_ONE, AT_FIRST // max(1, len(self.waiting))))
        self._crowded: set[TopicPartition] = set()  # a fetch together with others returned nothing of them
        self._alone: set[TopicPartition] = set()

    def turns(self) -> list[tuple[Partitions, int]]:
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

    def go_on(self, tp: TopicPartition, told: Sweep[Any] | None, *, was_alone: bool) -> None:
        """Advances behind the scanned batches. A partition that returned nothing gets more space, then a request of its
        own, then no more requests."""
        left = [offset for offset in self.waiting[tp] if told and offset not in told.found]
        has_moved = told is not None and (bool(told.found) or told.end > self.places[tp])
        self._alone.discard(tp)
        if not left or told is None or (was_alone and not has_moved):
            del self.waiting[tp], self.places[tp]
            return
        if not has_moved and self.room(tp) < MORE_ROOM:
            self._crowded.add(tp)
        elif not has_moved:
            self._alone.add(tp)
        self.waiting[tp] = left
        self.places[tp] = max(self.places[tp], left[0], told.end)  # never backwards: that would be an endless loop


def _fetch(
    logs: Logs, asking: _Asking, partitions: Partitions, reading: _Reading[Value], *, per_request: int, patience: float
) -> Answers[TopicPartition, Sweep[Value]]:
    def ask(pending: Partitions, told: Round[TopicPartition, Sweep[Value]]) -> None:
        logs.ask_leaders(pending, _wanted(asking, told, reading, per_request))

    return settle(partitions, ask, patience=patience)


def _wanted(
    asking: _Asking,
    told: Round[TopicPartition, Sweep[Value]],
    reading: _Reading[Value],
    per_request: int,
    *,
    only: Partitions | None = None,
) -> Wanted[Sweep[Value]]:
    def fields(chunk: Partitions) -> Mapping[str, Any]:
        topics = [{"topic": name, "partitions": [one(tp) for tp in own]} for name, own in by_topic(chunk).items()]
        return {"min_bytes": 0, "max_bytes": RESPONSE_BYTES, "topics": topics}

    def one(tp: TopicPartition) -> Mapping[str, int]:
        return {
            "partition": tp.partition,
            "fetch_offset": asking.places[tp],
            "partition_max_bytes": asking.room(tp),
        }

    def read(response: Any, answered: Round[TopicPartition, Sweep[Value]]) -> None:
        for topic in response.responses:
            for each in topic.partitions:
                tp = TopicPartition(topic.topic, each.partition_index)
                if each.error_code is not ErrorCode.none:
                    answered.refuse(tp, f"topic {tp.topic}", each.error_code, reading.what)
                elif tp in asking.waiting:
                    answered.found[tp] = sweep(each.records, asking.waiting[tp], reading.read)

    return Wanted(told, FETCH, fields, read, per_request, None if only is None else set(only))
