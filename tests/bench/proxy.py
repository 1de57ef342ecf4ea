"""What the proxy costs: python -m tests.bench.proxy [latency] [throughput]

One real broker, with the flags of Kafka's own script, and three ways to it in one run: direct; through haproxy in TCP
mode, which moves bytes and does nothing else, as the floor; and through `kcoord proxy`, which watches groups and counts
for Prometheus. Each way has one connection with one request in flight (trips/, a program in Go: a client in Python
would take as long as what is measured). The ways take turns, round by round, and a round is held against itself: what a
way adds is the median over the rounds of how much its median is above the direct one's. p99 is that of all requests of
a way.

    latency      Fetch of a batch of 100 bytes that is there, Heartbeat of a member of a Stable group, which has joined
                 by the same way, and Produce of a record of 100 bytes with acks=1
    throughput   Fetch of answers of 1 MiB and 16 MiB; each is held against the first one, byte by byte

CPU is that of the process in the middle, kernel included. To be met: the proxy adds at most twice what haproxy adds to
the median, and at least half of the direct MB/s get through.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from tests.bench.support.between import HAPROXY, Proxy, Relay, relay_version
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SCRIPT_FLAGS, Kafka, Prepared, Running
from tests.bench.support.trip_requests import Requests, broker_address
from tests.bench.support.trips import Route, Schedule, Traveller, Trips

DIRECT, RELAY, PROXY = "direct", "haproxy", "kcoord"
MOST_ADDED, LEAST_THROUGHPUT = 2.0, 0.5
SECTIONS = ("latency", "throughput")
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
# Turns are short, so that other work on the machine affects all ways equally.
SMALL_ANSWERS = Schedule(rounds=300, requests=50, warmup_rounds=60)
LARGE_ANSWERS = {
    "1 MiB": (1 << 20, Schedule(rounds=80, requests=10, warmup_rounds=12)),
    "16 MiB": (16 << 20, Schedule(rounds=40, requests=2, warmup_rounds=4)),
}
MOST_OVERHEAD = 1000  # bytes of an answer in addition to its records


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The times of each way, and the CPU seconds per request of the process in the middle."""

    trips: dict[str, Trips]
    cpu: dict[str, float]

    def added(self, way: str) -> float:
        """Returns the seconds that a way adds to the median of a round."""
        pairs = zip(self.trips[way].medians, self.trips[DIRECT].medians, strict=True)
        return median(through - direct for through, direct in pairs)

    def added_p99(self, way: str) -> float:
        return self.trips[way].p99 - self.trips[DIRECT].p99

    def megabytes(self, way: str, requests: int) -> float:
        """Returns MB per second of waiting, in the median round of so many requests."""
        trips = self.trips[way]
        return trips.length * requests / median(trips.waits) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    traveller: Traveller
    requests: Requests
    addresses: dict[str, str]
    """The address of each way."""
    middles: dict[str, Running]
    """The process in the middle of each way except the direct one."""

    def measure(self, frame_for: Callable[[str], bytes], schedule: Schedule, *, is_constant: bool = True) -> Measured:
        """Measures all ways; `frame_for` returns the frame for an address."""
        ways = {name: Route(address=address, frame=frame_for(address)) for name, address in self.addresses.items()}
        before = {name: middle.cpu_seconds() for name, middle in self.middles.items()}
        trips = self.traveller.measure(ways, schedule, is_constant=is_constant)
        used = {name: middle.cpu_seconds() - before[name] for name, middle in self.middles.items()}
        return Measured(trips=trips, cpu={name: seconds / schedule.all_requests for name, seconds in used.items()})


