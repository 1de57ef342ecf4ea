"""The seed of a run. A failure names the command that repeats it."""

import os
from typing import Final

SEED: Final = int(os.environ.get("KCOORD_TEST_SEED") or 1)
KILLS: Final = int(os.environ.get("KCOORD_TEST_KILLS") or 20)


def format_failure(wrong: list[str], test: str) -> str:
    """Formats what was found wrong, and the command to repeat the run: threads and kills differ in their timing."""
    again = f"KCOORD_TEST_SEED={SEED} KCOORD_TEST_KILLS={KILLS} pytest {test}"
    return "\n".join([f"{len(wrong)} promises were broken; the same choices are made by", again, *wrong[:50]])
