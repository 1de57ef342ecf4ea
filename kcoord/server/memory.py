"""Memory that is free: kept while a server works, given back to the system once it has nothing to do.

glibc gives back at once what is free at the end of its heap, and large pieces each by itself, until it has seen one as
large freed. A rebalance of a thousand members makes and frees a few of them, for the answer to its leader, the plan and
its record: the system took some 370 pages back after each, and cleared them for the next. So large pieces come from the
heap, and what is free there is kept, until nobody has asked for anything for a while.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h names them, with M_ before
_FREE_BYTES_KEPT: Final = 64 << 20
_LARGEST_PIECE: Final = 32 << 20  # the largest that may be


def keep_what_is_free() -> None:
    """From now on, where the C library can."""
    change = _of_malloc("mallopt")
    change(_TRIM_THRESHOLD, _FREE_BYTES_KEPT)
    change(_MMAP_THRESHOLD, _LARGEST_PIECE)


def give_back() -> None:
    """Let go of free memory, where the C library can."""
    _of_malloc("malloc_trim")(0)


@cache
def _of_malloc(name: str) -> Callable[..., object]:
    found = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return found or (lambda *given: None)
