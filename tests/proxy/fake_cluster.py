"""Minimal brokers, which answer Metadata and ApiVersions and identify themselves."""

import contextlib
import socket
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

from kio.index import load_response_schema

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import encode_response
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader, read_request_start
from kcoord.proxy.rewriting.endpoints import Endpoint

NODE = 999
"""An API key that does not exist: in ApiVersions its newest version is the id of the answering broker."""


class FakeCluster:
    """A cluster of fake brokers; a context manager that stops them all."""

    def __init__(self) -> None:
        self.endpoints: dict[int, Endpoint] = {}
        """The endpoints in Metadata answers, by node id; a test may change them."""
        self.asked: Counter[tuple[int, int]] = Counter()
        """How many requests there were, by node id and API key."""
        self.hangs_up_after_login = False
        self._listening: list[socket.socket] = []

    def start(self, node_id: int) -> Endpoint:
        """Starts a broker on a free port, which the Metadata answers of all brokers name from now on."""
        listening = socket.create_server(("127.0.0.1", 0))
        self._listening.append(listening)
        self.endpoints[node_id] = Endpoint("127.0.0.1", listening.getsockname()[1])
        threading.Thread(
            target=self._accept, args=(listening, node_id, self.endpoints[node_id].port), daemon=True
        ).start()
        return self.endpoints[node_id]

    def stop(self, endpoint: Endpoint) -> None:
        """Stops the broker that listens at this endpoint."""
        for listening in [each for each in self._listening if each.getsockname()[1] == endpoint.port]:
            self._listening.remove(listening)
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *about: object) -> None:
        for listening in self._listening:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()

    def _accept(self, listening: socket.socket, node_id: int, port: int) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection, node_id, port), daemon=True).start()

    def _serve(self, connection: socket.socket, node_id: int, port: int) -> None:
        splitter = FrameSplitter(1 << 20)
        with connection, contextlib.suppress(OSError):
            while chunk := connection.recv(1 << 16):
                for frame in splitter.feed(chunk):
                    connection.sendall(self._answer(frame, node_id, port))
                    if self.hangs_up_after_login and read_request_start(frame).api_key == ApiKey.SASL_AUTHENTICATE:
                        return

    def _answer(self, frame: bytes, node_id: int, port: int) -> bytes:
        asked = read_request_start(frame)
        self.asked[node_id, asked.api_key] += 1
        values: dict[str, Any] = {}
        match asked.api_key:
            case 18:  # ApiVersions: the node id as a version of NODE, and the login APIs
                versions = {ApiKey.METADATA: 12, ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2, NODE: node_id}
                values = {"api_keys": [{"api_key": key, "max_version": most} for key, most in versions.items()]}
            case 17:
                values = {"mechanisms": ["PLAIN"]}
            case 3:
                values = {"brokers": [{"node_id": each, **at._asdict()} for each, at in self.endpoints.items()]}
            case 12:  # Heartbeat: the port as the throttle time, which every client can read
                values = {"throttle_time": timedelta(milliseconds=port)}
        answer = build_entity(load_response_schema(asked.api_key, asked.api_version), values)
        return encode_response(RequestHeader(asked.api_key, asked.api_version, asked.correlation_id), answer)
