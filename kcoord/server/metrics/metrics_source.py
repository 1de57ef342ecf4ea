"""The metrics of a running cluster for Prometheus: see kcoord.metrics.collecting.Source."""

import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from kcoord.broker.cluster import OFFSETS_TOPIC
from kcoord.groups.classic.state import State
from kcoord.groups.effects import Cause, EventType
from kcoord.metrics import catalogue
from kcoord.metrics.catalogue import Family, Sample
from kcoord.metrics.counts import JournalCounts
from kcoord.metrics.http import MetricsServer
from kcoord.metrics.reasons import CloseReason
from kcoord.security.refusals import Refusal
from kcoord.server.metrics.group_stats import GroupStats, LoadState
from kcoord.server.metrics.instrumented_runtime import InstrumentedClusterRuntime, InstrumentedRuntime
from kcoord.server.runtime import Runtime
from kcoord.server.setup import Setup

_NO_STATS: Final = GroupStats(states={}, members=0, pending_ids=0, held_bytes=0, quarantined=0, partitions={})
_LIVE_STATES: Final = [state for state in State if state is not State.DEAD]
_CLOSINGS: Final = [closing for closing in CloseReason if closing is not CloseReason.REFUSED]

Word = TypeVar("Word", bound=str)


@asynccontextmanager
async def instrumented(setup: Setup, listening: socket.socket) -> AsyncIterator[Runtime]:
    """Runs a cluster of `kcoord serve` that counts what it does, with an HTTP server for Prometheus on this listening
    socket."""
    async with InstrumentedRuntime(setup) as runtime, MetricsServer(listening, ClusterSource(runtime), role="serve"):
        yield runtime


class ClusterSource:
    """Yields the Prometheus samples of a running cluster. Labels with few values have a sample for each of them, also
    with a count of 0."""

    families = (*catalogue.OF_CLIENTS, *catalogue.OF_REQUESTS, *catalogue.OF_GROUPS, *catalogue.OF_JOURNAL)

    def __init__(self, runtime: InstrumentedClusterRuntime) -> None:
        self._runtime = runtime

    def why_not_ready(self) -> str | None:
        """Returns why the readiness check fails, such as groups that are still loading; None if the cluster
        is ready.
        """
        groups = self._runtime.groups
        if groups is None:
            return "groups are not read yet" if OFFSETS_TOPIC in self._runtime.cluster.topics else None
        return "groups are being read" if groups.is_loading else None

    def samples(self) -> Iterator[Sample]:
        """Yields the samples of all metrics."""
        yield from _client_samples(self._runtime)
        yield from request_samples(self._runtime)
        yield from group_samples(self._runtime)
        yield from journal_samples(self._runtime)


def _client_samples(runtime: InstrumentedClusterRuntime) -> Iterator[Sample]:
    yield Sample(catalogue.OPEN, len(runtime.connections))
    yield Sample(catalogue.OPENED, runtime.opened)
    yield from by_label_value(catalogue.CLOSED, _CLOSINGS, runtime.closed)
    yield from by_label_value(catalogue.REFUSED, map(str, Refusal), runtime.refused)
    yield Sample(catalogue.HELD, runtime.held_bytes)


def request_samples(runtime: InstrumentedClusterRuntime) -> Iterator[Sample]:
    """Yields the samples of requests: counts by API and error, durations, bytes, parked requests."""
    for requests in runtime.requests:
        yield Sample(catalogue.REQUESTS, requests.total, (requests.api, requests.error))
    for api, counts in runtime.requests.apis.items():
        yield Sample(catalogue.DURATIONS, counts.durations, (api,))
        yield Sample(catalogue.RECEIVED, counts.received_bytes, (api,))
        yield Sample(catalogue.SENT, counts.sent_bytes, (api,))
    for api, count in runtime.parked().items():
        yield Sample(catalogue.PARKED, count, (api,))


def group_samples(runtime: InstrumentedClusterRuntime) -> Iterator[Sample]:
    """Yields the samples of groups: counts by state, members, limits, events and rebalances."""
    stats = runtime.groups.stats() if runtime.groups else _NO_STATS
    yield from by_label_value(catalogue.GROUPS, _LIVE_STATES, stats.states)
    yield Sample(catalogue.MEMBERS, stats.members)
    yield Sample(catalogue.PENDING, stats.pending_ids)
    yield Sample(catalogue.GROUP_BYTES, stats.held_bytes)
    yield from _limit_samples(runtime)
    yield Sample(catalogue.QUARANTINED, stats.quarantined)
    yield from by_label_value(catalogue.EVENTS, EventType, runtime.events)
    yield from by_label_value(catalogue.REBALANCES, Cause, runtime.rebalances)
    yield Sample(catalogue.COMMITTED, runtime.requests.offsets_committed)
    yield from by_label_value(catalogue.JOURNAL_PARTITIONS, LoadState, stats.partitions)


def _limit_samples(runtime: InstrumentedClusterRuntime) -> Iterator[Sample]:
    """Yields the limits for all brokers together, since usage is reported as a sum, too."""
    settings, brokers = runtime.cluster.settings, len(runtime.cluster.nodes)
    yield Sample(catalogue.GROUP_LIMITS, brokers * settings.kcoord_max_groups, ("groups",))
    yield Sample(catalogue.GROUP_LIMITS, brokers * settings.kcoord_max_members, ("members",))
    yield Sample(catalogue.GROUP_LIMITS, brokers * settings.kcoord_groups_max_bytes, ("bytes",))


def journal_samples(runtime: InstrumentedClusterRuntime) -> Iterator[Sample]:
    """Yields the samples of the journal, which is the log of __consumer_offsets: bytes, failures, fsyncs, compactions,
    loads."""
    counts = runtime.groups.counts if runtime.groups else JournalCounts()
    yield Sample(catalogue.JOURNAL_BYTES, counts.written_bytes)
    yield Sample(catalogue.JOURNAL_FAILURES, counts.failed_writes)
    yield Sample(catalogue.FSYNCS, runtime.fsyncs)
    yield Sample(catalogue.TRANSACTIONS, counts.transactions)
    yield Sample(catalogue.COMPACTIONS, counts.compactions, ("done",))
    yield Sample(catalogue.COMPACTIONS, counts.failed_compactions, ("failed",))
    yield Sample(catalogue.COMPACTED, counts.compacted_bytes)
    yield Sample(catalogue.FACTS_READ, counts.facts_read)
    yield Sample(catalogue.SECONDS_READ, counts.seconds_read)
    yield Sample(catalogue.LOG_BYTES, runtime.cluster.held_bytes)


def by_label_value(family: Family, values: Iterable[Word], counts: Mapping[Word, int]) -> Iterator[Sample]:
    """Yields a sample of the metric for each value that its label may have, 0 where `counts` has none."""
    for value in values:
        yield Sample(family, counts.get(value, 0), (str(value),))
