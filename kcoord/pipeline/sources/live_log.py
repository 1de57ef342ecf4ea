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
from kcoord.admin.model import Refusal, Resource, TopicPartition
from kcoord.admin.retry import RETRIABLE
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.client.connect_errors import LoginFailed
from kcoord.errors import ErrorCode
from kcoord.exceptions import RemoteFailure
from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.decoding.fetched import LogRange, RangeDecoder
from kcoord.pipeline.decoding.row_filter import RowSelection

RETRY_TIMEOUT: Final = 120.0
_MISSING_TOPIC_TIMEOUT: Final = 15.0  # for topics that seem deleted; a starting broker knows of none for a moment
_BACKOFF: Final = 0.5
_PARTITIONS_PER_FETCH: Final = 16
"""Partitions per fetch: each of them brings up to 4 MiB."""
GONE: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})
_LOG_TRUNCATED: Final = ErrorCode.offset_not_available
_RETRIABLE: Final = RETRIABLE | GONE | {ErrorCode.throttling_quota_exceeded, ErrorCode.offset_out_of_range}


class CannotRead(RemoteFailure, RuntimeError):
    """Raised when the cluster refuses to return a partition's log, for good or for too long."""


def read_ranges(
    connection: Connection, ranges: Sequence[LogRange], wanted: RowSelection, *, retry_timeout: float = RETRY_TIMEOUT
) -> Iterator[Rows]:
    """Fetches these ranges of offsets, each of another partition, from a live cluster, and yields the decoded rows of
    the tables. `wanted` selects groups and times; each range ends with its row of `scanned`. Raises CannotRead,
    ConnectionError."""
    reading = _ReadState(ranges, wanted, retry_timeout)
    yield from reading.begin()
    with closing(open_with_retries(connection, retry_timeout)) as fetching:
        while reading.pending:
            try:
                yield from _fetch_round(fetching, reading)
            except LoginFailed:
                raise
            except ConnectionError:
                if not reading.backoff():
                    raise


def open_with_retries(connection: Connection, retry_timeout: float) -> LogFetcher:
    """Connects to the cluster, and retries for `retry_timeout` seconds. Raises ConnectionError, at once if the login
    fails."""
    deadline = time.monotonic() + retry_timeout
    while True:
        try:
            return LogFetcher(connection)
        except LoginFailed:
            raise
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_BACKOFF)


class _ReadState:
    """The ranges that are not read to their ends yet, and when the last progress was made."""

    def __init__(self, ranges: Sequence[LogRange], wanted: RowSelection, retry_timeout: float) -> None:
        self.pending = {TopicPartition(each.topic, each.partition): RangeDecoder(each, wanted) for each in ranges}
        assert len(self.pending) == len(ranges), "two ranges of one partition"
        self._retry_timeout = retry_timeout
        self._progress_at = time.monotonic()

    def begin(self) -> Iterator[Rows]:
        """Reports logs that end before the offset they were read to: a new leader without all records has truncated
        them."""
        for tp, decoder in list(self.pending.items()):
            if decoder.range.start > decoder.range.end:
                gone = f"a gap: the offsets {decoder.range.end} to {decoder.range.start - 1}, once read, are gone"
                yield from decoder.skip_to(decoder.range.end, gone)
                yield from self.requeue(tp)

    def next_fetches(self) -> dict[TopicPartition, int]:
        return {tp: decoder.next_offset for tp, decoder in islice(self.pending.items(), _PARTITIONS_PER_FETCH)}

    def on_progress(self) -> None:
        self._progress_at = time.monotonic()

    def requeue(self, tp: TopicPartition) -> Iterator[Rows]:
        """Moves the range to the end of the queue, or finishes it if it is done."""
        decoder = self.pending.pop(tp)
        if decoder.is_done:
            yield from decoder.scanned()
        else:
            self.pending[tp] = decoder

    def backoff(self, stuck: Collection[Refusal] = ()) -> bool:
        """Waits a moment and returns True, or returns False if the retry timeout has passed."""
        is_gone = bool(stuck) and all(refusal.error in GONE for refusal in stuck)
        timeout = min(self._retry_timeout, _MISSING_TOPIC_TIMEOUT) if is_gone else self._retry_timeout
        if time.monotonic() > self._progress_at + timeout:
            return False
        time.sleep(_BACKOFF)
        return True


def _fetch_round(fetching: LogFetcher, reading: _ReadState) -> Iterator[Rows]:
    asked = reading.next_fetches()
    answers = fetching.fetch_once(asked)
    stuck: dict[TopicPartition, Refusal] = {}
    for tp, fetched in answers.found.items():
        decoder = reading.pending[tp]
        yield from decoder.decode(fetched)
        if decoder.next_offset > asked[tp]:
            reading.on_progress()
            yield from reading.requeue(tp)
        elif not fetched.is_crowded:
            ends = f"the log ends at {fetched.stable_end} now"
            stuck[tp] = Refusal(kind=Resource.PARTITION, name=tp, error=_LOG_TRUNCATED, message=ends)
    for tp, refused in answers.refused.items():
        refusal: Refusal | None = refused
        if refused.error is ErrorCode.offset_out_of_range:
            refusal = yield from _resolve_out_of_range(fetching, reading, tp, refused)
        if refusal is None:
            continue
        if refusal.error not in _RETRIABLE:
            raise CannotRead(str(refusal))
        stuck[tp] = refusal
    if len(stuck) == len(asked) and not reading.backoff(stuck.values()):
        yield from _give_up_stuck(reading, stuck)
    else:
        for tp in stuck:
            yield from reading.requeue(tp)


def _resolve_out_of_range(
    fetching: LogFetcher, reading: _ReadState, tp: TopicPartition, refusal: Refusal
) -> Generator[Rows, None, Refusal | None]:
    """Handles OFFSET_OUT_OF_RANGE: the offset is before the start of the log, or after its end. If it is neither, a
    new leader may not know the log yet: then the refusal is returned, to be retried."""
    decoder = reading.pending[tp]
    answers = fetching.logs.bounds([tp])
    bounds = answers.found.get(tp)
    if bounds is None:
        return answers.refused[0]
    if bounds.start > decoder.next_offset:
        last = min(bounds.start, decoder.range.end) - 1
        yield from decoder.skip_to(bounds.start, f"a gap: the offsets {decoder.next_offset} to {last} are gone")
    elif bounds.end < decoder.next_offset:
        yield from decoder.skip_to(decoder.range.end, _gap_reason(decoder, f"the log ends at {bounds.end} now"))
    else:
        return refusal
    reading.on_progress()
    yield from reading.requeue(tp)
    return None


def _give_up_stuck(reading: _ReadState, stuck: dict[TopicPartition, Refusal]) -> Iterator[Rows]:
    """Reports deleted topics and truncated logs as gaps; everything else ends the job."""
    for tp, refusal in stuck.items():
        decoder = reading.pending[tp]
        is_gap = refusal.error is _LOG_TRUNCATED or (refusal.error in GONE and not decoder.range.holds_offsets)
        if not is_gap:
            raise CannotRead(str(refusal))
        reason = refusal.message or "the topic is not there any more"
        yield from decoder.skip_to(decoder.range.end, _gap_reason(decoder, reason))
        yield from reading.requeue(tp)


def _gap_reason(decoder: RangeDecoder, reason: str) -> str:
    return f"a gap: the offsets {decoder.next_offset} to {decoder.range.end - 1} are gone: {reason}"
