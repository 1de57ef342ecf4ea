"""Limits of the number of connections, pre-auth connections included."""

import logging
from collections import Counter
from typing import Final

from kcoord.server.listener.descriptors import connection_capacity, descriptor_limit, open_descriptors
from kcoord.settings import Settings

log = logging.getLogger("kcoord.server")

_UNLIMITED: Final = Settings().max_connections


class ConnectionLimits:
    """Enforces max.connections and max.connections.per.ip over all listeners together."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_connections
        self._limit_text = f"max.connections={self._most} are open"
        self._most_per_address = settings.max_connections_per_ip
        self._open = 0
        self._per_address: Counter[str] = Counter()

    @property
    def most(self) -> int:
        """The limit of all connections together."""
        return self._most

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self._open

    def cap_by_descriptors(self, *, per_client: int = 1) -> None:
        """Lowers the limit to the number of clients that the process has file descriptors for, `per_client` each."""
        limit = descriptor_limit()
        room = connection_capacity(limit, opened=open_descriptors(), per_client=per_client)
        if room >= self._most:
            return
        if self._most != _UNLIMITED:
            log.warning("max.connections=%s: RLIMIT_NOFILE=%s leaves room for %s", self._most, limit, room)
        self._most = room
        self._limit_text = f"max.connections={room} are open, as RLIMIT_NOFILE={limit} leaves room for no more"

    def refusal(self, address: str) -> str | None:
        """Returns a text that names the limit that one more connection from the address would exceed, or None if it is
        allowed.
        """
        if self._open >= self._most:
            return self._limit_text
        return self._address_limit_text() if self._per_address[address] >= self._most_per_address else None

    def add(self, address: str) -> str | None:
        """Counts a connection from the address until `remove`; returns a text that names the limit that it exceeds, or
        None.
        """
        self._open += 1
        self._per_address[address] += 1
        if self._open > self._most:
            return self._limit_text
        return self._address_limit_text() if self._per_address[address] > self._most_per_address else None

    def remove(self, address: str) -> None:
        """Stops counting a connection from the address."""
        self._open -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def _address_limit_text(self) -> str:
        return f"max.connections.per.ip={self._most_per_address} are open from there"
