"""Brokers' answers with addresses, made by kio, and the rewritten answers that are expected."""

import random
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kio.index import load_response_schema

from kcoord.protocol.codec import encode_response
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.rewriting.endpoints import Endpoint
from tests.support.entities import random_entity

CORRELATION_ID = 77


def random_answer(api_key: int, api_version: int, rng: random.Random) -> Any:
    return random_entity(load_response_schema(api_key, api_version), rng)


def frame_of(api_key: int, api_version: int, answer: Any) -> bytes:
    """Encodes an answer without its length."""
    return encode_response(RequestHeader(api_key, api_version, CORRELATION_ID), answer)[4:]


def here(node_id: int) -> Endpoint:
    """Returns the endpoint at which clients reach a broker in these tests."""
    return Endpoint(f"broker-{node_id}.proxy.test", 10_000 + node_id % 50_000)


def moved(entity: Any) -> Any:
    """Replaces all broker endpoints by those of `here`; brokers without an address stay as they are."""
    if isinstance(entity, tuple):
        return tuple(map(moved, entity))
    if not is_dataclass(entity) or isinstance(entity, type):
        return entity
    changed = {field.name: moved(getattr(entity, field.name)) for field in fields(entity)}
    node_id = changed.get("node_id", changed.get("broker_id", -1))
    if "host" in changed and changed["host"] and node_id >= 0:
        changed |= here(node_id)._asdict()
    return replace(entity, **changed)
