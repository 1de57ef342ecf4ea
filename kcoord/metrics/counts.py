"""Counters as plain numbers, as cheap as possible: the hot path adds to them.

Theory of operation. A heartbeat takes some 6 µs, which leaves room for one or two additions, not for a clock reading
and a binary search. But members repeat requests and get the very same reply (server/fast_path): what to add for
that reply is computed once and cached, as a Tally. And all answers of one event-loop round are sent together
(server/connection/event_round.py), once their records are flushed. They all took from the start of the round until
then, so one clock reading and one bucket search serve all of them.

    decide, decide, decide …  tally.fresh += 1     ─►  the round's answers are sent  ─►  each tally is added up, once
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from kcoord.protocol.frames import LENGTH_BYTES

BUCKETS: Final = (
    *(0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0),
    *(10.0, 30.0),
)
"""Upper bounds in seconds: from a heartbeat on an idle machine to a request whose client has long timed out."""


class Histogram:
    """A histogram of durations in seconds, with the fixed buckets BUCKETS."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)  # per bucket, not cumulative; the last one is for longer durations
        self.seconds = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Adds a duration in seconds, `times` times."""
        self.counts[bisect_left(BUCKETS, seconds)] += times
        self.seconds += seconds * times

    @property
    def count(self) -> int:
        """How many durations were added."""
        return sum(self.counts)


class OutcomeCounts:
    """The counter of requests of one API that ended with one error code, or with none."""

    __slots__ = ("api", "error", "of_api", "total")

    def __init__(self, api: str, error: str, of_api: "ApiCounts") -> None:
        self.api = api
        self.error = error
        self.of_api = of_api
        self.total = 0


class ApiCounts:
    """The counters of one API over all error codes: durations, and bytes including the length prefixes of frames."""

    __slots__ = ("durations", "received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.received_bytes = 0
        self.sent_bytes = 0


class Tally:
    """The amounts that one answer adds to the request counters each time it is sent: its error code, bytes and
    committed offsets.

    The fast path makes one per cached answer. `fresh` counts how often it was used since RequestCounts.on_sent was last
    called.
    """

    __slots__ = ("frame_bytes", "fresh", "offsets", "reply", "requests", "sent_bytes")

    def __init__(
        self, reply: object, requests: OutcomeCounts, *, frame_bytes: int, sent_bytes: int, offsets: int
    ) -> None:
        self.reply = reply
        self.requests = requests
        self.frame_bytes = frame_bytes  # without the length prefix
        self.sent_bytes = sent_bytes
        self.offsets = offsets  # how many offsets were committed
        self.fresh = 0  # how many such answers have not been sent yet


class RequestCounts:
    """All request counters of a server, by API and error code: their number is bounded by the protocol."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiCounts] = {}
        self.offsets_committed = 0
        self.fresh: list[Tally] = []  # tallies to be added up
        self._requests: dict[tuple[str, str], OutcomeCounts] = {}

    def of(self, api: str, error: str) -> OutcomeCounts:
        """Returns the counter of one API and error code, and creates it at first use."""
        found = self._requests.get((api, error))
        if found is None:
            of_api = self.apis.setdefault(api, ApiCounts())
            found = self._requests[api, error] = OutcomeCounts(api, error, of_api)
        return found

    def on_sent(self, seconds: float) -> None:
        """Adds the fresh tallies to the counters, when their answers have been sent `seconds` after the requests
        arrived.
        """
        bucket = bisect_left(BUCKETS, seconds)
        for tally in self.fresh:
            times, tally.fresh = tally.fresh, 0
            requests = tally.requests
            requests.total += times
            of_api = requests.of_api
            of_api.received_bytes += times * (tally.frame_bytes + LENGTH_BYTES)
            of_api.sent_bytes += times * tally.sent_bytes
            of_api.durations.counts[bucket] += times
            of_api.durations.seconds += times * seconds
            if tally.offsets:
                self.offsets_committed += times * tally.offsets
        self.fresh.clear()

    def answered(self, requests: OutcomeCounts, seconds: float, *, received_bytes: int, sent_bytes: int) -> None:
        """Counts one request that was answered after `seconds`, without a tally."""
        requests.total += 1
        requests.of_api.received_bytes += received_bytes
        requests.of_api.sent_bytes += sent_bytes
        requests.of_api.durations.add(seconds)

    def __iter__(self) -> Iterator[OutcomeCounts]:
        return iter(self._requests.values())


NO_TALLY: Final = Tally(object(), OutcomeCounts("", "", ApiCounts()), frame_bytes=0, sent_bytes=0, offsets=0)
"""The tally of a client without requests yet; it matches no reply."""


class JournalCounts:
    """The counters of the log of __consumer_offsets: writes, compactions, and reading it to know groups again.
    `facts_read` counts groups, and offsets that were committed together.
    """

    __slots__ = (
        "compacted_bytes",
        "compactions",
        "facts_read",
        "failed_compactions",
        "failed_writes",
        "seconds_read",
        "transactions",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.written_bytes = 0
        self.failed_writes = 0
        self.compactions = 0
        self.failed_compactions = 0
        self.compacted_bytes = 0
        self.facts_read = 0
        self.seconds_read = 0.0
        self.transactions = Histogram()
