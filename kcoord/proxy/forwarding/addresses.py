"""Where each broker is upstream, and where clients find it here. Pure.

A broker that is not told of any more is kept for a while: one that is restarted is missing from Metadata until it is
back, and clients that know its port shall find nothing else there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kcoord.proxy.forwarding.endpoints import Place

GRACE: Final = 600.0
"""How long a broker that is not told of keeps its port, in seconds."""
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an answer told that was not known."""

    new: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    """They were there when all brokers were told of the last time."""
    returned: tuple[int, ...] = ()
    """They were missing; wherever they are now, they have not moved besides."""


class Brokers:
    """What answers have told of brokers."""

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}
        self._missing_since: dict[int, float] = {}

    @property
    def live(self) -> tuple[int, ...]:
        """Those that the last answer that named all did name, and newer ones; the lowest first."""
        return tuple(sorted(self._places.keys() - self._missing_since.keys()))

    @property
    def known(self) -> tuple[int, ...]:
        return tuple(sorted(self._places))

    def place(self, node_id: int) -> Place | None:
        """Where it was said to be the last time."""
        return self._places.get(node_id)

    def saw_all(self, told: Mapping[int, Place], now: float) -> Changes:
        """An answer that names every broker of the cluster; one that names none knows nothing."""
        if not told:
            return Changes()
        changes = self.saw(told)
        missing = [node_id for node_id in self.live if node_id not in told]
        self._missing_since |= dict.fromkeys(missing, now)
        return replace(changes, missing=tuple(missing))

    def saw(self, told: Mapping[int, Place]) -> Changes:
        """An answer that names some of them."""
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
        """Those that have been missing for too long; they are not known any more."""
        gone = [node_id for node_id, since in self._missing_since.items() if now - since >= GRACE]
        for node_id in gone:
            del self._places[node_id], self._missing_since[node_id]
        return tuple(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """Which port a broker gets: always the same by its id, or any that is free."""

    port_base: int
    """That of broker 0; 0: free ports."""

    def port_of(self, node_id: int) -> int | None:
        """0 is any; None where the id leads beyond the last port there is."""
        if not self.port_base:
            return 0
        port = self.port_base + node_id
        return port if port <= LAST_PORT else None
