"""In the place of the transport of a client that has gone, as long as requests of it are left to be decided here."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any


class ClientGone(asyncio.Transport):
    """Stands in for the transport of a client that has gone, while its last requests are still decided: it drops what
    is written. `closed` is called once, when it is closed.
    """

    def __init__(self, closed: Callable[[], None]) -> None:
        super().__init__()
        self._closed: Callable[[], None] | None = closed

    def write(self, data: Any) -> None:
        """Drops the bytes."""

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Drops the bytes."""

    def pause_reading(self) -> None:
        """Does nothing: a client that has gone sends nothing."""

    def resume_reading(self) -> None:
        """Does nothing: a client that has gone sends nothing."""

    def is_closing(self) -> bool:
        return self._closed is None

    def close(self) -> None:
        """Calls `closed`, the first time."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    def abort(self) -> None:
        """Calls `closed`, the first time."""
        self.close()
