"""Turns samples into Prometheus's metric families when they are scraped; until then there are only plain numbers."""

import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kcoord.metrics import catalogue
from kcoord.metrics.catalogue import Family, Kind, Sample
from kcoord.metrics.counts import BUCKETS, Histogram

_BOUNDS: Final = (*map(str, BUCKETS), "+Inf")


class Source(Protocol):
    """The interface of a server or proxy whose metrics are exported."""

    @property
    def families(self) -> tuple[Family, ...]:
        """The metric families to export, also those without a sample yet."""

    def samples(self) -> Iterable[Sample]:
        """Returns the current values of all metrics. It is called at each scrape."""

    def why_not_ready(self) -> str | None:
        """Returns why clients cannot be served now, for /readyz; None if they can."""


def make_registry(source: Source, *, role: str, clock: Callable[[], float] = time.monotonic) -> CollectorRegistry:
    """Makes the Prometheus registry that collects the source's samples at each scrape, and the metrics of the process.
    `role` is the value of the label that tells a server from a proxy.
    """
    registry = CollectorRegistry()
    registry.register(_SourceCollector(source, role, clock))
    ProcessCollector(registry=registry)
    return registry


class _SourceCollector(Collector):
    """A Prometheus collector of one source."""

    def __init__(self, source: Source, role: str, clock: Callable[[], float]) -> None:
        self._source = source
        self._build = Sample(catalogue.BUILD, 1, (version("kcoord"), role))
        self._clock = clock
        self._began = clock()

    def describe(self) -> Iterator[Metric]:
        """Yields families without samples: a registry needs only names when a collector is registered."""
        yield from map(_metric, (*catalogue.OF_ALL, *self._source.families))

    def collect(self) -> Iterator[Metric]:
        metrics = {family: _metric(family) for family in (*catalogue.OF_ALL, *self._source.families)}
        is_ready = self._source.why_not_ready() is None
        process_samples = (
            self._build,
            Sample(catalogue.UPTIME, self._clock() - self._began),
            Sample(catalogue.READY, is_ready),
        )
        for sample in (*process_samples, *self._source.samples()):
            _add(metrics[sample.family], sample)
        yield from metrics.values()


def _metric(family: Family) -> Metric:
    match family.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(family.name, family.about, labels=family.labels)
        case Kind.GAUGE:
            return GaugeMetricFamily(family.name, family.about, labels=family.labels)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(family.name, family.about, labels=family.labels)


def _add(metric: Metric, sample: Sample) -> None:
    if isinstance(sample.value, Histogram):
        assert isinstance(metric, HistogramMetricFamily)
        buckets = list(zip(_BOUNDS, accumulate(sample.value.counts), strict=True))
        metric.add_metric(sample.labels, buckets, sample.value.seconds)
        return
    assert isinstance(metric, CounterMetricFamily | GaugeMetricFamily)
    metric.add_metric(sample.labels, sample.value)
