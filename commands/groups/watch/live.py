"""The full-screen mode of `kcoord groups watch`, with keys. The terminal is restored at the end."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Self

import click

from kcoord.admin.groups.snapshot_changes import WatchHistory
from kcoord.admin.waiting import Waits

from ...opening import REPORT_AFTER_ON_TERMINAL
from ...output.keyboard import Keyboard
from ...output.output import Output, is_colored
from .keys import Controls, press
from .screen import Drawn, Frame, draw
from .snapshots import BackgroundReader, SnapshotSource

_STOP_TIMEOUT: Final = 1.0  # seconds that quitting waits for a snapshot in progress
_FIRST_REDRAWS: Final = 1.0  # seconds between screens until the first snapshot is there


def watch_on_screen(
    source: SnapshotSource, output: Output, where: str, waits: Waits, every: timedelta, limit: timedelta | None
) -> None:
    """Runs the full screen of `kcoord groups watch` until the time limit, a key that quits, Ctrl-C or SIGTERM. Errors
    are raised after the terminal is restored.

    Until the first snapshot is there, the screen shows which cluster it is read from, since when, and which of the
    `waits` last long.
    """
    history, controls = WatchHistory(), Controls()
    reader = BackgroundReader(source, every, limit)
    with Keyboard() as keyboard, ScreenView(output, where, waits, keyboard) as view, _signals(view, reader):
        reader.start()
        try:
            view.show(history, controls)
            while not (controls.is_over or reader.is_over):
                keys = keyboard.wait(reader.wakes, None if history.latest else _FIRST_REDRAWS)
                reader.drain_into(history)
                for key in keys:
                    controls = press(controls, key, view.drawn.extent)
                view.show(history, controls)
        finally:
            reader.stop(_STOP_TIMEOUT)


class ScreenView:
    """The full screen of `kcoord groups watch`: it draws on the terminal's alternate screen while it is entered, and
    prints the last screen that shows a snapshot at the end."""

    def __init__(self, output: Output, where: str, waits: Waits, keyboard: Keyboard) -> None:
        from rich.console import Console
        from rich.live import Live

        self._where, self._waits, self._keyboard = where, waits, keyboard
        self._began_at = time.time()
        self._last_screen = ""
        self._is_colored = is_colored(output)
        self._is_wide = output.format == "wide"
        self._console = Console(highlight=False, no_color=not self._is_colored)
        self._live = Live(console=self._console, auto_refresh=False, screen=True, vertical_overflow="crop")
        self.drawn = Drawn()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        if self._last_screen:
            click.echo(self._last_screen, color=True)

    def show(self, watch: WatchHistory, controls: Controls) -> None:
        """Draws the screen again, with the latest snapshot and what the user has chosen by keys."""
        from rich.text import Text

        size = self._console.size
        frame = Frame(
            where=self._where,
            now=time.time(),
            width=size.width,
            height=size.height,
            is_colored=self._is_colored,
            is_wide=self._is_wide,
            has_keys=self._keyboard.is_there,
            began_at=self._began_at,
            waits=self._waits.longer_than(REPORT_AFTER_ON_TERMINAL),
            controls=controls,
        )
        self.drawn = draw(watch, frame)
        if watch.latest is not None:
            self._last_screen = self.drawn.text
        self._live.update(Text.from_ansi(self.drawn.text, no_wrap=True, overflow="crop"), refresh=True)

    def pause(self) -> None:
        """Suspends the process, as Ctrl-Z does, with the terminal restored, and draws the screen again when it is
        continued."""
        self._live.stop()
        self._keyboard.release()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._keyboard.acquire()
        self._live.start()


@contextmanager
def _signals(view: ScreenView, reader: BackgroundReader) -> Iterator[None]:
    """Installs signal handlers: SIGTERM ends the watch as Ctrl-C does, so that the terminal is restored; a resize
    redraws at once."""

    def stop(*_: object) -> None:
        view.pause()
        reader.wake()

    def redraw(*_: object) -> None:
        reader.wake()

    before = [
        (signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler)),
        (signal.SIGTSTP, signal.signal(signal.SIGTSTP, stop)),
        (signal.SIGWINCH, signal.signal(signal.SIGWINCH, redraw)),
    ]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
