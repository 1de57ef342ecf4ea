"""Puts the guards and the group observer together as interceptors of a proxy."""

from collections import Counter
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import NamedTuple

from kcoord.proxy.forwarding.interceptors import Interceptor
from kcoord.proxy.guards.guard_rules import GuardRules, Reason
from kcoord.proxy.guards.guarding import GuardInterceptor
from kcoord.proxy.guards.hiding import HidingInterceptor, denied_offsets_topic
from kcoord.proxy.main import InterceptorFactory
from kcoord.proxy.observing.group_observer import GroupObserver
from kcoord.proxy.proxy import Proxy


class Guards(NamedTuple):
    """The guard interceptors of one proxy. Without any rule, groups are still observed and subscriptions checked."""

    guard: GuardInterceptor
    observer: GroupObserver
    offsets_topic: HidingInterceptor | None = None
    """Set if rules refuse some groups: clients may then not access `__consumer_offsets`, which holds them all."""
    journal: tuple[HidingInterceptor, ...] = ()
    """The interceptors that hide the journal from clients, if groups are coordinated here."""

    @property
    def interceptors(self) -> list[Interceptor]:
        """The guards in the order in which they run: a refused request is not observed."""
        return [*self._hiding, self.guard, self.observer]

    @property
    def refusals(self) -> Counter[tuple[Reason, str]]:
        """How many requests the guards have refused, by reason and API name."""
        return sum((each.refusals for each in self._hiding), self.guard.refusals)

    @property
    def _hiding(self) -> list[HidingInterceptor]:
        return [*self.journal, *([self.offsets_topic] if self.offsets_topic else ())]

    def interceptor_factories(self) -> list[InterceptorFactory]:
        """Returns the factories of the guard interceptors for `proxy.main.run`."""
        return [partial(_entered, each) for each in self.interceptors]


def _entered(interceptor: Interceptor, _: Proxy) -> nullcontext[Interceptor]:
    return nullcontext(interceptor)


def make_guards(rules: GuardRules) -> Guards:
    """Makes the guard interceptors that enforce these rules."""
    observer = GroupObserver(monotonic)
    denied = rules.offsets_topic_apis
    offsets_topic = HidingInterceptor(denied_offsets_topic(denied), monotonic) if denied else None
    return Guards(GuardInterceptor(rules, observer, monotonic), observer, offsets_topic)
