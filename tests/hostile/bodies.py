"""A valid body for every API and version that is served, and mutations of it."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from kcoord.api.table import SERVED, Api
from kcoord.protocol.codec import request_type
from kcoord.protocol.varint import uvarint
from tests.hostile.layout import Kind, Layout, Length, lay_out, length_bytes
from tests.support.entities import random_entity

APIS = list(SERVED.values())


@cache
def sample(api_key: int, api_version: int) -> Any:
    """Returns the one of many random requests with the most lengths in it."""
    entities = [random_entity(request_type(api_key, api_version), random.Random(seed)) for seed in range(40)]
    return max(entities, key=lambda entity: len(lay_out(entity).lengths))


def with_lying_lengths(layout: Layout) -> Iterator[bytes]:
    """Yields the body again and again, each time with one length that more bytes would be needed for."""
    for length in layout.lengths:
        left = len(layout.body) - length.position - length.size
        for lie in _lies(length.kind, left):
            yield replaced(layout, length, lie)


def with_nulls(layout: Layout) -> Iterator[bytes]:
    """Yields the body again and again, each time with a null or a lower length in it; the bytes behind are shifted."""
    for length in layout.lengths:
        lowest = {"uvarint": -1, "int16": -(2**15), "int32": -(2**31)}[length.kind]
        for negative in {-1, max(-2, lowest), lowest}:
            yield replaced(layout, length, length_bytes(length.kind, negative))


def replaced(layout: Layout, length: Length, written: bytes) -> bytes:
    return bytes(layout.body[: length.position] + written + layout.body[length.position + length.size :])


def versions(api: Api) -> Iterator[tuple[int, Layout]]:
    for version in api.versions:
        yield version, lay_out(sample(api.key, version))


def _lies(kind: Kind, left: int) -> list[bytes]:
    match kind:
        case "int16":
            return [length_bytes("int16", 2**15 - 1)]
        case "int32":
            return [length_bytes("int32", lie) for lie in (left + 1, 100_000_000, 2**31 - 1)]
        case "uvarint":
            return [uvarint(lie) for lie in (left + 2, 100_000_000, 2**31, 2**32 - 1, 2**35 - 1, 2**42)]
