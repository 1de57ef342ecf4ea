"""Opening the cluster of a command, with a line on stderr for each long wait."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.opening import open_cluster as open_silently
from kcoord.admin.waiting import Waits

from .output.output import talk

TOLD_AFTER: Final = 2.0  # seconds of waiting, if stderr is a terminal
LOGGED_AFTER: Final = 10.0  # seconds of waiting, if stderr is a file or a pipe
_LOOKS_EVERY: Final = 0.5


@contextmanager
def open_cluster(connection: Connection, *, about: Sequence[str] = ()) -> Iterator[ClusterClient]:
    """Opens a live cluster (see `kcoord.admin.opening`), and prints a line on stderr for each long wait."""
    waits = Waits()
    with WaitLines(waits, after=waits_told_after()), open_silently(connection, about=about, waits=waits) as cluster:
        yield cluster


def waits_told_after() -> float:
    """How long something has been waited for, in seconds, when a line says so."""
    return TOLD_AFTER if sys.stderr.isatty() else LOGGED_AFTER


class WaitLines:
    """Reports each long wait once. It polls the waits in a thread of its own."""

    def __init__(self, waits: Waits, *, after: float) -> None:
        self._waits = waits
        self._after = after
        self._told: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOKS_EVERY):
            for what in self._waits.longer_than(self._after):
                if what not in self._told:
                    self._told.add(what)
                    talk(f"kcoord: waiting for {what}")
