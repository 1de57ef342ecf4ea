"""Reads single keys from a terminal, for screens that are scrolled and sorted."""

import os
import re
import select
import sys
import termios
import tty
from typing import Any, Final, Self

# Escape sequences of keys without a character, as sent by xterm, the VT terminals and the Linux console.
_SEQUENCES: Final = {
    "[A": "up",
    "OA": "up",
    "[B": "down",
    "OB": "down",
    "[5~": "page-up",
    "[6~": "page-down",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[7~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
    "[8~": "end",
    "[Z": "shift-tab",
}
_CHARACTERS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x15": "clear",  # Ctrl-U
    "\x1b": "escape",
    "\x04": "q",  # Ctrl-D
    "\x02": "page-up",  # Ctrl-B and Ctrl-F, as in less
    "\x06": "page-down",
}
_KEY: Final = re.compile("\x1b(?P<sequence>\\[[0-?]*[ -/]*[@-~]|O[A-Z])|(?P<character>.)", re.DOTALL)
_SEQUENCE_TIMEOUT: Final = 0.05  # seconds in which the rest of a sequence follows an escape character


def parse_keys(text: str) -> list[str]:
    """Parses the text that a terminal sends for pressed keys into names of keys such as "up", or their characters.
    Unknown escape sequences are ignored."""
    keys = []
    for found in _KEY.finditer(text):
        if sequence := found["sequence"]:
            key = _SEQUENCES.get(sequence)
        else:
            character = found["character"]
            key = _CHARACTERS.get(character, character if character.isprintable() else None)
        if key:
            keys.append(key)
    return keys


class Keyboard:
    """Reads single keys from the terminal of stdin: while it is entered, each key is read at once and not echoed; the
    terminal is restored at the end.

    If stdin is no terminal, there are no keys.
    """

    def __init__(self) -> None:
        self._fd: int | None = _terminal()
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_there(self) -> bool:
        """Whether stdin is a terminal."""
        return self._fd is not None

    def acquire(self) -> None:
        """Puts the terminal into the mode in which each key is read at once and not echoed."""
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)

    def release(self) -> None:
        """Restores the terminal's mode."""
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            self._before = None

    def wait(self, other: int, timeout: float | None = None) -> list[str]:
        """Waits until keys are pressed, which are returned, until the file descriptor `other` is readable, or until the
        timeout in seconds ends."""
        watched = [other] if self._fd is None else [other, self._fd]
        ready, _, _ = select.select(watched, [], [], timeout)
        return self._read() if self._fd in ready else []

    def _read(self) -> list[str]:
        assert self._fd is not None, "no keys without a keyboard"
        data = os.read(self._fd, 1024)
        if data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([self._fd], [], [], _SEQUENCE_TIMEOUT)[0]:
            data += os.read(self._fd, 1024)
        if not data:  # the terminal is gone
            self._fd = None
        return parse_keys(data.decode(errors="ignore"))


def _terminal() -> int | None:
    """Returns the descriptor of stdin, or None if it is no terminal, or closed."""
    try:
        return sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
    except (ValueError, OSError):
        return None
