"""Tests of the progress bar: on a terminal, on stderr, removed at the end."""

import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

module: Any = import_module("kcoord.commands.output.progress")  # by name: mypy sees the folder, commands/
PATIENCE = 20.0


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, *, patience: float = 0.0) -> Iterator[int]:
    """Yields a terminal's view of stderr. It is no fixture, since pytest replaces stderr in each phase of a test."""
    monkeypatch.setattr(module, "SHOW_AFTER", patience)
    monkeypatch.setenv("TERM", "xterm")
    keyboard, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    with os.fdopen(side, "w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        yield keyboard
    os.close(keyboard)


def see(screen: int, text: str) -> str:
    deadline = time.monotonic() + PATIENCE
    seen = ""
    while text not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([screen], [], [], 0.5)[0]:
            seen += os.read(screen, 65536).decode()
    return seen


def test_a_bar_counts_on_a_terminal_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen:
        with module.progress("reading groups", 10) as bar:
            assert "reading groups" in see(screen, "0/10")
            bar.advance(4)
            bar.advance()
            see(screen, "5/10")
        see(screen, "\x1b[1A\x1b[2K")  # the line is erased


def test_a_bar_counts_without_knowing_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen, module.progress("reading groups") as bar:
        bar.advance(3)
        see(screen, "3/?")


def test_data_on_stdout_stays_there_while_a_bar_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal(monkeypatch) as screen, module.progress("reading groups", 10):
        see(screen, "reading groups")
        sys.stdout.write("data\n")
    assert capsys.readouterr().out == "data\n"


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOW_AFTER", 0.0)
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with module.progress("reading groups", 10) as bar:
        bar.advance(10)
    assert stderr.getvalue() == ""


def test_what_is_done_within_a_moment_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, patience=3600.0) as screen:
        with module.progress("reading groups", 10) as bar:
            bar.advance(10)
        assert not select.select([screen], [], [], 0)[0]
