"""Tests of the lines that report long waits for a cluster."""

import threading
from importlib import import_module
from typing import Any

import pytest

from kcoord.admin.waiting import Waits
from tests.commands.terminal import PATIENCE

opening: Any = import_module("kcoord.commands.opening")  # by name: mypy sees the folder, commands/


def test_each_thing_that_is_waited_for_long_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    has_reported = threading.Semaphore(0)

    def talk(line: str) -> None:
        lines.append(line)
        has_reported.release()

    monkeypatch.setattr(opening, "echo_err", talk)
    monkeypatch.setattr(opening, "_POLL_INTERVAL", 0.001)
    waits = Waits()
    with opening.WaitReporter(waits, after=0.0):
        with waits.on("broker 2 at there:9092"):
            assert has_reported.acquire(timeout=PATIENCE)
        with waits.on("broker 2 at there:9092"), waits.on("broker 3 at there:9093"):
            assert has_reported.acquire(timeout=PATIENCE)
    assert lines == ["kcoord: waiting for broker 2 at there:9092", "kcoord: waiting for broker 3 at there:9093"]


def test_what_is_answered_in_a_moment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_POLL_INTERVAL", 0.001)
    monkeypatch.setattr(opening, "echo_err", pytest.fail)
    waits = Waits()
    with opening.WaitReporter(waits, after=PATIENCE), waits.on("broker 2"):
        assert waits.longer_than(PATIENCE) == []
        assert waits.longer_than(0) == ["broker 2"]
