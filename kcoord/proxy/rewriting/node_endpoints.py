"""Replaces the endpoints of new partition leaders at the end of Produce and Fetch answers (KIP-951). Pure.

The endpoints are a tagged field at the very end: an answer's tail is its tagged fields. If the answer has already been
sent except for its tail, the client knows its length, so the tail must keep its size. If the new endpoints are shorter,
a tag that no client knows pads them, which clients skip (KIP-482). If they are longer, the padding replaces them: the
client then has to ask for Metadata, as it did before KIP-951.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.tagged_fields import skip_tagged_fields
from kcoord.protocol.varint import BadVarint, read_uvarint, uvarint
from kcoord.proxy.rewriting.endpoints import Endpoint, EndpointOf, encode_compact

NO_TAGS: Final = b"\0"

_NODE_ENDPOINTS: Final = 0
_PADDING_TAGS: Final = (127, 16_000)
"""Tags that no KIP is likely to use, of one byte and of two: together they can fill any size from 2 bytes on."""


class _NodeEndpoint(NamedTuple):
    node_id: int
    endpoint: Endpoint
    rack_and_tags: bytes
    """The encoded rack and tagged fields, which stay as they are."""

    @property
    def has_address(self) -> bool:
        return self.node_id >= 0 and bool(self.endpoint.host)


def brokers_in(tail: bytes) -> dict[int, Endpoint]:
    """Returns the brokers, by id, that the tagged fields at the end of a Produce or Fetch response name (KIP-951).
    Raises CorruptMessage.
    """
    return {each.node_id: each.endpoint for each in _node_endpoints(_tagged_fields(tail)) if each.has_address}


def rewrite(tail: bytes, endpoint_of: EndpointOf) -> bytes:
    """Replaces all broker endpoints in the tagged fields at the end of a Produce or Fetch response. Their size may
    change. Raises CorruptMessage.
    """
    return _encode_fields(_rewritten_fields(_tagged_fields(tail), endpoint_of))


def rewrite_same_length(tail: bytes, endpoint_of: EndpointOf) -> bytes:
    """Replaces all broker endpoints in the tagged fields at the end of a Produce or Fetch response, without a change of
    size: longer ones are removed. Raises CorruptMessage.
    """
    fields = _tagged_fields(tail)
    others = {tag: content for tag, content in fields.items() if tag != _NODE_ENDPOINTS}
    return (
        _padded(_rewritten_fields(fields, endpoint_of), len(tail))
        or _padded(others, len(tail))
        or _padding_only(len(tail))
    )


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
        raise CorruptMessage("tagged fields that end too early") from None
    if position != len(tail):
        raise CorruptMessage("tagged fields of another size")
    return fields


def _node_endpoints(fields: Mapping[int, bytes]) -> list[_NodeEndpoint]:
    content = fields.get(_NODE_ENDPOINTS, b"\1")
    found = []
    try:
        count, position = read_uvarint(content, 0)
        for _ in range(count - 1):
            size, start = read_uvarint(content, position + 4)
            port = start + size - 1
            rack, behind = read_uvarint(content, port + 4)
            end = skip_tagged_fields(content, behind + max(rack - 1, 0))
            endpoint = Endpoint(content[start:port].decode(errors="replace"), _number(content, port))
            found.append(_NodeEndpoint(_number(content, position), endpoint, content[port + 4 : end]))
            position = end
    except (IndexError, BadVarint):
        raise CorruptMessage("node endpoints that end too early") from None
    return found


def _number(content: bytes, position: int) -> int:
    return int.from_bytes(content[position : position + 4], signed=True)


def _rewritten_fields(fields: Mapping[int, bytes], endpoint_of: EndpointOf) -> dict[int, bytes]:
    if _NODE_ENDPOINTS not in fields:
        return dict(fields)
    found = _node_endpoints(fields)
    parts = [uvarint(len(found) + 1)]
    for each in found:
        endpoint = endpoint_of(each.node_id) if each.has_address else each.endpoint
        parts += [each.node_id.to_bytes(4, signed=True), encode_compact(endpoint), each.rack_and_tags]
    return {**fields, _NODE_ENDPOINTS: b"".join(parts)}


def _encode_fields(fields: Mapping[int, bytes]) -> bytes:
    encoded = [part for tag, content in fields.items() for part in (uvarint(tag), uvarint(len(content)), content)]
    return b"".join([uvarint(len(fields)), *encoded])


def _padded(fields: Mapping[int, bytes], length: int) -> bytes | None:
    """Encodes these tagged fields and pads them to `length`; None if they cannot have that length."""
    exact = _encode_fields(fields)
    if len(exact) == length:
        return exact
    longer = uvarint(len(fields) + 1) + exact[len(uvarint(len(fields))) :]
    padding = _padding(length - len(longer))
    return longer + padding if padding else None


def _padding(room: int) -> bytes | None:
    for tag in map(uvarint, _PADDING_TAGS):
        for size_bytes in (1, 2, 3):
            size = room - len(tag) - size_bytes
            if size >= 0 and len(uvarint(size)) == size_bytes:
                return tag + uvarint(size) + bytes(size)
    return None


def _padding_only(length: int) -> bytes:
    """Returns only padding, which always fits: the smallest tagged field has 2 bytes, as the smallest padding."""
    padding = _padding(length - 1)
    if padding is None:
        raise CorruptMessage("tagged fields that are too short")
    return b"\1" + padding
