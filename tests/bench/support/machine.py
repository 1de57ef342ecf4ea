"""Where a benchmark ran, in one line, and its results as columns of text."""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from kcoord.testing.jars import KAFKA_VERSION
from kcoord.testing.jvm.java import find_java


def machine() -> str:
    """Describes the machine and the versions in one line."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    java = re.search(r'version "([^"]+)"', find_java().version)
    return (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, Java {java[1] if java else '?'}, Kafka {KAFKA_VERSION}"
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as columns of text, the first row as the head; numbers are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_cell(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cell(text: str, width: int) -> str:
    return text.rjust(width) if re.fullmatch(r"[-+]?[\d.,]+ ?\S{0,8}", text) else text.ljust(width)
