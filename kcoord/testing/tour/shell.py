"""Runs the tour's command lines: each is split as a shell does, and run by the kcoord that is installed here.

They run in a temporary folder that is also their home for configuration, so that the user's contexts have no effect
and files that they write are gone at the end. Commands in the background end with the tour, however it ends.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ..errors import tail
from ..process import CapturedProcess, temporary_folder
from .step import Event, Printed, Remark, TourFailed, Typed

_TIMEOUT = 60.0


class Job(NamedTuple):
    """A command line of the tour that runs in the background, under the number that a shell gives it: one more than the
    highest that runs."""

    number: int
    process: CapturedProcess


class TourShell:
    """Runs the command lines of the tour (`kcoord demo`) one after the other, or in the background until it is
    closed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(temporary_folder())
        self._running: set[int] = set()  # numbers of jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def run(self, line: str, *, exit_code: int = 0) -> Iterator[Event]:
        """Runs a command line to its end, and yields the events that the tour shows. Raises TourFailed, with its last
        lines, if it ends with another exit code."""
        yield Typed(line=line)
        try:
            done = subprocess.run(  # noqa: S603 - the tour's own lines
                program_of(line),
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise TourFailed(f"`{line}` has not ended within {_TIMEOUT:.0f} s") from None
        if done.returncode != exit_code:
            raise TourFailed(f"`{line}` ended with exit code {done.returncode}: {tail(done.stdout, 5)}")
        yield Printed(text=done.stdout)

    def start(self, line: str) -> CapturedProcess:
        """Starts a command line in the background, without an event; it is stopped when the shell is closed."""
        return self._stack.enter_context(CapturedProcess(program_of(line), name=line))

    def background(self, line: str, process: CapturedProcess | None = None) -> Generator[Event, None, Job]:
        """Starts a command line in the background, unless its process is given, yields the events that the tour shows,
        and returns the job."""
        yield Typed(line=f"{line} &")
        job = Job(max(self._running, default=0) + 1, process or self.start(line))
        self._running.add(job.number)
        yield Printed(text=f"[{job.number}] {job.process.pid}")
        return job

    def kill(self, jobs: Sequence[Job], number: signal.Signals = signal.SIGTERM) -> Iterator[Event]:
        """Ends jobs by a signal, and yields the event that shows the `kill` with their numbers, which are the same in
        the shell of whoever copies the line."""
        option = "-9 " if number is signal.SIGKILL else ""
        yield Typed(line=f"kill {option}" + " ".join(f"%{job.number}" for job in jobs))
        for job in jobs:
            os.kill(job.process.pid, number)
            self._running.remove(job.number)

    def _environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("KCOORD_", "_KCOORD_"))}
        return {**ours, "HOME": self._folder, "XDG_CONFIG_HOME": self._folder, "NO_COLOR": "1"}


def program_of(line: str) -> list[str]:
    """Returns the arguments of a command line of the tour, with the path of its program first."""
    program, *arguments = shlex.split(line)
    if program == "python":
        return [sys.executable, *arguments]
    assert program == "kcoord", f"the tour has no program {program}"
    script = Path(sys.executable).with_name("kcoord")
    if script.exists():
        return [str(script), *arguments]
    return [sys.executable, "-m", "kcoord.commands", *arguments]


def activation_remark() -> Iterator[Event]:
    """Yields a remark on how to put `kcoord` on the PATH, if the shell that started the tour does not have it."""
    folder = Path(sys.executable).parent
    if shutil.which("kcoord") is None and (folder / "activate").exists():
        yield Remark(text=f"To copy the command lines, first: . {shlex.quote(str(folder / 'activate'))}")
