"""A cluster in this process, with its loop in a separate thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kcoord.broker.cluster import Node
from kcoord.client.client import Client
from kcoord.security.listener import Listener
from kcoord.server.runtime import Runtime
from kcoord.server.setup import Setup
from kcoord.settings import Settings

# What either thread would import when it needs it: CPython 3.11 cannot compile in two at once (python/cpython#106905).
for _later in ("kcoord.security.login", "kcoord.client.sasl"):
    import_module(_later)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    runtime: Runtime
    loop: asyncio.AbstractEventLoop

    def client(self, node: int = 1, **options: Any) -> Client:
        found: Node = {int(key): value for key, value in self.runtime.cluster.nodes.items()}[node]
        return Client(found.host, found.port, **options)

    def on_loop(self, read: Callable[[], Any]) -> Any:
        """Calls `read` on the server's thread and returns the result."""

        async def run_read() -> Any:
            return read()

        return asyncio.run_coroutine_threadsafe(run_read(), self.loop).result(60)


Serve = Callable[..., Server]


@contextmanager
def serving(setup: Setup) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:

        async def start() -> Runtime:
            return await Runtime(setup).__aenter__()

        runtime = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
        yield Server(runtime=runtime, loop=loop)
        asyncio.run_coroutine_threadsafe(runtime.__aexit__(None, None, None), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(brokers=2, topics=[("t", 3)], **{"max.connections": "5"})`."""
    with ExitStack() as stack:

        def start(
            brokers: int = 1,
            topics: tuple[tuple[str, int | None], ...] = (),
            listener: Listener | None = None,
            rules: Path | None = None,
            **properties: str,
        ) -> Server:
            settings = Settings.from_properties(properties)
            setup = Setup(brokers=brokers, topics=topics, settings=settings, listener=listener, rules=rules)
            return stack.enter_context(serving(setup))

        yield start
