"""The endpoint of each upstream broker, and the port that it has here. Pure.

A broker that Metadata no longer names is remembered for a while: one that restarts is missing from Metadata until it is
back, and clients that know its port must not find another broker there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kcoord.proxy.rewriting.endpoints import Endpoint

GRACE: Final = 600.0
"""Seconds for which a missing broker keeps its port."""
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a response has changed about the known brokers: the ids of those that are new, moved, missing or back."""

    new: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    """Brokers that the previous complete answer named and this one does not."""
    returned: tuple[int, ...] = ()
    """Brokers that were missing. They are not also in `moved`, even if their endpoint has changed."""


class Brokers:
    """The registry of upstream brokers, by broker id: the endpoints that responses have named. A broker that is missing
    from Metadata is remembered for a while.
    """

    def __init__(self) -> None:
        self._endpoints: dict[int, Endpoint] = {}
        self._missing_since: dict[int, float] = {}

    @property
    def live(self) -> tuple[int, ...]:
        """The ids of the brokers that are not missing, in ascending order."""
        return tuple(sorted(self._endpoints.keys() - self._missing_since.keys()))

    @property
    def known(self) -> tuple[int, ...]:
        """The ids of all remembered brokers, missing ones too, in ascending order."""
        return tuple(sorted(self._endpoints))

    def endpoint(self, node_id: int) -> Endpoint | None:
        """Returns the broker's last known upstream endpoint; None for an unknown broker."""
        return self._endpoints.get(node_id)

    def update_all(self, named: Mapping[int, Endpoint], now: float) -> Changes:
        """Applies the brokers of a response that names all of the cluster; an empty one is ignored."""
        if not named:
            return Changes()
        changes = self.update(named)
        missing = [node_id for node_id in self.live if node_id not in named]
        self._missing_since |= dict.fromkeys(missing, now)
        return replace(changes, missing=tuple(missing))

    def update(self, named: Mapping[int, Endpoint]) -> Changes:
        """Applies the brokers of a response that names some of them."""
        if (
            all(self._endpoints.get(node_id) == endpoint for node_id, endpoint in named.items())
            and not self._missing_since
        ):
            return Changes()
        new = [node_id for node_id in named if node_id not in self._endpoints]
        returned = [node_id for node_id in named if node_id in self._missing_since]
        stayed = [node_id for node_id in named if node_id not in new and node_id not in returned]
        moved = [node_id for node_id in stayed if self._endpoints[node_id] != named[node_id]]
        self._endpoints |= named
        for node_id in returned:
            del self._missing_since[node_id]
        return Changes(new=tuple(new), moved=tuple(moved), returned=tuple(returned))

    def forget(self, now: float) -> tuple[int, ...]:
        """Forgets the brokers that have been missing for too long, and returns their ids."""
        gone = [node_id for node_id, since in self._missing_since.items() if now - since >= GRACE]
        for node_id in gone:
            del self._endpoints[node_id], self._missing_since[node_id]
        return tuple(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortNumbering:
    """Assigns the proxy's ports to brokers: a fixed one by broker id, or any free one."""

    port_base: int
    """The port of broker 0; 0 means free ports."""

    def port_of(self, node_id: int) -> int | None:
        """Returns the port for a broker: 0 for any free one, or None if it would be above 65535."""
        if not self.port_base:
            return 0
        port = self.port_base + node_id
        return port if port <= LAST_PORT else None