def main(sections: Sequence[str] = SECTIONS) -> None:
    unknown = set(sections) - set(SECTIONS)
    assert not unknown, f"{', '.join(unknown)}: say any of {', '.join(SECTIONS)}"
    print(f"proxy: {machine()}{f', {relay_version()}' if HAPROXY else ''}\n")
    if not HAPROXY:
        print("haproxy is not here, so latencies have no floor to be held against: apt-get install haproxy\n")
    with ExitStack() as stack:
        traveller = stack.enter_context(Traveller())
        kafka = stack.enter_context(Running(Kafka(SCRIPT_FLAGS, uses_archive=False, settings=SETTINGS)))
        prepared: dict[str, Prepared] = {RELAY: Relay(kafka.bootstrap)} if HAPROXY else {}
        prepared[PROXY] = Proxy(kafka.bootstrap, "--metrics", "0")
        middles = {name: stack.enter_context(Running(each)) for name, each in prepared.items()}
        addresses = {DIRECT: kafka.bootstrap} | {name: middle.bootstrap for name, middle in middles.items()}
        addresses[PROXY] = broker_address(addresses[PROXY])  # where clients go from its bootstrap port
        bench = Bench(traveller=traveller, requests=Requests(kafka.bootstrap), addresses=addresses, middles=middles)
        for section in sections:
            _SECTIONS[section](bench)


def _latency(bench: Bench) -> None:
    fetch, produce = bench.requests.small_fetch(), bench.requests.small_produce()
    seen = {
        "Fetch": bench.measure(lambda _: fetch, SMALL_ANSWERS),
        "Heartbeat": bench.measure(bench.requests.heartbeat, SMALL_ANSWERS),
        "Produce": bench.measure(lambda _: produce, SMALL_ANSWERS, is_constant=False),
    }
    asked = SMALL_ANSWERS.all_requests * len(bench.addresses)
    assert bench.requests.written() == asked, f"{asked} records were acknowledged, not all of them are there"
    print(f"latency, one request in flight\n{table([_latency_head(bench), *_latency_rows(bench, seen)])}\n")


def _latency_head(bench: Bench) -> list[str]:
    quantiles = [f"{way} {quantile}" for way in bench.addresses for quantile in ("p50", "p99")]
    added = [f"{way} adds {quantile}" for way in bench.middles for quantile in ("p50", "p99")]
    return ["", *quantiles, *added, "ratio", "target", "met", *(f"{way} CPU" for way in bench.middles)]


def _latency_rows(bench: Bench, seen: dict[str, Measured]) -> list[list[str]]:
    rows = []
    for name, each in seen.items():
        row = [name]
        row += [_us(value) for way in bench.addresses for value in (each.trips[way].p50, each.trips[way].p99)]
        row += [_us(value) for way in bench.middles for value in (each.added(way), each.added_p99(way))]
        rows.append([*row, *_verdict(each), *(_us(each.cpu[way]) for way in bench.middles)])
    return rows


def _verdict(seen: Measured) -> list[str]:
    if RELAY not in seen.trips:
        return ["?", f"{MOST_ADDED:.1f}x", "not known"]
    ratio = seen.added(PROXY) / seen.added(RELAY)
    return [f"{ratio:.2f}x", f"{MOST_ADDED:.1f}x", "yes" if ratio <= MOST_ADDED else "NO"]


def _throughput(bench: Bench) -> None:
    head = ["answers of", *(f"{way} MB/s" for way in bench.addresses), "kcoord/direct", "target", "met"]
    rows = [[*head, *(f"{way} CPU s/GB" for way in bench.middles)]]
    for name, (size, schedule) in LARGE_ANSWERS.items():
        request = bench.requests.large_fetch(size)
        seen = bench.measure(lambda _, request=request: request, schedule)  # type: ignore[misc]
        lengths = {trips.length for trips in seen.trips.values()}
        assert all(size <= length < size + MOST_OVERHEAD for length in lengths), f"answers of {lengths} bytes"
        megabytes = {way: seen.megabytes(way, schedule.requests) for way in bench.addresses}
        ratio = megabytes[PROXY] / megabytes[DIRECT]
        row = [name, *(f"{each:,.0f}" for each in megabytes.values())]
        row += [f"{ratio:.2f}x", f"{LEAST_THROUGHPUT:.1f}x", "yes" if ratio >= LEAST_THROUGHPUT else "NO"]
        rows.append([*row, *(f"{seen.cpu[way] / size * 1e9:.2f}" for way in bench.middles)])
    print(f"throughput of fetches, one in flight\n{table(rows)}\n")


_SECTIONS: dict[str, Callable[[Bench], None]] = {"latency": _latency, "throughput": _throughput}


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


if __name__ == "__main__":
    main(sys.argv[1:] or SECTIONS)
