"""What every process that serves clients has: a loop, a log, memory that is not searched in vain, many files."""

import asyncio
import contextlib
import gc
import logging
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

log = logging.getLogger("kcoord.server")

_COLLECT_AFTER: Final = 20_000
"""Objects: more than a rebalance of a thousand members makes. What requests leave behind is freed without a collector;
it is there for the few circles, and only costs time in a large rebalance."""


def log_to_stderr(*, verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def settle_memory() -> None:
    """What start-up made stays: without it, each collection is short. Not at once: the first clients are waiting."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()


def log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop itself stumbles over, such as a process out of files: one line, and it goes on."""
    log.error("loop %s error=%r", context.get("message"), context.get("exception"))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return None


def allow_many_files() -> None:
    """Every connection is a file; the usual limit of 1,024 is a default for other programs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
