"""Random entities of any kio class, for tests of what must hold for every API and version."""

import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from kcoord.errors import ErrorCode
from kcoord.protocol.entity_fields import Field, shape_of


def random_entity(entity_type: Any, rng: random.Random) -> Any:
    shape = shape_of(entity_type)
    return entity_type(**{field.name: _value(field, rng) for field in (*shape.plain, *shape.tagged)})


def _value(field: Field, rng: random.Random) -> Any:
    if field.is_nullable and rng.random() < 0.2:
        return None
    if field.is_array:
        return tuple(_element(field, rng) for _ in range(rng.choice((0, 1, 2, 3))))
    return _element(field, rng)


def _element(field: Field, rng: random.Random) -> Any:
    if field.entity is not None:
        return random_entity(field.entity, rng)
    match field.kafka_type:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choice("aé漢-_.\n") for _ in range(rng.choice((0, 1, 5, 130))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 20, 200)))
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(128) | 1)
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=rng.randrange(-(2**31), 2**31))
        case "datetime_i64":
            return datetime.fromtimestamp(rng.randrange(2**31), tz=UTC)
        case "float64":
            return rng.uniform(-1e9, 1e9)
    bits = {"int8": 7, "uint8": 8, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}[field.kafka_type]
    return rng.getrandbits(bits) if field.kafka_type[0] == "u" else rng.randrange(-(1 << bits), 1 << bits)
