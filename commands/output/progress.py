"""A progress bar for slow steps: on stderr, only on a terminal, and removed at the end."""

import sys
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress

SHOW_AFTER: Final = 1.0  # seconds


def progress(label: str, total: int | None = None) -> "ProgressBar":
    """Makes a progress bar on stderr: `with progress("reading groups", 100) as bar: … bar.advance()`."""
    return ProgressBar(label, total)


class ProgressBar:
    """A progress bar on stderr, shown as soon as the step takes longer than a second, and only on a terminal. Any
    thread may count."""

    def __init__(self, label: str, total: int | None = None) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._lock = Lock()
        self._bar: Progress | None = None
        self._is_over = False
        self._timer = Timer(SHOW_AFTER, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def advance(self, count: int = 1) -> None:
        """Adds to the number of items that are done."""
        with self._lock:
            self._done += count
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._is_over:
                return
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # data that is written to stdout meanwhile stays there
            )
            self._bar.add_task(self._label, total=self._total, completed=self._done)
            self._bar.start()
