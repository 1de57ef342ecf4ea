"""Guards and what they know of groups, as a part of the proxy."""

from collections import Counter
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import NamedTuple

from kcoord.proxy.forwarding.interceptors import Interceptor
from kcoord.proxy.guards.guard_rules import GuardRules, Reason
from kcoord.proxy.guards.guarding import Guarding
from kcoord.proxy.guards.hiding import Hiding, denied_offsets_topic
from kcoord.proxy.main import Between
from kcoord.proxy.observing.group_observer import Watching
from kcoord.proxy.proxy import Proxy


class Guards(NamedTuple):
    """The first two are there without any rule, too: groups are watched, subscriptions checked."""

    guarding: Guarding
    watching: Watching
    offsets_topic: Hiding | None = None
    """Where rules deny groups: the topic that has them all is not to be read or written."""
    journal: tuple[Hiding, ...] = ()
    """Where groups are coordinated here: what keeps their journal from clients."""

    @property
    def interceptors(self) -> list[Interceptor]:
        """In their order: what is refused is not watched."""
        return [*self._hiding, self.guarding, self.watching]

    @property
    def refusals(self) -> Counter[tuple[Reason, str]]:
        """How many there were, by reason and API."""
        return sum((each.refusals for each in self._hiding), self.guarding.refusals)

    @property
    def _hiding(self) -> list[Hiding]:
        return [*self.journal, *([self.offsets_topic] if self.offsets_topic else ())]

    def between(self) -> list[Between]:
        """What stands between clients and brokers, for `upstream.main.run`."""
        return [partial(_entered, each) for each in self.interceptors]


def _entered(interceptor: Interceptor, _: Proxy) -> nullcontext[Interceptor]:
    return nullcontext(interceptor)


def guards_of(rules: GuardRules) -> Guards:
    watching = Watching(monotonic)
    denied = rules.offsets_topic_apis
    offsets_topic = Hiding(denied_offsets_topic(denied), monotonic) if denied else None
    return Guards(Guarding(rules, watching, monotonic), watching, offsets_topic)
