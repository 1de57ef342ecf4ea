"""A relay between a command and an embedded cluster, which sees each request and can hold back answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

HOST: Final = "127.0.0.2"
"""The host that the embedded cluster advertises, with its own port, so that all clients connect through the relay."""

RequestHook = Callable[[int], bool]
"""Called with the API key of each request before it is forwarded; returns whether the response may come back."""


class Relay:
    def __init__(self, port: int) -> None:
        self._port = port
        self._server = socket.create_server((HOST, port))
        self._sockets: list[socket.socket] = []
        self.on_request: RequestHook = lambda _: True

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += (client, broker)
            is_silent = threading.Event()
            threading.Thread(target=self._requests, args=(client, broker, is_silent), daemon=True).start()
            threading.Thread(target=_answers, args=(broker, client, is_silent), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._sockets:
            each.close()

    def _requests(self, client: socket.socket, broker: socket.socket, is_silent: threading.Event) -> None:
        with suppress(OSError), client.makefile("rb") as source:
            while size := source.read(4):
                frame = source.read(int.from_bytes(size))
                if not self.on_request(int.from_bytes(frame[:2])):
                    is_silent.set()
                broker.sendall(size + frame)
        with suppress(OSError):
            broker.shutdown(socket.SHUT_RDWR)


def _answers(broker: socket.socket, client: socket.socket, is_silent: threading.Event) -> None:
    with suppress(OSError):
        while chunk := broker.recv(1 << 16):
            if not is_silent.is_set():
                client.sendall(chunk)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(bootstrap: str) -> Iterator[Relay]:
    """Runs a relay in front of a cluster that was started with `--advertise HOST`."""
    made = Relay(int(bootstrap.rpartition(":")[2]))
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()
