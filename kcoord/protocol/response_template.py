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
_WORTH_KEEPING: Final = 4096
_SHORT: Final = 256
_MOST_OWNS: Final = 10_000


class Splice:
    """Writes the replies of one version of an API. A reply is a tuple whose first field differs from member
    to member.
    """

    __slots__ = (
        "_after",
        "_before",
        "_header",
        "_owns",
        "_shared",
        "_size",
        "_write_after",
        "_write_before",
        "_write_own",
    )

    def __init__(self, served: Codec, own_field: str) -> None:
        self._write_before, self._write_own, self._write_after = served.write_response_around(own_field)
        # All of the header but the correlation id.
        self._header = write_response_header(0, served.response_header_version)[4:]
        self._shared: tuple[Any, ...] | None = None
        self._before = self._after = b""
        self._size = 0
        self._owns: dict[str | bytes, bytes] = {}

    def frames(self, correlation_ids: Iterable[int], replies: Iterable[Any]) -> list[bytes]:
        """Returns the response frames, with their lengths."""
        frames, owns, start = [], self._owns, _START.pack
        for correlation_id, reply in zip(correlation_ids, replies, strict=True):
            if reply[1:] != self._shared:
                self._cut(reply)
            own = owns.get(reply[0]) or self._own(reply)
            frames.append(b"".join((start(self._size + len(own), correlation_id), self._before, own, self._after)))
            if self._size > _WORTH_KEEPING:
                self._forget()
        return frames

    def _own(self, reply: Any) -> bytes:
        """Encodes the per-member field. Short ones are cached: members rejoin with the same ids, and often get the same
        assignments.
        """
        written: list[bytes] = []
        self._write_own(reply, written)
        own = b"".join(written)
        if len(own) <= _SHORT:
            if len(self._owns) >= _MOST_OWNS:
                self._owns.clear()
            self._owns[reply[0]] = own
        return own

    def _cut(self, reply: Any) -> None:
        """Encodes the fields that this reply shares with those that follow it."""
        before, after = [self._header], list[bytes]()
        self._write_before(reply, before)
        self._write_after(reply, after)
        self._shared = reply[1:]
        self._before, self._after = b"".join(before), b"".join(after)
        self._size = 4 + len(self._before) + len(self._after)

    def _forget(self) -> None:
        """Drops large shared bytes, which one member alone gets, as a leader gets all subscriptions of its group."""
        self._shared = None
        self._before = self._after = b""
        self._size = 0
