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

from .output.output import echo_err

REPORT_AFTER_ON_TERMINAL: Final = 2.0  # seconds of waiting, if stderr is a terminal
REPORT_AFTER_IN_LOG: Final = 10.0  # seconds of waiting, if stderr is a file or a pipe
_POLL_INTERVAL: Final = 0.5


@contextmanager
def open_cluster(connection: Connection, *, about: Sequence[str] = ()) -> Iterator[ClusterClient]:
    """Connects an admin client to a live cluster for a command (see `kcoord.admin.opening`), and prints a line on
    stderr for each long wait."""
    waits = Waits()
    with WaitReporter(waits, after=wait_report_delay()), open_silently(connection, about=about, waits=waits) as cluster:
        yield cluster


def wait_report_delay() -> float:
    """Returns how many seconds a command waits for the cluster before it prints a line about it."""
    return REPORT_AFTER_ON_TERMINAL if sys.stderr.isatty() else REPORT_AFTER_IN_LOG


class WaitReporter:
    """A thread that prints a line on stderr once for each wait of a command, such as for a broker's response, that has
    lasted for `after` seconds."""

    def __init__(self, waits: Waits, *, after: float) -> None:
        self._waits = waits
        self._after = after
        self._reported: set[str] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._is_over.wait(_POLL_INTERVAL):
            for what in self._waits.longer_than(self._after):
                if what not in self._reported:
                    self._reported.add(what)
                    echo_err(f"kcoord: waiting for {what}")
