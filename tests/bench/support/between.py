"""What runs between a client and the broker: kcoord's proxy, or a relay that only moves bytes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from kcoord.testing.node import HOST, free_ports

BROKER_ID = 1
# Debian installs it in sbin, which a user's path often lacks.
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/sbin")
# Its defaults, except for the timeouts, which it requires.
_RELAY = """\
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen kafka
    bind {here}
    server broker {there}
"""


class Proxy:
    """`kcoord proxy`, prepared for `servers.Running`."""

    def __init__(self, upstream: str, *options: str) -> None:
        self._upstream = upstream
        self._options = options

    def prepare(self, folder: Path) -> tuple[list[str], int]:
        port, broker_port = free_ports(2)
        command = str(Path(sys.executable).parent / "kcoord")
        here = ["--listen", f"{HOST}:{port}", "--port-base", str(broker_port - BROKER_ID)]
        return [command, "proxy", "--upstream", self._upstream, *here, *self._options], port


class Relay:
    """haproxy in TCP mode, in the foreground."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def prepare(self, folder: Path) -> tuple[list[str], int]:
        assert HAPROXY, "ask whether it is there first"
        (port,) = free_ports(1)
        config = folder / "haproxy.cfg"
        config.write_text(_RELAY.format(here=f"{HOST}:{port}", there=self._upstream))
        return [HAPROXY, "-db", "-f", str(config)], port


def relay_version() -> str:
    """Returns the name and version, such as `haproxy 2.6.12`."""
    assert HAPROXY, "ask whether it is there first"
    output = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\d[\d.]*\d)", output)
    return f"haproxy {version[1] if version else '?'}"
