"""Preloading: modules that are normally imported on first use are imported before descriptors run short.

A server starts sooner and takes less memory if it imports modules on first use. An import takes a descriptor, so a
process with many clients imports the rest in advance, in steps, with others served in between. Until that is done, and
if it fails, imports use the reserve of descriptors (listener/descriptors.py).
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from kcoord.api.table import SERVED

log = logging.getLogger("kcoord.server")

_COMMON_MODULES: Final = ("crc32c", "tempfile", "kcoord.server.memory", "kcoord.server.groups.group_runtime")
_SERVER_MODULES: Final = (
    "kcoord.broker.fetch_sessions",
    "kcoord.broker.offsets_topic",
    "kcoord.broker.topics",
    "kcoord.security.login",
    "kcoord.server.authorization.group_apis",
    "kcoord.server.authorization.record_apis",
    "kcoord.server.authorization.topic_apis",
    "kcoord.server.groups.compactor",
)
_PROXY_MODULES: Final = ("kcoord.client.listener_probe", "kcoord.client.sasl", "kcoord.client.tls")


def preload_server() -> Iterator[None]:
    """Imports the modules that a server may need later, one API version per step, before file descriptors run short."""
    from kcoord.server.dispatch.routes import route_for

    yield from _import_all(_COMMON_MODULES + _SERVER_MODULES)
    for api in SERVED.values():
        for version in api.versions:
            route_for(api.key, version)
            yield


def preload_proxy(versions: Mapping[int, range]) -> Iterator[None]:
    """Imports the modules that a proxy may need later to read or rewrite these versions of APIs, one per step, before
    file descriptors run short.
    """
    from kcoord.protocol.codec import codec, known_versions

    yield from _import_all(_COMMON_MODULES + _PROXY_MODULES)
    for api in SERVED.values():
        if api.is_group_api and api.key in versions:
            assert api.module
            yield
    for api_key, wanted in versions.items():
        known = known_versions(api_key)
        for version in wanted:
            if version in known:
                codec(api_key, version)
                yield


async def run_in_slices(steps: Iterator[None]) -> None:
    """Runs all steps of a generator, sleeping after each for as long as it took, so that requests are served in
    between.
    """
    try:
        began = time.monotonic()
        for _ in steps:
            await asyncio.sleep(time.monotonic() - began)
            began = time.monotonic()
    except (ImportError, OSError) as error:  # the modules are imported on first use instead
        log.warning("not all is loaded why=%r", str(error))
    else:
        log.debug("all is loaded that serving may need")


def _import_all(names: tuple[str, ...]) -> Iterator[None]:
    for name in names:
        import_module(name)
        yield
