"""Guards and what they know of groups, as a part of the proxy."""

from contextlib import nullcontext
from time import monotonic
from typing import NamedTuple

from kcoord.upstream.guard_rules import GuardRules
from kcoord.upstream.guarding import Guarding
from kcoord.upstream.main import Between
from kcoord.upstream.watching import Watching


class Guards(NamedTuple):
    """Both are there without any rule, too: groups are watched, subscriptions checked."""

    guarding: Guarding
    watching: Watching

    def between(self) -> list[Between]:
        """What stands between clients and brokers, for `upstream.main.run`: what is refused is not watched."""
        return [lambda _: nullcontext(self.guarding), lambda _: nullcontext(self.watching)]


def guards_of(rules: GuardRules) -> Guards:
    watching = Watching(monotonic)
    return Guards(Guarding(rules, watching, monotonic), watching)
