"""In the place of the transport of a client that has gone, as long as requests of it are left to be decided here."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any


class ClientGone(asyncio.Transport):
    """Drops what is written. `closed` is called once, when it is closed."""

    def __init__(self, closed: Callable[[], None]) -> None:
        super().__init__()
        self._closed: Callable[[], None] | None = closed

    def write(self, data: Any) -> None: ...

    def writelines(self, list_of_data: Iterable[Any]) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self._closed is None

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    def abort(self) -> None:
        self.close()
