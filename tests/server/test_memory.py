"""Free memory is retained while a server works and returned when it is idle. Settings of malloc last, so each test has
its separate process."""

import subprocess
import sys

PIECES = """
import resource
from kcoord.server.memory import give_back, keep_what_is_free

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        [bytearray(b"x") * (1 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""


def told_by(program: str) -> list[int]:
    ran = subprocess.run([sys.executable, "-c", PIECES + program], capture_output=True, text=True, check=True)
    return [int(line) for line in ran.stdout.split()]


def test_pages_of_what_is_made_and_freed_again_and_again_are_kept() -> None:
    before, kept = told_by("print(faults()); keep_what_is_free(); faults(); print(faults())")
    assert before > 100 * 500, "four pieces of 1 MiB have 1,024 pages, of which some are kept anyway"
    assert kept < 1000


def test_what_is_kept_can_be_given_back() -> None:
    kept, given_back = told_by("keep_what_is_free(); faults(); print(faults()); give_back(); print(faults())")
    assert given_back > kept + 500, "they are taken again, once"
