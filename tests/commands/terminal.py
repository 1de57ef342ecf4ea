"""Runs `kcoord` in a terminal of some width, or in a pipe."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from typing import Final, Self

KCOORD: Final = (sys.executable, "-m", "kcoord.commands")
PATIENCE: Final = 60.0


def quiet_environment(**more: str) -> dict[str, str]:
    """Returns the environment of this process without variables that choose a cluster, a width or colors."""
    without_settings = {name: value for name, value in os.environ.items() if not name.startswith("KCOORD_")}
    return {name: value for name, value in without_settings.items() if name not in ("COLUMNS", "NO_COLOR")} | more


def piped(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KCOORD, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=quiet_environment(**(environment or {})),
        timeout=PATIENCE,
        check=False,
    )


def in_terminal(*arguments: str, columns: int, environment: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
    """Runs a command in a terminal of that width. Returns its exit code, and its stdout as lines."""
    keyboard, screen = pty.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = {"TERM": "xterm-256color", **(environment or {})}
    with subprocess.Popen(
        [*KCOORD, *arguments], stdin=screen, stdout=screen, stderr=subprocess.PIPE, env=quiet_environment(**variables)
    ) as process:
        os.close(screen)
        shown = _read_all(keyboard)
        process.communicate(timeout=PATIENCE)
    return process.returncode, shown.decode().replace("\r\n", "\n").splitlines()


class Terminal:
    """A command in a terminal: its keys can be pressed, and its screen can be read, while it runs."""

    def __init__(
        self, *arguments: str, columns: int = 80, rows: int = 24, has_keyboard: bool = True, piped: bool = False
    ) -> None:
        """Starts the command in a new terminal; `piped` sends stdout elsewhere, so that it shows stderr alone."""
        self._keyboard, self._screen = pty.openpty()
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._mode = termios.tcgetattr(self._screen)
        self.shown = ""
        self.process = subprocess.Popen(
            [*KCOORD, *arguments],
            stdin=self._screen if has_keyboard else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if piped else self._screen,
            stderr=self._screen if piped else subprocess.PIPE,
            env=quiet_environment(TERM="xterm-256color", NO_COLOR="1"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        os.close(self._screen)
        os.close(self._keyboard)

    @property
    def is_as_it_was(self) -> bool:
        """Whether the terminal is in its first mode, and shows its first screen again."""
        entered, left = self.shown.count("\x1b[?1049h"), self.shown.count("\x1b[?1049l")
        return termios.tcgetattr(self._screen) == self._mode and entered == left

    def press(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def wait_for(self, text: str) -> str:
        """Waits until the text is shown in new output, and returns that output."""
        begin = len(self.shown)
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown[begin:]:
            self._read(deadline, f"{text!r} is not shown")
        return self.shown[begin:]

    def wait_for_end(self) -> tuple[int, str]:
        """Waits until the command ends. Returns its exit code and its stderr."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self._read(deadline, "it does not end", at_most=0.1)
        while select.select([self._keyboard], [], [], 0)[0]:
            self._read(deadline, "it does not end")
        _, err = self.process.communicate()
        return self.process.returncode, err.decode()

    def _read(self, deadline: float, complaint: str, at_most: float = PATIENCE) -> None:
        left = deadline - time.monotonic()
        assert left > 0, f"{complaint}: {self.shown[-2000:]!r}"
        if select.select([self._keyboard], [], [], min(left, at_most))[0]:
            self.shown += os.read(self._keyboard, 65536).decode(errors="replace")


def _read_all(keyboard: int) -> bytes:
    """Reads until the other side is closed, which Linux reports as an error."""
    parts = []
    with os.fdopen(keyboard, "rb", buffering=0) as source:
        while True:
            try:
                part = source.read(65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts)
