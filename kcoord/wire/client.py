"""A client connection: one request out, its response back. Blocking, for tools and tests."""

import socket
from functools import cache
from types import TracebackType
from typing import Any, Self

from kcoord.wire.codec import decode_response, encode_request, request_type
from kcoord.wire.frames import FrameSplitter
from kcoord.wire.headers import RequestHeader
from kcoord.wire.schema import Field, shape_of

_shape_of = cache(shape_of)
_request_type = cache(request_type)


class Disconnected(ConnectionError):
    """The server closed the connection."""


class Client:
    """`Client("127.0.0.1", 9092).ask(3, 12, topics=None)` asks for Metadata version 12."""

    def __init__(self, host: str, port: int, *, client_id: str | None = "kcoord", timeout: float = 30.0) -> None:
        self._client_id = client_id
        self._splitter = FrameSplitter(2**31 - 1)
        self._frames: list[bytes] = []
        self._correlation_id = 0
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """The response to a request of these field values, as kio's entity of that version."""
        self.send(api_key, api_version, **values)
        return self.receive(api_key, api_version)

    def send(self, api_key: int, api_version: int, **values: Any) -> None:
        self._correlation_id += 1
        header = RequestHeader(
            api_key=api_key,
            api_version=api_version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        self.send_bytes(encode_request(header, build(_request_type(api_key, api_version), values)))

    def receive(self, api_key: int, api_version: int) -> Any:
        _, entity = decode_response(self.receive_frame(), api_key, api_version)
        return entity

    def send_bytes(self, content: bytes) -> None:
        self._socket.sendall(content)

    def receive_frame(self) -> bytes:
        """The next frame, without its length. Raises Disconnected where the server hung up."""
        while not self._frames:
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise Disconnected("the server closed the connection")
            self._frames = self._splitter.feed(chunk)
            if self._splitter.broken:
                raise self._splitter.broken
        return self._frames.pop(0)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def build(entity_type: Any, values: dict[str, Any]) -> Any:
    """An entity from plain values: dicts for nested entities; what is missing takes its default.

    Values that the version does not have are left out, so that one call serves every version.
    """
    shape = _shape_of(entity_type)
    described = (*shape.plain, *shape.tagged)
    return entity_type(**{field.name: _built(field, values.get(field.name, field.default)) for field in described})


def _built(field: Field, value: Any) -> Any:
    if field.is_array and value is not None:
        return tuple(_built_element(field, element) for element in value)
    return _built_element(field, value)


def _built_element(field: Field, value: Any) -> Any:
    return build(field.entity, value) if field.entity is not None and isinstance(value, dict) else value
