"""Replaces the endpoints of new partition leaders at the end of Produce and Fetch answers (KIP-951). Pure.

The endpoints are a tagged field at the very end: an answer's tail is its tagged fields. If the answer has already been
sent except for its tail, the client knows its length, so the tail must keep its size. If the new endpoints are shorter,
a tag that no client knows pads them, which clients skip (KIP-482). If they are longer, the padding replaces them: the
client then has to ask for Metadata, as it did before KIP-951.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcoord.protocol.frames import BadBody
from kcoord.protocol.varint import BadVarint, read_uvarint, uvarint
from kcoord.proxy.forwarding.endpoints import Place, PlaceOf, compact

NO_TAGS: Final = b"\0"

_NODE_ENDPOINTS: Final = 0
_FILLERS: Final = (127, 16_000)
"""Tags that no KIP is likely to use, of one byte and of two: together they can fill any size from 2 bytes on."""


class _Endpoint(NamedTuple):
    node_id: int
    place: Place
    rest: bytes
    """The encoded rack and tagged fields, which stay as they are."""

    @property
    def is_somewhere(self) -> bool:
        return self.node_id >= 0 and bool(self.place.host)


def brokers_in(tail: bytes) -> dict[int, Place]:
    """Returns the brokers that the tail names. Raises BadBody."""
    return {each.node_id: each.place for each in _endpoints(_tagged_fields(tail)) if each.is_somewhere}


def moved(tail: bytes, place_of: PlaceOf) -> bytes:
    """Replaces all endpoints in the tail, whose size may change. Raises BadBody."""
    return _written(_moved(_tagged_fields(tail), place_of))


def moved_in_place(tail: bytes, place_of: PlaceOf) -> bytes:
    """Replaces or removes all endpoints in the tail, whose size stays the same. Raises BadBody."""
    fields = _tagged_fields(tail)
    others = {tag: content for tag, content in fields.items() if tag != _NODE_ENDPOINTS}
    return _filled(_moved(fields, place_of), len(tail)) or _filled(others, len(tail)) or _blank(len(tail))


def _tagged_fields(tail: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    try:
        count, position = read_uvarint(tail, 0)
        for _ in range(count):
            tag, position = read_uvarint(tail, position)
            size, position = read_uvarint(tail, position)
            fields[tag] = tail[position : position + size]
            position += size
    except (IndexError, BadVarint):
        raise BadBody("tagged fields that end too early") from None
    if position != len(tail):
        raise BadBody("tagged fields of another size")
    return fields


def _endpoints(fields: Mapping[int, bytes]) -> list[_Endpoint]:
    content = fields.get(_NODE_ENDPOINTS, b"\1")
    found = []
    try:
        count, position = read_uvarint(content, 0)
        for _ in range(count - 1):
            size, start = read_uvarint(content, position + 4)
            port = start + size - 1
            rack, behind = read_uvarint(content, port + 4)
            end = _behind_tags(content, behind + max(rack - 1, 0))
            place = Place(content[start:port].decode(errors="replace"), _number(content, port))
            found.append(_Endpoint(_number(content, position), place, content[port + 4 : end]))
            position = end
    except (IndexError, BadVarint):
        raise BadBody("node endpoints that end too early") from None
    return found


def _number(content: bytes, position: int) -> int:
    return int.from_bytes(content[position : position + 4], signed=True)


def _behind_tags(content: bytes, position: int) -> int:
    count, position = read_uvarint(content, position)
    for _ in range(count):
        _, position = read_uvarint(content, position)
        size, position = read_uvarint(content, position)
        position += size
    return position


def _moved(fields: Mapping[int, bytes], place_of: PlaceOf) -> dict[int, bytes]:
    if _NODE_ENDPOINTS not in fields:
        return dict(fields)
    found = _endpoints(fields)
    parts = [uvarint(len(found) + 1)]
    for each in found:
        place = place_of(each.node_id) if each.is_somewhere else each.place
        parts += [each.node_id.to_bytes(4, signed=True), compact(place), each.rest]
    return {**fields, _NODE_ENDPOINTS: b"".join(parts)}


def _written(fields: Mapping[int, bytes]) -> bytes:
    told = [part for tag, content in fields.items() for part in (uvarint(tag), uvarint(len(content)), content)]
    return b"".join([uvarint(len(fields)), *told])


def _filled(fields: Mapping[int, bytes], length: int) -> bytes | None:
    """Encodes these tagged fields and pads them to `length`; None if they cannot have that length."""
    exact = _written(fields)
    if len(exact) == length:
        return exact
    longer = uvarint(len(fields) + 1) + exact[len(uvarint(len(fields))) :]
    filler = _filler(length - len(longer))
    return longer + filler if filler else None


def _filler(room: int) -> bytes | None:
    for tag in map(uvarint, _FILLERS):
        for size_bytes in (1, 2, 3):
            size = room - len(tag) - size_bytes
            if size >= 0 and len(uvarint(size)) == size_bytes:
                return tag + uvarint(size) + bytes(size)
    return None


def _blank(length: int) -> bytes:
    """Returns only padding, which always fits: the smallest tagged field has 2 bytes, as the smallest padding."""
    filler = _filler(length - 1)
    if filler is None:
        raise BadBody("tagged fields that are too short")
    return b"\1" + filler
