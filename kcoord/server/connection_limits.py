"""How many connections there may be, those of clients that are still at a gate included."""

from collections import Counter

from kcoord.settings import Settings


class ConnectionLimits:
    """max.connections and max.connections.per.ip of all listeners together."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_connections
        self._most_per_address = settings.max_connections_per_ip
        self._open = 0
        self._per_address: Counter[str] = Counter()

    def came(self, address: str) -> str | None:
        """Somebody came from there, who is counted until he `went`: which limit he is beyond; None if none."""
        self._open += 1
        self._per_address[address] += 1
        if self._open > self._most:
            return f"max.connections={self._most} are open"
        if self._per_address[address] > self._most_per_address:
            return f"max.connections.per.ip={self._most_per_address} are open from there"
        return None

    def went(self, address: str) -> None:
        self._open -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
