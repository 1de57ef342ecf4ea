"""Which seed a run has. One that failed says how it is run again."""

import os
from typing import Final

SEED: Final = int(os.environ.get("KCOORD_TEST_SEED") or 1)
KILLS: Final = int(os.environ.get("KCOORD_TEST_KILLS") or 20)


def told(wrong: list[str], test: str) -> str:
    """What was found wrong, and the command to look for it again: threads and kills come as they come."""
    again = f"KCOORD_TEST_SEED={SEED} KCOORD_TEST_KILLS={KILLS} pytest {test}"
    return "\n".join([f"{len(wrong)} promises were broken; the same choices are made by", again, *wrong[:50]])
