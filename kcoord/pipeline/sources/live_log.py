"""Reads ranges of a live cluster's logs to their ends, whatever moves, restarts or disappears meanwhile.

| a fetch is answered with                | then                                                                       |
|-----------------------------------------|----------------------------------------------------------------------------|
| batches                                 | they are decoded, and the next fetch begins after them                     |
| nothing, before the end of the range    | there was no room; or there are no records left up to the last stable one  |
| another leader, a broker that starts, … | the leader is found again                                                  |
| OFFSET_OUT_OF_RANGE                     | reading goes on at the log's new start; what is gone is a gap, a row of    |
|                                         | `rejected`; an offset that the log does have is fetched again              |
| a topic that does not exist any more    | the rest of it is a gap                                                    |
| no broker at all                        | they are asked again                                                       |

The retry timeout is for one step: it begins anew whenever a fetch made progress.
"""

import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Refusal, TopicPartition
from kcoord.admin.retry import RETRIABLE
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.client.connect_errors import LoginFailed
from kcoord.errors import ErrorCode
from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.decoding.fetched import LogRange, RangeDecoder
from kcoord.pipeline.decoding.row_filter import Wanted

PATIENCE: Final = 120.0
_PATIENCE_FOR_TOPICS: Final = 15.0  # for topics that seem deleted; a starting broker knows of none for a moment
_PAUSE: Final = 0.5
_AT_ONCE: Final = 16
"""Partitions per fetch: each of them brings up to 4 MiB."""
GONE: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})
_SHORT: Final = ErrorCode.offset_not_available
_WAITED_FOR: Final = RETRIABLE | GONE | {ErrorCode.throttling_quota_exceeded, ErrorCode.offset_out_of_range}


class CannotRead(RuntimeError):
    """A partition that the cluster refuses to return."""


def read_ranges(
    connection: Connection, ranges: Sequence[LogRange], wanted: Wanted, *, patience: float = PATIENCE
) -> Iterator[Rows]:
    """Yields all wanted rows of these ranges, each of another partition; each range ends with its row of `scanned`.

    Raises CannotRead, ConnectionError.
    """
    reading = _Reading(ranges, wanted, patience)
    yield from reading.begin()
    with closing(open_patiently(connection, patience)) as fetching:
        while reading.waiting:
            try:
                yield from _round(fetching, reading)
            except LoginFailed:
                raise
            except ConnectionError:
                if not reading.pause():
                    raise


def open_patiently(connection: Connection, patience: float) -> LogFetcher:
    """Connects, and retries until the timeout. Raises ConnectionError, at once if the login fails."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return LogFetcher(connection)
        except LoginFailed:
            raise
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


class _Reading:
    """The ranges that are not read to their ends yet, and when the last progress was made."""

    def __init__(self, ranges: Sequence[LogRange], wanted: Wanted, patience: float) -> None:
        self.waiting = {TopicPartition(each.topic, each.partition): RangeDecoder(each, wanted) for each in ranges}
        assert len(self.waiting) == len(ranges), "two ranges of one partition"
        self._patience = patience
        self._moved_at = time.monotonic()

    def begin(self) -> Iterator[Rows]:
        """Reports logs that end before the offset they were read to: a new leader without all records has truncated
        them."""
        for tp, decoder in list(self.waiting.items()):
            if decoder.range.start > decoder.range.end:
                gone = f"a gap: the offsets {decoder.range.end} to {decoder.range.start - 1}, once read, are gone"
                yield from decoder.pass_over(decoder.range.end, gone)
                yield from self.next_time(tp)

    def first(self) -> dict[TopicPartition, int]:
        return {tp: decoder.place for tp, decoder in islice(self.waiting.items(), _AT_ONCE)}

    def moved(self) -> None:
        self._moved_at = time.monotonic()

    def next_time(self, tp: TopicPartition) -> Iterator[Rows]:
        """Moves the range to the end of the queue, or finishes it if it is done."""
        decoder = self.waiting.pop(tp)
        if decoder.is_done:
            yield from decoder.scanned()
        else:
            self.waiting[tp] = decoder

    def pause(self, stuck: Collection[Refusal] = ()) -> bool:
        """Waits a moment and returns True, or returns False if the retry timeout has passed."""
        is_gone = bool(stuck) and all(refusal.error in GONE for refusal in stuck)
        patience = min(self._patience, _PATIENCE_FOR_TOPICS) if is_gone else self._patience
        if time.monotonic() > self._moved_at + patience:
            return False
        time.sleep(_PAUSE)
        return True


def _round(fetching: LogFetcher, reading: _Reading) -> Iterator[Rows]:
    asked = reading.first()
    told = fetching.fetch_once(asked)
    stuck: dict[TopicPartition, Refusal] = {}
    for tp, fetched in told.found.items():
        decoder = reading.waiting[tp]
        yield from decoder.take(fetched)
        if decoder.place > asked[tp]:
            reading.moved()
            yield from reading.next_time(tp)
        elif not fetched.is_crowded:
            stuck[tp] = Refusal(what=str(tp), error=_SHORT, message=f"the log ends at {fetched.stable_end} now")
    for tp, refused in told.refused.items():
        refusal: Refusal | None = refused
        if refused.error is ErrorCode.offset_out_of_range:
            refusal = yield from _find_again(fetching, reading, tp, refused)
        if refusal is None:
            continue
        if refusal.error not in _WAITED_FOR:
            raise CannotRead(str(refusal))
        stuck[tp] = refusal
    if len(stuck) == len(asked) and not reading.pause(stuck.values()):
        yield from _give_up(reading, stuck)
    else:
        for tp in stuck:
            yield from reading.next_time(tp)


def _find_again(
    fetching: LogFetcher, reading: _Reading, tp: TopicPartition, refusal: Refusal
) -> Generator[Rows, None, Refusal | None]:
    """Handles OFFSET_OUT_OF_RANGE: the offset is before the start of the log, or after its end. If it is neither, a
    new leader may not know the log yet: then the refusal is returned, to be retried."""
    decoder = reading.waiting[tp]
    answers = fetching.logs.bounds([tp])
    bounds = answers.found.get(tp)
    if bounds is None:
        return answers.refused[0]
    if bounds.start > decoder.place:
        last = min(bounds.start, decoder.range.end) - 1
        yield from decoder.pass_over(bounds.start, f"a gap: the offsets {decoder.place} to {last} are gone")
    elif bounds.end < decoder.place:
        yield from decoder.pass_over(decoder.range.end, _rest(decoder, f"the log ends at {bounds.end} now"))
    else:
        return refusal
    reading.moved()
    yield from reading.next_time(tp)
    return None


def _give_up(reading: _Reading, stuck: dict[TopicPartition, Refusal]) -> Iterator[Rows]:
    """Reports deleted topics and truncated logs as gaps; everything else ends the job."""
    for tp, refusal in stuck.items():
        decoder = reading.waiting[tp]
        is_told = refusal.error is _SHORT or (refusal.error in GONE and not decoder.range.holds_offsets)
        if not is_told:
            raise CannotRead(str(refusal))
        reason = refusal.message or "the topic is not there any more"
        yield from decoder.pass_over(decoder.range.end, _rest(decoder, reason))
        yield from reading.next_time(tp)


def _rest(decoder: RangeDecoder, reason: str) -> str:
    return f"a gap: the offsets {decoder.place} to {decoder.range.end - 1} are gone: {reason}"
