"""Keys of a terminal, one at a time: what a screen that is scrolled and sorted needs of one."""

import os
import re
import select
import sys
import termios
import tty
from typing import Any, Final, Self

# What terminals send for keys that have no character: xterm's, the VT's, and those of the Linux console.
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
_REST_OF_A_KEY: Final = 0.05  # seconds in which what follows an escape character comes, if it is not that key itself


def parse_keys(text: str) -> list[str]:
    """The names of keys, or their characters; sequences that are not known are no keys."""
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
    """The terminal that stdin is, in a mode in which each key comes at once and is not shown; as it was, afterwards.

    If stdin is no terminal there is no keyboard, and it has no keys.
    """

    def __init__(self) -> None:
        self._fd: int | None = _terminal()
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    @property
    def is_there(self) -> bool:
        return self._fd is not None

    def take(self) -> None:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)

    def give_back(self) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            self._before = None

    def wait(self, other: int, timeout: float | None = None) -> list[str]:
        """Until keys are pressed, which are returned, or the other descriptor can be read, or the time is over."""
        watched = [other] if self._fd is None else [other, self._fd]
        ready, _, _ = select.select(watched, [], [], timeout)
        return self._read() if self._fd in ready else []

    def _read(self) -> list[str]:
        assert self._fd is not None, "no keys without a keyboard"
        data = os.read(self._fd, 1024)
        if data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([self._fd], [], [], _REST_OF_A_KEY)[0]:
            data += os.read(self._fd, 1024)
        if not data:  # the terminal is gone
            self._fd = None
        return parse_keys(data.decode(errors="ignore"))


def _terminal() -> int | None:
    """stdin's descriptor; None if it is no terminal, or closed."""
    try:
        return sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
    except (ValueError, OSError):
        return None
