"""What a process and its descendants have used, by /proc: processor time, and the most memory since a moment."""

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> dict[int, str]:
    """Returns the process and its current descendants, with their names."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (found := _stat(int(folder.name))):
            names[int(folder.name)], fields = found
            parents[int(folder.name)] = int(fields[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {each: names[each] for each in sorted(family) if each in names}


def cpu_seconds(pids: dict[int, str]) -> dict[int, float]:
    """Returns the processor time of each process."""
    return {each: sum(map(int, found[1][11:13])) / _TICKS for each in pids if (found := _stat(each))}


def cpu_between(before: dict[int, float], after: dict[int, float]) -> float:
    """Returns the processor time of the processes that still exist."""
    return sum(seconds - before.get(each, 0.0) for each, seconds in after.items())


def forget_most_memory(pids: dict[int, str]) -> None:
    for each in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{each}/clear_refs").write_text("5")


def most_memory(pids: dict[int, str]) -> dict[str, float]:
    """Returns the peak memory in MB by process name, added up."""
    found: dict[str, float] = {}
    for each, name in pids.items():
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            line = next(line for line in lines if line.startswith("VmHWM"))
            found[name] = found.get(name, 0) + int(line.split()[1]) / 1000
    return found


def _stat(pid: int) -> tuple[str, list[str]] | None:
    """Returns the name, and the fields after it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return None
    start, end = text.index("("), text.rindex(")")
    return text[start + 1 : end], text[end + 2 :].split()
