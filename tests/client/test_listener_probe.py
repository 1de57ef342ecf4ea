"""The probe of a listener that misbehaves. Tests with real listeners of all kinds are in integration/."""

import socket
import threading
import time

import pytest

from kcoord.client import listener_probe
from kcoord.client.listener_probe import listener_advice
from kcoord.client.security import Security

ENOUGH = 30.0  # The seconds that half a second may take on a slow machine.


def test_who_sends_a_byte_now_and_then_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_probe, "_TIMEOUT", 0.5)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_trickle, args=(server, over))
        thread.start()
        started = time.monotonic()
        try:
            advice = listener_advice("127.0.0.1", server.getsockname()[1], Security())
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert advice is None
    assert time.monotonic() - started < ENOUGH


def _trickle(server: socket.socket, over: threading.Event) -> None:
    """Hangs up on TLS at once; then answers with the begin of a long frame, and a byte of it now and then."""
    try:
        server.accept()[0].close()
        with server.accept()[0] as asked:
            asked.sendall(b"\0\0\xff\xff")
            while not over.wait(0.05):
                asked.sendall(b"\0")
    except OSError:
        return
