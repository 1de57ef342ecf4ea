"""Adds local coordination to a proxy."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from kcoord.proxy.guards.hidden_names import HiddenNames
from kcoord.proxy.guards.hiding import TRANSACTIONS_TOPIC, HidingInterceptor, hidden_journal, untouchable_transactions
from kcoord.proxy.local.answering import BrokerEndpoint
from kcoord.proxy.local.coordination import LocalCoordination, LocalSetup
from kcoord.proxy.local.runtime import LocalRuntime
from kcoord.proxy.proxy import Proxy


def local_coordination(
    setup: LocalSetup,
    *,
    make_runtime: Callable[..., LocalRuntime] = LocalRuntime,
    on_made: Callable[[LocalCoordination], None] = lambda coordination: None,
) -> Callable[[Proxy], LocalCoordination]:
    """Returns the factory of the LocalCoordination interceptor for `proxy.main.run`; `on_made` gets the one that it
    makes.
    """

    def make(proxy: Proxy) -> LocalCoordination:
        coordination = LocalCoordination(setup, make_runtime)
        on_made(coordination)
        coordination.coordinator_endpoint = lambda: coordinating_broker(proxy)
        return coordination

    return make


def with_hidden_journal(setup: LocalSetup) -> tuple[LocalSetup, tuple[HidingInterceptor, ...]]:
    """Returns the setup with the names of the journal hidden, and the interceptors that hide them and must
    run first.
    """
    if setup.journal is None:
        return setup, ()
    journal = HiddenNames(topic=setup.journal.topic, transactional_id=setup.journal.transactional_id)
    transactions = HiddenNames(topic=TRANSACTIONS_TOPIC)
    hiding = (
        HidingInterceptor(hidden_journal(journal), monotonic),
        HidingInterceptor(untouchable_transactions(transactions), monotonic),
    )
    return replace(setup, hidden=(journal, transactions)), hiding


def coordinating_broker(proxy: Proxy) -> BrokerEndpoint | None:
    """Returns the broker that clients see as the coordinator of all groups: the live one with the lowest id, so that
    all clients agree. None if no broker is live.
    """

    live = proxy.brokers.live
    return BrokerEndpoint(live[0], *proxy.endpoint_of(live[0])) if live else None
