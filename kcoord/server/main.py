"""The process of `kcoord serve`: its loop, its log, its signals."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kcoord.server.process import allow_many_files, freeze_gc, log_fault, log_to_stderr, loop_factory
from kcoord.server.runtime import Runtime
from kcoord.server.setup import Setup

log = logging.getLogger("kcoord.server")


def run(
    setup: Setup,
    ready: Callable[[Runtime], None],
    *,
    verbose: bool = False,
    metrics: socket.socket | None = None,
) -> None:
    """Runs `kcoord serve` until SIGINT or SIGTERM. `ready` is called once clients can connect; `metrics` is a listening
    socket for Prometheus.
    """
    log_to_stderr(verbose=verbose)
    allow_many_files()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(setup, ready, metrics))


async def _serve(setup: Setup, ready: Callable[[Runtime], None], metrics: socket.socket | None) -> None:
    asyncio.get_running_loop().set_exception_handler(log_fault)
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    async with _serving(setup, metrics) as runtime:
        log.info("serving bootstrap=%s cluster=%s", runtime.bootstrap, runtime.cluster.cluster_id)
        ready(runtime)
        asyncio.get_running_loop().call_later(1, _tune_memory)
        await stopped.wait()
        log.info("stopping connections=%s", len(runtime.connections))


def _tune_memory() -> None:
    from kcoord.server.memory import retain_free_memory  # importing ctypes takes its time

    freeze_gc()
    retain_free_memory()


def _serving(setup: Setup, metrics: socket.socket | None) -> AbstractAsyncContextManager[Runtime]:
    if metrics is None:
        return Runtime(setup)
    from kcoord.server.metrics.metrics_source import (
        instrumented,  # only with --metrics: importing aiohttp takes its time
    )

    return instrumented(setup, metrics)
