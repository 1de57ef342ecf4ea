"""A served cluster as its attackers see it: raw sockets on one side, the process's memory and log on the other."""

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.security import Security
from kcoord.protocol.codec import codec
from kcoord.protocol.frames import framed
from kcoord.protocol.headers import RequestHeader, write_request_header
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.proxy import ProxyProcess
from tests.support import procs

PATIENCE = 60.0  # For what happens at once on an idle machine; a busy one may be slow.
FAULTS = re.compile(r"(?:.* ERROR .*|Traceback.*)\n(?:(?!\d{4}-).*\n?)*")  # A line and those that belong to it.


class Scene:
    """`kcoord serve` or a proxy, its memory, files and log."""

    def __init__(self, cluster: EmbeddedCluster | ProxyProcess, *, security: Security | None = None) -> None:
        """`security` is what clients need to get in."""
        self.cluster = cluster
        self.security = security
        host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
        self.address = (host, int(port))
        self._log_read = 0
        self._idle_sockets = procs.open_sockets(self.pid)  # The sockets of a server without clients.

    @property
    def pid(self) -> int:
        return self.cluster.pid

    @property
    def resident_bytes(self) -> int:
        return procs.resident_bytes(self.pid)

    @property
    def open_files(self) -> int:
        return procs.open_files(self.pid)

    @property
    def connections(self) -> int:
        """The connections that the server has open, whatever has become of the client's end."""
        return procs.open_sockets(self.pid) - self._idle_sockets

    def client(self, *, timeout: float = PATIENCE) -> Client:
        return Client(*self.address, timeout=timeout, security=self.security)

    def connect(self, *, timeout: float = PATIENCE) -> socket.socket:
        """Opens a raw connection that leaves nothing behind when it is closed, so that thousands can follow
        each other.
        """
        raw = socket.create_connection(self.address, timeout=timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return raw

    def exchange(self, content: bytes) -> bytes | None:
        """Sends these bytes on a new connection and returns the first frame of the answer; None if it is closed
        instead.
        """
        with self.connect() as raw, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            raw.sendall(content)
            return receive_frame(raw)
        return None

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Sends one valid request on a new connection."""
        with self.client() as client:
            return client.ask(api_key, api_version, **values)

    def answer_time(self) -> float:
        """Measures how long a new client waits for Metadata."""
        started = time.perf_counter()
        self.ask(ApiKey.METADATA, 12, topics=())
        return time.perf_counter() - started

    def growth_of(self, act: Callable[[], object]) -> int:
        """Measures how far the peak of the resident memory rises during the act."""
        before = self.resident_bytes
        procs.forget_peak(self.pid)
        act()
        return procs.peak_resident_bytes(self.pid) - before

    def log_lines(self, text: str) -> list[str]:
        return [line for line in self.cluster.log().splitlines() if text in line]

    def assert_well(self) -> None:
        """Asserts that the server still answers, and that it logged no fault."""
        log = self.cluster.log()
        faults = FAULTS.findall(log, self._log_read)
        self._log_read = len(log)
        assert self.cluster.is_running, self.cluster.log_tail()
        distinct = {fault.partition("\n")[2]: fault for fault in faults}  # The first line holds the time and the peer.
        assert not faults, (
            f"{len(faults)} faults, {len(distinct)} of them distinct:\n{''.join(distinct.values())[:20_000]}"
        )
        self.answer_time()


def request_frame(api_key: int, api_version: int, body: bytes, *, correlation_id: int = 7) -> bytes:
    """Makes a frame of a valid header and a body that need not be valid."""
    header = RequestHeader(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id="hostile")
    return framed([write_request_header(header, codec(api_key, api_version).request_header_version), body])


def receive_frame(raw: socket.socket) -> bytes | None:
    """Reads the next frame without its length; None if the server closed the connection."""
    try:
        head = _receive(raw, 4)
        return head and _receive(raw, struct.unpack(">i", head)[0])
    except (ConnectionResetError, BrokenPipeError):
        return None


def is_closed(raw: socket.socket) -> bool:
    """Waits until the server hangs up, and skips what it sent before."""
    while receive_frame(raw) is not None:
        pass
    return True


def wait_until(condition: Callable[[], bool], *, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.02)


def _receive(raw: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = raw.recv(min(size, 1 << 18))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
