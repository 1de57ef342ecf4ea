"""The memory and the open files of a process, as Linux shows them."""

import contextlib
from pathlib import Path

MIB = 1 << 20


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
