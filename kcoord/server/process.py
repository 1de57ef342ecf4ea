"""Set-up of every process that serves clients: event loop, log, garbage collector, descriptor limit."""

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
"""Objects: more than a rebalance of a thousand members makes. Reference counting frees what requests leave behind; the
collector is for the few cycles, and only costs time in a large rebalance."""


def log_to_stderr(*, verbose: bool) -> None:
    """Sets up logging to stderr, at level DEBUG if verbose, else INFO."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def freeze_gc() -> None:
    """Exempts the objects that start-up made from garbage collection (gc.freeze), so that later collections are short.
    Called once clients are served."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()


def log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an error of the event loop itself in one line, such as a process without file descriptors: an asyncio
    exception handler."""
    log.error("loop %s error=%r", context.get("message"), context.get("exception"))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's loop factory if uvloop is installed, else None."""
    with contextlib.suppress(ImportError):
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return None


def allow_many_files() -> None:
    """Raises the process's soft limit of file descriptors to the hard limit: the common default of 1,024 is too low for
    a server."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
