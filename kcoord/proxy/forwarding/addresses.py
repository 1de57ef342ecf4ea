"""The endpoint of each upstream broker, and the port that it has here. Pure.

A broker that Metadata no longer names is remembered for a while: one that restarts is missing from Metadata until it is
back, and clients that know its port must not find another broker there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kcoord.proxy.forwarding.endpoints import Place

GRACE: Final = 600.0
"""Seconds for which a missing broker keeps its port."""
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an answer has changed about the known brokers."""

    new: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    """Brokers that the previous complete answer named and this one does not."""
    returned: tuple[int, ...] = ()
    """Brokers that were missing. They are not also in `moved`, even if their endpoint has changed."""


class Brokers:
    """The brokers that answers have named, with their upstream endpoints."""

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}
        self._missing_since: dict[int, float] = {}

    @property
    def live(self) -> tuple[int, ...]:
        """The brokers that are not missing, by ascending id."""
        return tuple(sorted(self._places.keys() - self._missing_since.keys()))

    @property
    def known(self) -> tuple[int, ...]:
        return tuple(sorted(self._places))

    def place(self, node_id: int) -> Place | None:
        """Returns the broker's last known endpoint; None if it is not known."""
        return self._places.get(node_id)

    def saw_all(self, told: Mapping[int, Place], now: float) -> Changes:
        """Applies an answer that names every broker of the cluster; an empty one is ignored."""
        if not told:
            return Changes()
        changes = self.saw(told)
        missing = [node_id for node_id in self.live if node_id not in told]
        self._missing_since |= dict.fromkeys(missing, now)
        return replace(changes, missing=tuple(missing))

    def saw(self, told: Mapping[int, Place]) -> Changes:
        """Applies an answer that names some brokers."""
        if all(self._places.get(node_id) == place for node_id, place in told.items()) and not self._missing_since:
            return Changes()
        new = [node_id for node_id in told if node_id not in self._places]
        returned = [node_id for node_id in told if node_id in self._missing_since]
        stayed = [node_id for node_id in told if node_id not in new and node_id not in returned]
        moved = [node_id for node_id in stayed if self._places[node_id] != told[node_id]]
        self._places |= told
        for node_id in returned:
            del self._missing_since[node_id]
        return Changes(new=tuple(new), moved=tuple(moved), returned=tuple(returned))

    def forget(self, now: float) -> tuple[int, ...]:
        """Forgets and returns the brokers that have been missing for too long."""
        gone = [node_id for node_id, since in self._missing_since.items() if now - since >= GRACE]
        for node_id in gone:
            del self._places[node_id], self._missing_since[node_id]
        return tuple(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """Assigns ports to brokers: a fixed one by id, or any free one."""

    port_base: int
    """The port of broker 0; 0 means free ports."""

    def port_of(self, node_id: int) -> int | None:
        """Returns the broker's port, 0 for any free one, or None if it would be above 65535."""
        if not self.port_base:
            return 0
        port = self.port_base + node_id
        return port if port <= LAST_PORT else None
