"""Plain numbers, as cheap as can be: what is added to while requests are worked on.

Theory of operation. A heartbeat takes some 6 µs, so that there is room for one or two additions, not for a clock and a
search. But members ask the same again and again, and get the very same reply (server/routes.py): what is to be added
for it is made up once and remembered, as a Tally. And all answers of a round of the loop leave together
(server/turns.py), when what they rest on is kept: they have waited from when the round was asked for until then, so
that one look at the clock and one search for a bucket are enough for all of them.

    decide, decide, decide …  tally.fresh += 1     ─►  the round's answers leave  ─►  each tally is added up, once
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
"""Upper bounds in seconds: from a heartbeat on an idle machine to a request that its client has long given up on."""


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)  # of each bucket alone, the last of all that was longer
        self.seconds = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += times
        self.seconds += seconds * times

    @property
    def count(self) -> int:
        return sum(self.counts)


class Requests:
    """Those of one API that got one error, or none."""

    __slots__ = ("api", "error", "of_api", "total")

    def __init__(self, api: str, error: str, of_api: "ApiCounts") -> None:
        self.api = api
        self.error = error
        self.of_api = of_api
        self.total = 0


class ApiCounts:
    """What is counted of an API, whatever the error. Bytes are with the lengths of frames."""

    __slots__ = ("durations", "received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.durations = Histogram()
        self.received_bytes = 0
        self.sent_bytes = 0


class Tally:
    """What is to be added each time this reply is the answer to a request of this size."""

    __slots__ = ("frame_bytes", "fresh", "offsets", "reply", "requests", "sent_bytes")

    def __init__(self, reply: object, requests: Requests, *, frame_bytes: int, sent_bytes: int, offsets: int) -> None:
        self.reply = reply
        self.requests = requests
        self.frame_bytes = frame_bytes  # without its length
        self.sent_bytes = sent_bytes
        self.offsets = offsets  # that were committed
        self.fresh = 0  # how often it was the answer, of answers that have not left yet


class RequestCounts:
    """All of them, by API and error: as many as a protocol has, whatever clients send."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiCounts] = {}
        self.offsets_committed = 0
        self.fresh: list[Tally] = []  # those that are to be added up
        self._requests: dict[tuple[str, str], Requests] = {}

    def of(self, api: str, error: str) -> Requests:
        found = self._requests.get((api, error))
        if found is None:
            of_api = self.apis.setdefault(api, ApiCounts())
            found = self._requests[api, error] = Requests(api, error, of_api)
        return found

    def left(self, seconds: float) -> None:
        """The fresh ones have left, so long after they came."""
        place = bisect_left(BUCKETS, seconds)
        for tally in self.fresh:
            times, tally.fresh = tally.fresh, 0
            requests = tally.requests
            requests.total += times
            of_api = requests.of_api
            of_api.received_bytes += times * (tally.frame_bytes + LENGTH_BYTES)
            of_api.sent_bytes += times * tally.sent_bytes
            of_api.durations.counts[place] += times
            of_api.durations.seconds += times * seconds
            if tally.offsets:
                self.offsets_committed += times * tally.offsets
        self.fresh.clear()

    def answered(self, requests: Requests, seconds: float, *, received_bytes: int, sent_bytes: int) -> None:
        """One that took as long as no other."""
        requests.total += 1
        requests.of_api.received_bytes += received_bytes
        requests.of_api.sent_bytes += sent_bytes
        requests.of_api.durations.add(seconds)

    def __iter__(self) -> Iterator[Requests]:
        return iter(self._requests.values())


NO_TALLY: Final = Tally(object(), Requests("", "", ApiCounts()), frame_bytes=0, sent_bytes=0, offsets=0)
"""Of a client that has not asked for anything yet: no reply is this one."""


class JournalCounts:
    """What became of the groups' log."""

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
