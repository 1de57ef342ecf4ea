"""Tests of a pipeline job's progress where stderr is no terminal."""

import re
import time
from importlib import import_module
from typing import Any

import pytest

module: Any = import_module("kcoord.commands.pipeline.progress")  # by name: mypy sees the folder, commands/
PATIENCE = 20.0


def test_a_stage_that_has_nothing_to_say_says_now_and_then_that_it_goes_on_and_when(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(module, "_MAX_SILENCE", 0.05)
    stderr = ""
    with module.Stages() as stages:
        stages.begin("following")
        deadline = time.monotonic() + PATIENCE
        while stderr.count("\n") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
            stderr += capsys.readouterr().err
    for line in stderr.splitlines():
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ following: \d+ s", line)


def test_a_stage_that_speaks_needs_no_other_sign_of_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_POLL_INTERVAL", 0.01)
    with module.Stages() as stages:
        stages.begin("following")
        stages.print_line("12 records")
        time.sleep(0.1)
        assert capsys.readouterr().err == "12 records\n"
    assert capsys.readouterr().err == "following: 0 s\n"
