"""Responses that are identical for many members but for one field: the shared bytes are encoded once.

When all members of a group have joined, the followers get identical responses but for their member ids; when the
leader has brought its plan, all get identical responses but for their assignments. So the bytes before that field and
those behind it are cached for as long as consecutive replies agree in all other fields, and each response is put
together around its own value of that field.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

from kcoord.protocol.codec import Codec
from kcoord.protocol.headers import write_response_header

_START: Final = Struct(">ii")  # The length of the frame, and the correlation id.
_MAX_CACHED_BYTES: Final = 4096
_MAX_CACHED_PART_BYTES: Final = 256
_MAX_CACHED_PARTS: Final = 10_000


class ResponseTemplate:
    """Encodes the replies that many members of a group get at once, such as to JoinGroup, in one version of the API:
    the bytes that they share are encoded once. A reply is a tuple whose first field differs from member to member."""

    __slots__ = (
        "_after",
        "_before",
        "_header",
        "_member_parts",
        "_shared",
        "_size",
        "_write_after",
        "_write_before",
        "_write_member_part",
    )

    def __init__(self, codec: Codec, per_member_field: str) -> None:
        self._write_before, self._write_member_part, self._write_after = codec.split_response_writer(per_member_field)
        # All of the header but the correlation id.
        self._header = write_response_header(0, codec.response_header_version)[4:]
        self._shared: tuple[Any, ...] | None = None
        self._before = self._after = b""
        self._size = 0
        self._member_parts: dict[str | bytes, bytes] = {}

    def frames(self, correlation_ids: Iterable[int], replies: Iterable[Any]) -> list[bytes]:
        """Encodes these replies, one for each correlation id, as response frames with their lengths."""
        frames, member_parts, start = [], self._member_parts, _START.pack
        for correlation_id, reply in zip(correlation_ids, replies, strict=True):
            if reply[1:] != self._shared:
                self._encode_shared(reply)
            part = member_parts.get(reply[0]) or self._encode_member_part(reply)
            frames.append(b"".join((start(self._size + len(part), correlation_id), self._before, part, self._after)))
            if self._size > _MAX_CACHED_BYTES:
                self._drop_shared()
        return frames

    def _encode_member_part(self, reply: Any) -> bytes:
        """Encodes the per-member field. Short ones are cached: members rejoin with the same ids, and often get the same
        assignments.
        """
        pieces: list[bytes] = []
        self._write_member_part(reply, pieces)
        part = b"".join(pieces)
        if len(part) <= _MAX_CACHED_PART_BYTES:
            if len(self._member_parts) >= _MAX_CACHED_PARTS:
                self._member_parts.clear()
            self._member_parts[reply[0]] = part
        return part

    def _encode_shared(self, reply: Any) -> None:
        """Encodes the fields that this reply shares with those that follow it."""
        before, after = [self._header], list[bytes]()
        self._write_before(reply, before)
        self._write_after(reply, after)
        self._shared = reply[1:]
        self._before, self._after = b"".join(before), b"".join(after)
        self._size = 4 + len(self._before) + len(self._after)

    def _drop_shared(self) -> None:
        """Drops large shared bytes, which one member alone gets, as a leader gets all subscriptions of its group."""
        self._shared = None
        self._before = self._after = b""
        self._size = 0
