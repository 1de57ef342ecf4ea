"""Memory that is free, given back to the system.

glibc keeps what was freed for the next time, which after a burst of large answers is most of the process. While a
server works, that is as it should be; once it has nothing to do, others may have it.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Let go of free memory, where the C library can."""
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return trim or (lambda pad: None)
