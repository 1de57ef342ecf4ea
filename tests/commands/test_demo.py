"""Tests of `kcoord demo`: without a terminal, with one, twice, ended early, and failing."""

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcoord.testing.tour.shell import TourShell, program_of
from kcoord.testing.tour.step import Printed, TourFailed, Typed

_DEMO = [sys.executable, "-m", "kcoord.commands", "demo"]
_ROOT = Path(__file__).parents[2]


def test_the_tour_tells_three_stories_by_real_command_lines_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        _DEMO, capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path, env=_environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("$ ") for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [line.split()[:3] for line in lines if line.startswith("kcoord") and "serve" not in line] == [
        ["kcoord", noun, verb]
        for noun, verb in (
            ("groups", "describe"),
            ("groups", "describe"),
            ("groups", "list"),
            ("groups", "describe"),
            ("groups", "doctor"),
            ("offsets", "reset"),
            ("offsets", "reset"),
            ("groups", "lag"),
            ("offsets", "undo"),
            ("groups", "lag"),
            ("offsets", "copy"),
            ("offsets", "copy"),
            ("offsets", "diff"),
            ("groups", "describe"),
        )
    ]
    assert "expired" in done.stdout
    assert "0 differences; 6 offsets the same." in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert _processes_that_name(lines) == []
    _assert_that_kills_can_be_copied(lines)


def test_the_tour_runs_in_a_terminal(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        _DEMO, stdin=its, stdout=its, stderr=its, cwd=tmp_path, env=_environment(tmp_path), start_new_session=True
    ) as process:
        os.close(its)
        shown = b"".join(_read(ours))
        os.close(ours)
        assert process.wait(200) == 0, shown
    assert b"0 differences; 6 offsets the same." in shown


def test_a_tour_that_is_ended_early_stops_what_it_has_started(tmp_path: Path) -> None:
    with subprocess.Popen(
        _DEMO, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=_environment(tmp_path)
    ) as process:
        assert process.stdout
        seen: list[str] = []
        while not seen or not seen[-1].startswith("[4] "):
            seen.append(process.stdout.readline())
            assert seen[-1], seen
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
    assert _processes_that_name([line[2:] for line in seen if line.startswith("$ ")]) == []


def test_a_command_line_that_fails_is_named_with_its_last_words() -> None:
    with TourShell() as shell:
        events = shell.run("kcoord offsets reset")
        assert next(events) == Typed(line="kcoord offsets reset")
        with pytest.raises(TourFailed, match="`kcoord offsets reset` ended with exit code 2: "):
            next(events)


def test_what_a_command_line_prints_is_what_the_installed_command_prints() -> None:
    with TourShell() as shell:
        _, printed = shell.run("kcoord --version")
    direct = subprocess.run(program_of("kcoord --version"), capture_output=True, text=True, check=True)
    assert printed == Printed(text=direct.stdout)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_tour_installs_kcoord_alone_and_the_tests_add_to_it(tmp_path: Path) -> None:
    """A program that records its arguments replaces pip and venv."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(_ROOT / name, tmp_path / name)
    fake = tmp_path / "fake-python"
    fake.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {shlex.quote(str(tmp_path / "asked"))}\n'
        'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/kcoord"; fi\n'
    )
    fake.chmod(0o755)

    def installed(target: str) -> list[str]:
        (tmp_path / "asked").write_text("")
        subprocess.run(["make", target, f"PYTHON={fake}"], cwd=tmp_path, check=True, capture_output=True)
        return [line.split()[-1] for line in (tmp_path / "asked").read_text().splitlines() if "pip install" in line]

    assert [installed(target) for target in ("demo", "demo", "env", "env", "demo")] == [
        ["."],
        [],
        [".[test,pipeline]"],
        [],
        [],
    ]
    shutil.rmtree(tmp_path / ".venv")
    assert [installed(target) for target in ("env", "demo")] == [[".[test,pipeline]"], []]


def _assert_that_kills_can_be_copied(lines: list[str]) -> None:
    """Asserts that kill uses job numbers, since process ids differ in the reader's shell."""
    jobs: dict[int, str] = {}
    killed: list[str] = []
    for line in lines:
        if line.endswith(" &"):  # bash numbers a new job after the highest that still runs
            jobs[max(jobs, default=0) + 1] = "serve" if " serve " in line else "member"
        elif line.startswith("kill"):
            words = [word for word in line.split()[1:] if word != "-9"]
            assert all(re.fullmatch("%[1-9]", word) for word in words), line
            killed += [jobs.pop(int(word[1:])) for word in words]
    assert killed == ["member"] * 3 + ["serve"] * 2


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder)}


def _read(descriptor: int) -> list[bytes]:
    chunks: list[bytes] = []
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # raised by Linux when the other side of a terminal is closed
            return chunks
        if not chunk:
            return chunks
        chunks.append(chunk)


def _processes_that_name(lines: list[str]) -> list[str]:
    """Returns the running processes whose command line has an address of the tour."""
    addresses = {word for line in lines for word in line.split() if word.startswith("127.0.0.1:")}
    assert addresses
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in running if any(address in line for address in addresses)]
