"""A process as Linux shows it, its memory and its open files; and one that is stopped for a while."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20


_STOP_TIMEOUT = 30.0


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process by SIGSTOP, and continues it at the end. All its threads have stopped when this yields: on
    a busy machine that takes a while after the signal."""
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + _STOP_TIMEOUT
        while not all(state == "T" for state in _thread_states(pid)):
            assert time.monotonic() < deadline, f"process {pid} does not stop"
            time.sleep(0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _thread_states(pid: int) -> Iterator[str]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield (thread / "stat").read_text().rpartition(")")[2].split()[0]


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS")


def peak_resident_bytes(pid: int) -> int:
    """The most resident memory since the process began, or since `forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def open_files(pid: int) -> int:
    """Counts open descriptors, without those of /dev/null: libuv opens one with its first stream."""
    return sum(1 for target in opened(pid) if target != "/dev/null")


def open_sockets(pid: int) -> int:
    return sum(1 for target in opened(pid) if target.startswith("socket:"))


def opened(pid: int) -> list[str]:
    """Returns the target of each file descriptor; those that are closed meanwhile are left out."""
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(str(descriptor.readlink()))
    return targets


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    value = next(line for line in lines if line.startswith(f"{name}:"))
    return int(value.split()[1]) * 1024
