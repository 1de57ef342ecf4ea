"""Running `kcoord` as its users do: in a terminal of some width, or in a pipe."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from typing import Final

KCOORD: Final = (sys.executable, "-m", "kcoord.commands")
PATIENCE: Final = 60.0


def quiet_environment(**more: str) -> dict[str, str]:
    """Ours, without what would choose a cluster, a width or colors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KCOORD_")}
    return {name: value for name, value in kept.items() if name not in ("COLUMNS", "NO_COLOR")} | more


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
    """The exit code, and what a terminal of that width gets on stdout, as lines."""
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


def _read_all(keyboard: int) -> bytes:
    """Until the other side is closed, which Linux tells as an error."""
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
