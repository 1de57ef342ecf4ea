"""Child processes that end with their parent, are stopped by their own process id, and leave no pipe open.

A test run that is killed by `kill -9` cannot stop its children, so on Linux the kernel does (PDEATHSIG). That must be
requested from inside the child: a preexec_fn may deadlock where the parent has threads, as every user of librdkafka
has, so a tiny Python requests it and then executes the wanted program, under the same process id. The kernel sends the
signal when the *thread* that started the child ends, so only children of the main thread are bound in this way. On
macOS nothing of the kind exists: there a `kill -9` of the parent leaves its children running.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .errors import TimedOutError, tail

# prctl(PR_SET_PDEATHSIG, SIGKILL); the parent's id shows whether the parent died before that call.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def spawn(
    command: Sequence[str],
    *,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: IO[bytes],
    stderr: IO[bytes],
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a command (an absolute path first) as a child process that is killed when this process dies."""
    return subprocess.Popen(  # noqa: S603
        [*_launcher(), *command],
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        # A Ctrl-C in pdb is meant for the test, not for the cluster.
        start_new_session=True,
    )


def stop(process: subprocess.Popen[bytes], *, grace: float) -> None:
    """Sends the process SIGTERM, and kills it if it has not ended after `grace` seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
    if process.stdin:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


class CapturedProcess:
    """A child process whose stdout and stderr go to files, so that it never waits for a reader; a context manager that
    stops it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        folder: tempfile.TemporaryDirectory[str] | None = None,
        stdin: str | None = None,
        grace: float = 10.0,
    ) -> None:
        """Starts the command; standard input is the given text, or stays open for send()."""
        self.name = name
        self._grace = grace
        self._folder = folder or temporary_folder()
        self._final: dict[str, str] | None = None
        try:
            self._process = self._spawn(command, stdin)
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs; a negative signal number if a signal ended it."""
        return self._process.poll()

    def stdout(self) -> str:
        """Returns what the process has written to stdout so far, also after stop()."""
        return self._read("stdout")

    def stderr(self) -> str:
        """Returns what the process has written to stderr so far, also after stop()."""
        return self._read("stderr")

    def send(self, text: str) -> None:
        """Writes to the standard input of the process."""
        assert self._process.stdin, "its standard input was given when it was started"
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def close_input(self) -> None:
        """Closes the standard input of the process."""
        assert self._process.stdin, "its standard input was given when it was started"
        self._process.stdin.close()

    def wait(self, timeout: float) -> int:
        """Waits until the process ends and returns its exit code. Raises TimedOutError, with the end of its output,
        after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimedOutError(f"{self.name} has not ended within {timeout:g} s\n{self.output_tail()}") from None

    def wait_for(self, text: str, *, timeout: float) -> str:
        """Waits until the process has printed a line with this text to stdout, and returns the line. Raises
        TimedOutError if the process ends first, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            has_ended = self.exit_code is not None
            complete = self.stdout().rpartition("\n")[0].splitlines()
            if found := next((line for line in complete if text in line), None):
                return found
            if has_ended:
                raise TimedOutError(
                    f"{self.name} ended with exit code {self.exit_code} without {text!r}\n{self.output_tail()}"
                )
            if time.monotonic() > deadline:
                raise TimedOutError(f"{self.name} has not said {text!r} within {timeout:g} s\n{self.output_tail()}")
            time.sleep(0.02)

    def output_tail(self) -> str:
        """Returns the last lines of the process's stdout and stderr."""
        return f"stdout:\n{tail(self.stdout(), 20)}\nstderr:\n{tail(self.stderr())}"

    def stop(self) -> None:
        """Terminates the process, or kills it after a grace period; may be called again."""
        stop(self._process, grace=self._grace)
        if self._final is None:
            self._final = {"stdout": self.stdout(), "stderr": self.stderr()}
            self._folder.cleanup()

    def kill(self) -> None:
        """Kills the process by SIGKILL."""
        self._process.kill()
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _spawn(self, command: Sequence[str], stdin: str | None) -> subprocess.Popen[bytes]:
        with self._path("stdout").open("wb") as stdout, self._path("stderr").open("wb") as stderr:
            if stdin is None:
                return spawn(command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr)
            # A file instead of a pipe: a tool that ends before it has read everything breaks no pipe.
            self._path("stdin").write_text(stdin)
            with self._path("stdin").open("rb") as source:
                return spawn(command, stdin=source, stdout=stdout, stderr=stderr)

    def _read(self, stream: str) -> str:
        if self._final is not None:
            return self._final[stream]
        return self._path(stream).read_text(errors="replace")

    def _path(self, stream: str) -> Path:
        return Path(self._folder.name, stream)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a new temporary folder, which is deleted at the end of its `with` block."""
    return tempfile.TemporaryDirectory(prefix="kcoord-", ignore_cleanup_errors=True)


def _launcher() -> list[str]:
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return []
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
