"""Frames that were valid before they were mutated. The given generator decides everything: a seed repeats a run."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from kcoord.api.table import SERVED
from kcoord.protocol.codec import encode_request, request_type
from kcoord.protocol.entity_fields import Field, shape_of
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.varint import uvarint
from tests.support.entities import random_entity
from tests.support.hostile.batches import fetch_frame, good_batch

FIXTURES = Path(__file__).parents[2] / "fixtures" / "wire"
TOPIC = "here"
LIES = (-(2**31), -2, -1, 0, 127, 128, 2**15 - 1, 2**16, 10**6, 10**8, 2**31 - 1)

Mutation = Callable[[bytearray, Random], bytes | bytearray]


def malformed_frame(random: Random) -> bytes:
    """Makes a frame without its length: noise, noise behind a header, or a valid one with up to four mutations."""
    choice = random.random()
    if choice < 0.1:
        return random.randbytes(random.randrange(200))
    if choice < 0.25:
        api = SERVED[random.choice(list(SERVED))]
        header = struct.pack(">hhih", api.key, random.choice(api.versions), 0, -1)
        return header + bytes(random.choice((0, 1))) + random.randbytes(random.randrange(120))
    frame: bytes | bytearray = random.choice(corpus())
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        frame = random.choice(_mutations)(bytearray(frame), random)
    return bytes(frame)


@cache
def corpus() -> list[bytes]:
    """Returns valid frames: those of real clients, and random requests of every version, half of them for an existing
    topic.
    """
    random = Random(1)
    generated = [
        _encoded(api.key, version, correlation_id, random)
        for api in SERVED.values()
        for version in api.versions
        for correlation_id in range(8)
    ]
    parking = [
        fetch_frame(topic=TOPIC, max_wait=wait, min_bytes=1 << 20)[4:] for wait in (0, 0.01, 0.1) for _ in range(8)
    ]
    return generated + parking + captured() * 2


def captured() -> list[bytes]:
    lines = [json.loads(line) for path in sorted(FIXTURES.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [bytes.fromhex(line["frame"]) for line in lines if line["kind"] == "request"]


def _encoded(api_key: int, api_version: int, correlation_id: int, random: Random) -> bytes:
    entity = random_entity(request_type(api_key, api_version), random)
    if correlation_id % 2:
        entity = _aimed(entity, random)
    header = RequestHeader(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id="fuzz")
    return encode_request(header, entity)[4:]


def _aimed(entity: Any, random: Random) -> Any:
    """Returns the entity with names, numbers and batches that mean something to the server, so that it gets further."""
    shape = shape_of(type(entity))
    described = (*shape.plain, *shape.tagged)
    return replace(entity, **{each.name: _aimed_value(each, getattr(entity, each.name), random) for each in described})


def _aimed_value(described: Field, value: Any, random: Random) -> Any:
    if isinstance(value, tuple):
        return tuple(_aimed_value(described, element, random) for element in value)
    if described.entity is not None and value is not None:
        return _aimed(value, random)
    if described.kafka_type == "records":
        return good_batch()
    if described.kafka_type == "string" and value is not None and random.random() < 0.8:
        return TOPIC
    if described.kafka_type.startswith("int") and random.random() < 0.7:
        return random.choice((-1, 0, 0, 0, 1))
    return value


def _flip_bits(frame: bytearray, random: Random) -> bytearray:
    for _ in range(random.choice((1, 1, 2, 8))):
        if frame:
            frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
    return frame


def _cut_off(frame: bytearray, random: Random) -> bytearray:
    return frame[: random.randrange(len(frame) + 1)]


def _write_lie(frame: bytearray, random: Random) -> bytearray:
    """Writes a wrong length, in one of its three encodings, over other bytes or between them."""
    lie = random.choice(LIES)
    written = random.choice(
        (struct.pack(">i", lie), struct.pack(">h", max(-(2**15), min(lie, 2**15 - 1))), uvarint(lie & 0xFFFF_FFFF))
    )
    position = random.randrange(8, len(frame) + 9)
    covered = random.choice((0, len(written)))
    return frame[:position] + written + frame[position + covered :]


def _double_a_part(frame: bytearray, random: Random) -> bytearray:
    start, end = sorted(random.randrange(len(frame) + 1) for _ in range(2))
    return frame[:end] + frame[start:end] * random.choice((1, 1, 3)) + frame[end:]


def _leave_out_a_part(frame: bytearray, random: Random) -> bytearray:
    start, end = sorted(random.randrange(len(frame) + 1) for _ in range(2))
    return frame[:start] + frame[end:]


def _graft(frame: bytearray, random: Random) -> bytearray:
    """Joins this frame's head and another's tail."""
    other = random.choice(corpus())
    return frame[: random.randrange(len(frame) + 1)] + other[random.randrange(len(other)) :]


def _change_version(frame: bytearray, random: Random) -> bytearray:
    if len(frame) >= 4:
        struct.pack_into(">h", frame, 2, random.randrange(-1, 20))
    return frame


_mutations: tuple[Mutation, ...] = (
    _flip_bits,
    _flip_bits,
    _cut_off,
    _write_lie,
    _write_lie,
    _double_a_part,
    _leave_out_a_part,
    _graft,
    _change_version,
)
