"""Every metric family, as docs/metrics.md explains them; no other can be exported.

The values of labels come from the protocol and from settings, never from names that clients choose.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from kcoord.metrics.counts import Histogram


class Kind(StrEnum):
    """The type of a Prometheus metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A Prometheus metric family that kcoord exports. `name` is without the `_total` of counters; `about` is its help
    text.
    """

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """The family's name in Prometheus queries; for a histogram, without `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name


class Sample(NamedTuple):
    """One value of a metric family with its label values; for a histogram, the whole histogram of one set of labels."""

    family: Family
    value: float | Histogram
    labels: tuple[str, ...] = ()


def _counter(name: str, about: str, *labels: str) -> Family:
    return Family(name=f"kcoord_{name}", kind=Kind.COUNTER, about=about, labels=labels)


def _gauge(name: str, about: str, *labels: str) -> Family:
    return Family(name=f"kcoord_{name}", kind=Kind.GAUGE, about=about, labels=labels)


def _histogram(name: str, about: str, *labels: str) -> Family:
    return Family(name=f"kcoord_{name}_seconds", kind=Kind.HISTOGRAM, about=about, labels=labels)


BUILD: Final = _gauge(
    "build_info", "1, with the version of kcoord, and whether it serves or is a proxy.", "version", "role"
)
UPTIME: Final = _gauge("uptime_seconds", "How long it has been up.")
READY: Final = _gauge("ready", "1 if /readyz says so, otherwise 0.")

OPEN: Final = _gauge("connections_open", "Connections of clients that are open.")
OPENED: Final = _counter("connections_opened", "Connections that were let in.")
CLOSED: Final = _counter("connections_closed", "Connections that were let in and ended, by reason.", "reason")
REFUSED: Final = _counter("connections_refused", "Connections that were not let in, by reason.", "reason")
HELD: Final = _gauge(
    "held_request_bytes", "Bytes of requests and answers that wait; queued.max.request.bytes limits them."
)

REQUESTS: Final = _counter(
    "requests", "Requests that were answered, by API and the first error in the answer.", "api", "error"
)
DURATIONS: Final = _histogram("request_duration", "From when a request was there until its answer could leave.", "api")
RECEIVED: Final = _counter("request_bytes", "Bytes of requests that were answered, with their lengths.", "api")
SENT: Final = _counter("response_bytes", "Bytes of the answers, with their lengths.", "api")
PARKED: Final = _gauge(
    "requests_parked", "Requests that wait for something to happen: for records, or for other members.", "api"
)

GROUPS: Final = _gauge("groups", "Groups by state.", "state")
MEMBERS: Final = _gauge("group_members", "Members of all groups.")
PENDING: Final = _gauge("group_pending_ids", "Member ids that were given out and not used yet.")
GROUP_BYTES: Final = _gauge(
    "group_held_bytes", "Bytes that groups and members hold: names, subscriptions, plans and committed offsets."
)
GROUP_LIMITS: Final = _gauge(
    "group_limit", "What groups may come to: kcoord.max.groups, kcoord.max.members, kcoord.groups.max.bytes.", "of"
)
QUARANTINED: Final = _gauge("groups_quarantined", "Groups whose records cannot be read: they are not served.")
EVENTS: Final = _counter("group_events", "What happened in groups.", "event")
REBALANCES: Final = _counter("rebalances", "Rebalances that began, by cause.", "cause")
COMMITTED: Final = _counter("offsets_committed", "Offsets that were committed.")

JOURNAL_BYTES: Final = _counter("journal_written_bytes", "Bytes of records that were written to the journal of groups.")
JOURNAL_FAILURES: Final = _counter(
    "journal_write_failures", "Partitions of __consumer_offsets that could not be written to."
)
TRANSACTIONS: Final = _histogram(
    "journal_transaction_duration", "Until a transaction of the journal was committed upstream (--journal kafka)."
)
FSYNCS: Final = _histogram("journal_fsync_duration", "What a call took that has a file on the disk (--fsync).")
COMPACTIONS: Final = _counter("journal_compactions", "Compactions of a partition, by outcome.", "outcome")
COMPACTED: Final = _counter("journal_compacted_bytes", "Bytes that compaction freed.")
JOURNAL_PARTITIONS: Final = _gauge(
    "journal_partitions", "Partitions of __consumer_offsets by what can be said of their groups.", "state"
)
FACTS_READ: Final = _counter(
    "journal_read_facts", "What was read to know groups again: groups, and offsets that were committed together."
)
SECONDS_READ: Final = _counter("journal_read_seconds", "Time it took to read them, others served in between.")
LOG_BYTES: Final = _gauge("log_bytes", "Bytes of records that are kept, of topics and groups.")

BROKERS: Final = _gauge("proxy_brokers", "Brokers of the upstream cluster that were heard of, by state.", "state")
UPSTREAM_FAILURES: Final = _counter(
    "proxy_upstream_failures", "How often a broker could not be reached, or did not let the proxy in."
)
PASSED: Final = _counter("proxy_passed_bytes", "Bytes that were passed on, by where to.", "to")
PROXY_REQUESTS: Final = _counter("proxy_requests", "Requests that were answered, by API and by whom.", "api", "by")
PROXY_DURATIONS: Final = _histogram(
    "proxy_request_duration", "From when a request began to arrive until its answer began to leave.", "api"
)
PROXY_GROUP_ERRORS: Final = _counter(
    "proxy_group_errors", "Errors that the upstream coordinator answered members with, by API.", "api", "error"
)
GUARD_REFUSALS: Final = _counter(
    "proxy_guard_refusals", "Requests that guards refused, by reason and API.", "reason", "api"
)

OF_ALL: Final = (BUILD, UPTIME, READY)
OF_CLIENTS: Final = (OPEN, OPENED, CLOSED, REFUSED, HELD)
OF_REQUESTS: Final = (REQUESTS, DURATIONS, RECEIVED, SENT, PARKED)
OF_GROUPS: Final = (GROUPS, MEMBERS, PENDING, GROUP_BYTES, GROUP_LIMITS, QUARANTINED, EVENTS, REBALANCES, COMMITTED)
OF_JOURNAL: Final = (
    *(JOURNAL_BYTES, JOURNAL_FAILURES, FSYNCS, TRANSACTIONS, COMPACTIONS, COMPACTED),
    *(JOURNAL_PARTITIONS, FACTS_READ, SECONDS_READ, LOG_BYTES),
)
OF_PROXY: Final = (
    *(BROKERS, UPSTREAM_FAILURES, PASSED, PROXY_REQUESTS, PROXY_DURATIONS, PROXY_GROUP_ERRORS, GUARD_REFUSALS),
)
FAMILIES: Final = (*OF_ALL, *OF_CLIENTS, *OF_REQUESTS, *OF_GROUPS, *OF_JOURNAL, *OF_PROXY)
