"""The guard of an API whose request is a list of items, such as topics, each allowed or denied by itself: as data.

Only the allowed items are decided, and the reply has an error for each of the others.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from kcoord.broker.cluster import Cluster
from kcoord.security.rules import Operation
from kcoord.server.authorization.permissions import Decide, Guard, Permissions, may_topic_or_id, split_allowed

Check = Callable[[Any], bool]
"""Returns whether an item is allowed."""
CheckOf = Callable[[Any, Permissions, Cluster], Check]
"""Returns the check of the items of a request."""


def on_topic(operation: Operation, name: str = "name") -> CheckOf:
    """Each item needs the operation on the topic that its field `name` names."""
    name_of = attrgetter(name)

    def check_of(request: Any, permissions: Permissions, cluster: Cluster) -> Check:
        return lambda item: permissions.may_topic(operation, name_of(item))

    return check_of


def on_topic_or_id(operation: Operation) -> CheckOf:
    """Each item needs the operation on the topic that it names, or whose id it has."""

    def check_of(request: Any, permissions: Permissions, cluster: Cluster) -> Check:
        return lambda item: may_topic_or_id(permissions, cluster, operation, item.name, item.topic_id)

    return check_of


def on_group(operation: Operation) -> CheckOf:
    """Each item is a group id, and needs the operation on that group."""

    def check_of(request: Any, permissions: Permissions, cluster: Cluster) -> Check:
        return lambda group_id: permissions.may_group(operation, group_id)

    return check_of


def _never(request: Any, permissions: Permissions) -> bool:
    return False


def _as_decided(result: Any, permissions: Permissions) -> Any:
    return result


def refused_last(decided: Iterable[Any], refused: Iterable[Any]) -> tuple[Any, ...]:
    return *decided, *refused


def refused_first(decided: Iterable[Any], refused: Iterable[Any]) -> tuple[Any, ...]:
    return *refused, *decided


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemGuard:
    """A guard that checks the items of a request one by one."""

    items: str
    """The field of the request that has the items."""
    needs: CheckOf
    results: str
    """The field of the reply that has a result for each item."""
    refused: Callable[[tuple[Any, ...]], Iterable[Any]]
    """Returns the results of items that are denied."""
    is_exempt: Callable[[Any, Permissions], bool] = _never
    """Returns whether a request is decided unchecked: it is refused in any case, or allowed as a whole."""
    shown: Callable[[Any, Permissions], Any] = _as_decided
    """Returns the part of a result that the client may see."""
    order: Callable[[Iterable[Any], Iterable[Any]], tuple[Any, ...]] = refused_last

    def __call__(self, request: Any, permissions: Permissions, cluster: Cluster, decide: Decide[Any, Any]) -> Any:
        if self.is_exempt(request, permissions):
            return decide(request)
        narrowed, denied = self.split(request, permissions, cluster)
        return self.merge(decide(narrowed), denied, permissions)

    def split(self, request: Any, permissions: Permissions, cluster: Cluster) -> tuple[Any, tuple[Any, ...]]:
        """Returns the request with only the items that are allowed, and the others."""
        allowed, denied = split_allowed(getattr(request, self.items), self.needs(request, permissions, cluster))
        return replace(request, **{self.items: allowed}), denied

    def merge(self, reply: Any, denied: tuple[Any, ...], permissions: Permissions) -> Any:
        """Returns the reply with the results of the items that are denied."""
        decided = [self.shown(result, permissions) for result in getattr(reply, self.results)]
        return replace(reply, **{self.results: self.order(decided, self.refused(denied))})


def sliced(guard: ItemGuard) -> Guard:
    """Returns the guard of an API that is decided in slices (broker/log/slices)."""

    def guarded(
        request: Any, permissions: Permissions, cluster: Cluster, decide: Decide[Any, Any]
    ) -> Generator[Any, Any, Any]:
        if guard.is_exempt(request, permissions):
            return (yield from decide(request))
        narrowed, denied = guard.split(request, permissions, cluster)
        return guard.merge((yield from decide(narrowed)), denied, permissions)

    return guarded
