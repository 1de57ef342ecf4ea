"""All modules that preloading names can be imported."""

from kcoord.api.table import SERVED
from kcoord.server.preloading import preload_proxy, preload_server


def test_all_that_a_server_preloads_is_there() -> None:
    assert sum(1 for _ in preload_server()) > len(SERVED)


def test_all_that_a_proxy_preloads_is_there() -> None:
    assert sum(1 for _ in preload_proxy({key: api.versions for key, api in SERVED.items()})) > len(SERVED)
