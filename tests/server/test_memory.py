"""Free memory is retained while a server works and returned when it is idle. Settings of malloc last, so each test has
its separate process."""

import subprocess
import sys

PIECES = """
import resource
from kcoord.server.memory import trim, retain_free_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        [bytearray(b"x") * (1 << 20) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""


def printed_by(program: str) -> list[int]:
    ran = subprocess.run([sys.executable, "-c", PIECES + program], capture_output=True, text=True, check=True)
    return [int(line) for line in ran.stdout.split()]


def test_pages_of_what_is_made_and_freed_again_and_again_are_kept() -> None:
    before, retained = printed_by("print(faults()); retain_free_memory(); faults(); print(faults())")
    assert before > 100 * 500, "four pieces of 1 MiB have 1,024 pages, of which some are kept anyway"
    assert retained < 1000


def test_what_is_kept_can_be_given_back() -> None:
    retained, given_back = printed_by("retain_free_memory(); faults(); print(faults()); trim(); print(faults())")
    assert given_back > retained + 500, "they are taken again, once"
