"""How long the pipeline takes for a small log: python -m tests.bench.pipeline_small [PYTHON]

A log folder of 21 MB (see `small_cluster`) is decoded, its rebalances and its lag are shown and a report is made, by a
command each; then a report is made of the segments in one go. With PYTHON, the interpreter of another installation of
kcoord, an older one as a rule, each command is run by both in turn, so that both meet the same machine.

CPU seconds are those of the command, of its JVM and of all Python workers; other work on the machine disturbs them less
than the clock.
"""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.support.machine import machine, table
from tests.bench.support.pipeline_job import Took
from tests.bench.support.small_cluster import write_small_cluster

PR_SET_CHILD_SUBREAPER = 36
IN_ONE_GO = "report of segments"
COMMANDS = {
    "decode": ("decode", "{logs}", "--out", "{folder}/tables"),
    "rebalances": ("rebalances", "{folder}/tables"),
    "lag": ("lag", "{folder}/tables"),
    "report": ("report", "{folder}/tables", "--out", "{folder}/report.html"),
    IN_ONE_GO: ("report", "{logs}", "--out", "{folder}/in-one-go.html"),
}


def main(*others: str) -> None:
    pythons = {"before": others[0], "now": sys.executable} if others else {"now": sys.executable}
    with tempfile.TemporaryDirectory(prefix="kcoord-bench-") as folder:
        size = write_small_cluster(Path(folder, "logs"))
        print(f"the pipeline on {size / 1e6:.1f} MB of segments\n{machine()}\n", flush=True)
        took: dict[str, dict[str, Took]] = {name: {} for name in COMMANDS}
        for command, arguments in COMMANDS.items():
            for label, python in pythons.items():
                label_folder = Path(folder, label)
                label_folder.mkdir(exist_ok=True)
                filled = [each.format(logs=f"{folder}/logs", folder=label_folder) for each in arguments]
                took[command][label] = run([python, "-m", "kcoord.commands", "pipeline", *filled], folder=label_folder)
                print(f"{command}, {label}: {took[command][label]}", file=sys.stderr, flush=True)
    print(table(rows_of(took, [*pythons])), "\n")


def rows_of(took: dict[str, dict[str, Took]], labels: Sequence[str]) -> list[list[str]]:
    """Returns the table: a row for each command, and one for the commands that run one after another."""
    head = ["kcoord pipeline", *(f"{label}, {unit}" for label in labels for unit in ("seconds", "CPU s"))]
    one_by_one = [each for name, each in took.items() if name != IN_ONE_GO]
    sums = {
        label: Took(wall=sum(each[label].wall for each in one_by_one), cpu=sum(each[label].cpu for each in one_by_one))
        for label in labels
    }
    lines = {**took, "the four commands": sums}
    return [
        head,
        *(
            [name, *(f"{value:.1f}" for label in labels for value in (each[label].wall, each[label].cpu))]
            for name, each in lines.items()
        ),
    ]


def run(command: Sequence[str], *, folder: Path) -> Took:
    """Runs a command to its end, and waits for all processes that it has started: a JVM outlives its parent by a
    moment.

    The command runs in a separate folder, since `python -m` would import the kcoord of the current folder.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cpu, start = _children_cpu(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    wall = time.perf_counter() - start
    assert done.returncode == 0, done.stderr
    while _has_children():
        os.wait()
    return Took(wall=wall, cpu=_children_cpu() - cpu)


def _has_children() -> bool:
    return bool(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*sys.argv[1:])
