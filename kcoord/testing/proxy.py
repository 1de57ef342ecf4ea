"""`kcoord proxy` as a subprocess, in front of a cluster."""

import sys
from collections.abc import Sequence
from typing import Final

from .command import CommandProcess

_READY: Final = '"proxy/v1"'


class ProxyProcess(CommandProcess):
    """`kcoord proxy` as a subprocess, between clients and the cluster `upstream`, as a context manager.

    with KafkaCluster(brokers=3) as kafka, ProxyProcess(kafka.bootstrap) as proxy: consume(proxy.bootstrap)
    """

    def __init__(self, upstream: str, *options: str, listen: str = "127.0.0.1:0", start_timeout: float = 60.0) -> None:
        """Ports are free ones unless options name others; `options` are those of the command line."""
        command = proxy_command(upstream, options, listen)
        super().__init__(command, name="kcoord proxy", ready=_READY, start_timeout=start_timeout)


def proxy_command(upstream: str, options: Sequence[str], listen: str = "127.0.0.1:0") -> list[str]:
    """Returns the command line of `kcoord proxy`; when the command is ready it prints one line of JSON with its
    address."""
    command = [sys.executable, "-m", "kcoord.commands", "proxy", "--upstream", upstream, "--listen", listen]
    return [*command, *options, "-o", "json"]
