"""Free memory: retained while a server works, and returned to the system once it is idle.

glibc returns free memory at the end of its heap at once, and allocates large blocks by mmap until it has seen one of
the size freed. A rebalance of a thousand members allocates and frees a few large blocks, for the leader's response, the
plan and its record: the system took some 370 pages back after each, and cleared them for the next. So large blocks come
from the heap, and free memory there is retained until the server has been idle for a while.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in malloc.h
_FREE_BYTES_RETAINED: Final = 64 << 20
_MAX_MMAP_THRESHOLD: Final = 32 << 20  # the largest threshold that glibc allows


def retain_free_memory() -> None:
    """Makes the C library retain freed memory for reuse instead of returning it to the system, if it supports that."""
    change = _malloc_function("mallopt")
    change(_TRIM_THRESHOLD, _FREE_BYTES_RETAINED)
    change(_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)


def trim() -> None:
    """Returns freed memory to the system, if the C library supports that (malloc_trim)."""
    _malloc_function("malloc_trim")(0)


@cache
def _malloc_function(name: str) -> Callable[..., object]:
    found = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return found or (lambda *given: None)
