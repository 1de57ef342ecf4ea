"""The proxy's process: event loop, logging, signals."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext

from kcoord.proxy.forwarding.interceptors import Interceptor, MetricsSink
from kcoord.proxy.proxy import Proxy
from kcoord.proxy.setup import ProxySetup
from kcoord.server.process import allow_many_files, freeze_gc, log_fault, log_to_stderr, loop_factory

log = logging.getLogger("kcoord.proxy")

InterceptorFactory = Callable[[Proxy], AbstractAsyncContextManager[Interceptor]]
"""Makes one interceptor, as an async context manager that spans the time in which the proxy serves."""
OuterContext = Callable[[Proxy], AbstractAsyncContextManager[object]]
"""Makes a context that is entered before the proxy, which may have to wait for its upstream, and left after it."""


def run(
    setup: ProxySetup,
    ready: Callable[[Proxy], None],
    *,
    factories: Sequence[InterceptorFactory] = (),
    metrics: MetricsSink | None = None,
    outer: OuterContext = lambda proxy: nullcontext(),
    verbose: bool = False,
) -> None:
    """Runs `kcoord proxy` until SIGINT or SIGTERM. Calls `ready` once clients can connect."""
    log_to_stderr(verbose=verbose)
    allow_many_files()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_forward(setup, ready, factories, metrics, outer))


async def _forward(
    setup: ProxySetup,
    ready: Callable[[Proxy], None],
    factories: Sequence[InterceptorFactory],
    metrics: MetricsSink | None,
    outer: OuterContext,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_fault)
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    async with AsyncExitStack() as stack:
        starting = asyncio.ensure_future(_start(stack, setup, factories, metrics, outer))
        stopping = asyncio.ensure_future(stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # It still waits for its upstream, and a signal came.
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        proxy = starting.result()
        log.info("forwarding bootstrap=%s brokers=%s", proxy.bootstrap, len(proxy.brokers.known))
        ready(proxy)
        loop.call_later(1, freeze_gc)
        await stopping
        log.info("stopping connections=%s", len(proxy.clients))


async def _start(
    stack: AsyncExitStack,
    setup: ProxySetup,
    factories: Sequence[InterceptorFactory],
    metrics: MetricsSink | None,
    outer: OuterContext,
) -> Proxy:
    proxy = Proxy(setup, metrics)
    await stack.enter_async_context(outer(proxy))
    await stack.enter_async_context(proxy)
    interceptors = [await stack.enter_async_context(make(proxy)) for make in factories]
    await proxy.serve(interceptors)
    return proxy
