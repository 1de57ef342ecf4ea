"""The proxy's samples for Prometheus: see kcoord.metrics.collecting.Source.

Groups are those observed in forwarded traffic or, with --coordinate local, those that the proxy coordinates.
"""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext

from kcoord.api_keys import ApiKey
from kcoord.metrics import catalogue
from kcoord.metrics.catalogue import Family, Sample
from kcoord.metrics.http import MetricsServer
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.api_names import api_name
from kcoord.proxy.guards.wiring import Guards
from kcoord.proxy.local.coordination import LocalCoordination, LocalSetup
from kcoord.proxy.local.runtime import LocalRuntime
from kcoord.proxy.local.wiring import local_coordination
from kcoord.proxy.main import InterceptorFactory
from kcoord.proxy.metrics import ProxyCounters
from kcoord.proxy.observing.commit_counter import CommitCounter
from kcoord.proxy.observing.observed_group import Cause
from kcoord.proxy.proxy import Proxy
from kcoord.security.refusals import Refusal
from kcoord.server.metrics.instrumented_runtime import InstrumentedClusterRuntime
from kcoord.server.metrics.metrics_source import by_label_value, group_samples, journal_samples, request_samples


class InstrumentedLocalRuntime(InstrumentedClusterRuntime, LocalRuntime):
    """The group coordinator of `kcoord proxy --coordinate local --metrics`: a LocalRuntime that counts what it does."""


class ProxyMetrics:
    """The parts of a proxy that `--metrics` adds: `counters` count, and `metrics_server` serves them to Prometheus."""

    def __init__(self, listening: socket.socket, guards: Guards) -> None:
        self.counters = ProxyCounters()
        self.local: LocalCoordination | None = None  # set if groups are coordinated here
        self.commits = CommitCounter()  # used if groups are coordinated upstream
        self._listening = listening
        self._guards = guards

    def coordination(self, setup: LocalSetup) -> InterceptorFactory:
        """Returns the factory of a LocalCoordination interceptor that counts what it does."""
        return local_coordination(setup, make_runtime=InstrumentedLocalRuntime, on_made=self._set_local)

    def commit_counter(self) -> InterceptorFactory:
        """Returns the factory of the interceptor that counts commits to groups that the upstream coordinates."""
        return lambda _: nullcontext(self.commits)

    def _set_local(self, local: LocalCoordination) -> None:
        self.local = local

    def metrics_server(self, proxy: Proxy) -> AbstractAsyncContextManager[object]:
        """Makes the HTTP server for Prometheus, which starts before the proxy so that waiting for the upstream is
        visible.
        """
        return MetricsServer(self._listening, ProxySource(proxy, self, self._guards), role="proxy")


class ProxySource:
    """Yields the Prometheus samples of one proxy (a kcoord.metrics.collecting.Source)."""

    def __init__(self, proxy: Proxy, metrics: ProxyMetrics, guards: Guards) -> None:
        self._proxy = proxy
        self._metrics = metrics
        self._guards = guards

    @property
    def families(self) -> tuple[Family, ...]:
        """The metric families of the proxy, which depend on whether it coordinates groups."""
        return (
            *(catalogue.OPEN, catalogue.OPENED, catalogue.CLOSED, catalogue.REFUSED),
            *catalogue.OF_PROXY,
            *catalogue.OF_REQUESTS,
            *catalogue.OF_GROUPS,
            *(catalogue.OF_JOURNAL if self._metrics.local else ()),
        )

    def why_not_ready(self) -> str | None:
        """Returns why the readiness check fails; None if the proxy is ready."""
        if not self._proxy.is_ready:
            return "no broker of the upstream cluster answers"
        local = self._metrics.local
        return local.why_not_ready() if local else None

    def samples(self) -> Iterator[Sample]:
        """Yields the samples of all metrics."""
        yield from self._client_samples()
        yield from self._forwarding_samples()
        if self._metrics.local is None:
            yield from self._observed_group_samples()
            return
        runtime = getattr(self._metrics.local, "runtime", None)  # it has none before it was entered
        if isinstance(runtime, InstrumentedClusterRuntime):
            yield from request_samples(runtime)
            yield from group_samples(runtime)
            yield from journal_samples(runtime)

    def _client_samples(self) -> Iterator[Sample]:
        counters = self._metrics.counters
        closed = {
            CloseReason.OTHER: counters.clients_broken,
            CloseReason.CLIENT: counters.clients_closed - counters.clients_broken,
        }
        yield Sample(catalogue.OPEN, len(self._proxy.clients))
        yield Sample(catalogue.OPENED, counters.clients_opened)
        yield from by_label_value(catalogue.CLOSED, (CloseReason.CLIENT, CloseReason.OTHER), closed)
        yield from by_label_value(catalogue.REFUSED, map(str, Refusal), self._proxy.refused)

    def _forwarding_samples(self) -> Iterator[Sample]:
        counters, brokers = self._metrics.counters, self._proxy.brokers
        self._proxy.report_bytes()
        live = len(brokers.live)
        is_reachable = self._proxy.is_ready
        yield Sample(catalogue.BROKERS, live if is_reachable else 0, ("live",))
        yield Sample(catalogue.BROKERS, 0 if is_reachable else live, ("silent",))
        yield Sample(catalogue.BROKERS, len(brokers.known) - live, ("missing",))
        yield Sample(catalogue.UPSTREAM_FAILURES, counters.upstream_failures)
        yield Sample(catalogue.PASSED, counters.bytes_to_upstream, ("upstream",))
        yield Sample(catalogue.PASSED, counters.bytes_to_clients, ("clients",))
        requests: Counter[tuple[str, str]] = Counter()
        local = self._metrics.local
        for api_key, durations in counters.durations.items():
            by = "local" if local and api_key in local.interests else "upstream"
            requests[api_name(api_key), by] += durations.count
            yield Sample(catalogue.PROXY_DURATIONS, durations, (api_name(api_key),))
        for api_key, count in counters.answered_here.items():
            requests[api_name(api_key), "proxy"] += count
        for labels, count in requests.items():
            yield Sample(catalogue.PROXY_REQUESTS, count, labels)
        for (reason, api), count in self._guards.refusals.items():
            yield Sample(catalogue.GUARD_REFUSALS, count, (reason, api))

    def _observed_group_samples(self) -> Iterator[Sample]:
        observer = self._guards.observer
        for state, count in observer.groups_by_state().items():
            yield Sample(catalogue.GROUPS, count, (state,))
        yield Sample(catalogue.MEMBERS, observer.member_count())
        yield from by_label_value(catalogue.REBALANCES, Cause, observer.rebalances)
        for (api_key, error), count in observer.errors.items():
            yield Sample(catalogue.PROXY_GROUP_ERRORS, count, (api_name(api_key), error))
        commits = self._metrics.commits
        yield Sample(catalogue.COMMITTED, commits.offsets)
        for error, count in commits.errors.items():
            yield Sample(catalogue.PROXY_GROUP_ERRORS, count, (api_name(ApiKey.OFFSET_COMMIT), error))
