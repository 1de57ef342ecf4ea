"""The byte stream of a connection as frames: a 4-byte length, then that many bytes."""

from struct import Struct
from typing import Final

from kcoord.exceptions import CorruptData

LENGTH_PREFIX: Final = Struct(">i")
LENGTH_BYTES: Final = LENGTH_PREFIX.size

_LARGE: Final = 1 << 15
_TLS_HANDSHAKE: Final = 0x1603
_TLS_ALERT: Final = 0x1503
"""How TLS records begin, from 1.0 to 1.3: their type, and the major version 3 (RFC 8446, 5.1)."""
_HTTP_METHODS: Final = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI "}
)
"""How HTTP requests begin; PRI is the preface of HTTP/2."""
_HTTP_RESPONSE: Final = b"HTTP"


class BadFrame(CorruptData, ValueError):
    """Raised for a frame length that is not allowed. The rest of the connection's stream cannot be read."""


class CorruptMessage(CorruptData, ValueError):
    """Raised for a request or response whose bytes do not match its API version."""


class FrameSplitter:
    """Splits the bytes that arrive on a connection into Kafka's frames, each behind a 4-byte length. It buffers only
    bytes that have arrived, whatever a length claims.

    After a length that is not allowed, `error` is set and no more frames come out. `has_partial` is False when every
    byte that was fed has come out in a frame.
    """

    __slots__ = ("_buffer", "_max_frame_bytes", "_needed", "error", "has_partial")

    def __init__(self, max_frame_bytes: int) -> None:
        self.error: BadFrame | None = None
        self.has_partial = False
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._needed = 4

    @property
    def buffered_bytes(self) -> int:
        """The bytes of an unfinished frame that are buffered."""
        return len(self._buffer)

    @property
    def missing_bytes(self) -> int:
        """The bytes still to arrive of the unfinished frame, by its length; 0 while its length is not known."""
        return self._needed - len(self._buffer) if len(self._buffer) >= LENGTH_BYTES else 0

    def take_partial(self) -> bytes:
        """Takes the buffered bytes of an unfinished frame, without its length. The caller reads the rest itself."""
        partial = bytes(self._buffer[LENGTH_BYTES:])
        self._buffer.clear()
        self.has_partial = False
        return partial

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the bytes that have arrived, and returns the frames that they complete, without their lengths."""
        if self.error:
            return []
        if not self._buffer:
            if len(chunk) >= 4 and LENGTH_PREFIX.unpack_from(chunk)[0] == len(chunk) - 4 <= self._max_frame_bytes:
                return [chunk[4:]]  # The most common case is one whole frame.
            frames, position = self._split(chunk)
            if position < len(chunk):
                self._buffer += chunk[position:]
                self.has_partial = True
            return frames
        self._buffer += chunk
        if len(self._buffer) < self._needed:
            return []
        with memoryview(self._buffer) as view:
            frames, position = self._split(view)
        del self._buffer[:position]
        self.has_partial = bool(self._buffer) or self.error is not None
        return frames

    def _split(self, buffer: bytes | memoryview) -> tuple[list[bytes], int]:
        frames: list[bytes] = []
        position, end = 0, len(buffer)
        while end - position >= 4:
            (length,) = LENGTH_PREFIX.unpack_from(buffer, position)
            if length < 0 or length > self._max_frame_bytes:
                self.error = BadFrame(explain_bad_length(length, 0, self._max_frame_bytes))
                self.has_partial = True
                position = end
                break
            close = position + 4 + length
            if close > end:
                self._needed = 4 + length
                break
            frames.append(bytes(buffer[position + 4 : close]))
            position = close
        else:
            self._needed = 4
        return frames, position


def explain_bad_length(length: int, least: int, most: int) -> str:
    """Returns a text for a frame length that is not allowed, which is often the beginning of TLS or HTTP instead.
    `least` and `most` are the allowed lengths in bytes."""
    if length >> 16 == _TLS_HANDSHAKE:  # A client sends a handshake first.
        return "it speaks TLS, and this port does not"
    if length >> 16 == _TLS_ALERT:  # A server answers with an alert to a client that does not begin with a handshake.
        return "it speaks TLS"
    start = LENGTH_PREFIX.pack(length)
    if start in _HTTP_METHODS:
        return "it sends an HTTP request, and this port speaks Kafka's protocol"
    if start == _HTTP_RESPONSE:
        return "it speaks HTTP"
    return f"a frame length of {length}, where {least} to {most} is allowed"


def framed(parts: list[bytes]) -> bytes:
    """Returns a frame of these parts, with its length before them."""
    return b"".join(frame_pieces(parts))


def frame_pieces(parts: list[bytes]) -> list[bytes]:
    """Returns a frame of these parts, with its length before them, in as few pieces as possible without copying large
    parts."""
    size = sum(map(len, parts))
    if size < _LARGE:
        return [b"".join([LENGTH_PREFIX.pack(size), *parts])]
    pieces: list[bytes] = []
    small = [LENGTH_PREFIX.pack(size)]
    for part in parts:
        if len(part) < _LARGE:
            small.append(part)
        else:
            pieces += [b"".join(small), part]
            small = []
    return [*pieces, b"".join(small)] if small else pieces
