"""A process that serves: its loop, its log, its signals."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from kcoord.server.runtime import Runtime
from kcoord.server.setup import Setup

log = logging.getLogger("kcoord.server")

_COLLECT_AFTER: Final = 20_000
"""Objects: more than a rebalance of a thousand members makes. What requests leave behind is freed without a collector;
it is there for the few circles, and only costs time in a large rebalance."""


def run(setup: Setup, ready: Callable[[Runtime], None], *, verbose: bool = False) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is called once clients can connect."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    _allow_many_files()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(setup, ready))


async def _serve(setup: Setup, ready: Callable[[Runtime], None]) -> None:
    asyncio.get_running_loop().set_exception_handler(_log_fault)
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    async with Runtime(setup) as runtime:
        log.info("serving bootstrap=%s cluster=%s", runtime.bootstrap, runtime.cluster.cluster_id)
        ready(runtime)
        asyncio.get_running_loop().call_later(1, _settle_memory)
        await stopped.wait()
        log.info("stopping connections=%s", len(runtime.connections))


def _settle_memory() -> None:
    """What start-up made stays: without it, each collection is short. Not at once: the first clients are waiting."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()


def _log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the loop itself stumbles over, such as a process out of files: one line, and it goes on."""
    log.error("loop %s error=%r", context.get("message"), context.get("exception"))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return None


def _allow_many_files() -> None:
    """Every connection is a file; the usual limit of 1,024 is a default for other programs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
