"""The opaque bytes of groups of protocol type "consumer": subscriptions and assignments, and the user data that Java's
sticky assignors put into subscriptions.

Both begin with their version. Each version begins as the one before it does, so a version newer than the known ones is
read as the newest known one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from struct import Struct
from typing import Any, Final

from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.schema.message_readers import lenient_reader
from kcoord.protocol.schema.notation import Schema
from kcoord.protocol.schema.readers import Read
from kcoord.protocol.schema.writers import schema_writer

VERSIONS: Final = range(4)

_UNKNOWN_GENERATION: Final = -1
_RACKS_SINCE: Final = 3
_VERSION: Final = Struct(">h")

_ASSIGNMENT: Final = Schema(
    """
    assigned_partitions []
        topic string
        partitions []int32
    user_data bytes?
    """,
    versions=VERSIONS,
)
_SUBSCRIPTION: Final = Schema(
    """
    topics []string
    user_data bytes?
    owned_partitions [] since 1
        topic string
        partitions []int32
    generation_id int32 since 2 default -1
    rack_id string? since 3
    """,
    versions=VERSIONS,
)
_STICKY_USER_DATA: Final = Schema(
    """
    previous_assignment []
        topic string
        partitions []int32
    generation int32 since 1
    """,
    versions=range(2),
)
_COOPERATIVE_USER_DATA: Final = Schema("generation int32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a consumer brings to a rebalance: the topics that it wants, and from version 1 on the partitions that it
    owns. `generation` is that of the rebalance that assigned them, if it is known. `rack` is empty for a librdkafka
    consumer without one, and None for others."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartitions:
    """What a sticky assignor has in its user data: the partitions that its member owned, and the generation that
    assigned them."""

    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int | None = None


def read_assignment(assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Decodes a consumer's assignment: returns its partitions by topic; no bytes mean no partitions. Raises
    CorruptMessage if it is not a consumer's."""
    if not assignment:
        return {}
    row, _ = _reader(_ASSIGNMENT, _read_version(assignment))(assignment, _VERSION.size)
    return _by_topic(row.assigned_partitions)


def write_assignment(
    partitions: Mapping[str, Sequence[int]], *, version: int = VERSIONS[-1], user_data: bytes | None = None
) -> bytes:
    """Encodes a consumer's assignment."""
    values = {"assigned_partitions": _rows(partitions), "user_data": user_data}
    return _versioned(_ASSIGNMENT, version, values)


def read_subscription(subscription: bytes) -> tuple[str, ...]:
    """Decodes a consumer's subscription: returns the topics that it names. Raises CorruptMessage if it is not a
    consumer's."""
    row, _ = _reader(_SUBSCRIPTION, 0)(subscription, _after_version(subscription))
    return tuple(row.topics)


def decode_subscription(subscription: bytes) -> Subscription:
    """Decodes a consumer's subscription with all its fields. Raises CorruptMessage if it is not a consumer's."""
    version = _read_version(subscription)
    row, _ = _reader(_SUBSCRIPTION, version)(subscription, _VERSION.size)
    return Subscription(
        topics=tuple(row.topics),
        user_data=row.user_data,
        owned=_by_topic(row.owned_partitions),
        generation=None if row.generation_id < 0 else row.generation_id,
        rack=row.rack_id if version >= _RACKS_SINCE else None,
    )


def parse_subscription(content: bytes) -> Subscription | None:
    """Decodes a member's subscription as a DescribeGroups answer has it. Returns None if it is malformed, or empty: a
    broker sends none before the group is Stable."""
    try:
        return decode_subscription(content) if content else None
    except CorruptMessage:
        return None


def write_subscription(subscription: Subscription, *, version: int = VERSIONS[-1]) -> bytes:
    """Encodes a consumer's subscription. Fields that the version does not have are left out."""
    values = {
        "topics": subscription.topics,
        "user_data": subscription.user_data,
        "owned_partitions": _rows(subscription.owned),
        "generation_id": _UNKNOWN_GENERATION if subscription.generation is None else subscription.generation,
        "rack_id": subscription.rack,
    }
    return _versioned(_SUBSCRIPTION, version, values)


def read_sticky_user_data(user_data: bytes | None) -> OwnedPartitions:
    """Decodes the user data of Java's StickyAssignor, with a generation or without one. Bytes that are neither count as
    no partitions of an unknown generation, as in Java."""
    if not user_data:
        return OwnedPartitions()
    for version in (1, 0):
        try:
            row, _ = _reader(_STICKY_USER_DATA, version)(user_data, 0)
        except CorruptMessage:
            continue
        return OwnedPartitions(owned=_by_topic(row.previous_assignment), generation=row.generation if version else None)
    return OwnedPartitions(generation=_UNKNOWN_GENERATION)


def write_sticky_user_data(data: OwnedPartitions) -> bytes:
    """Encodes the user data of Java's StickyAssignor; without a generation in the form of its first version."""
    version = 0 if data.generation is None else 1
    values = {"previous_assignment": _rows(data.owned), "generation": data.generation}
    return _encoded(_STICKY_USER_DATA, version, values)


def read_cooperative_user_data(user_data: bytes | None) -> int | None:
    """Decodes the user data of Java's CooperativeStickyAssignor: a generation, or None without user data. Bytes that
    are too short count as an unknown generation, as in Java."""
    if user_data is None:
        return None
    try:
        row, _ = _reader(_COOPERATIVE_USER_DATA, 0)(user_data, 0)
    except CorruptMessage:
        return _UNKNOWN_GENERATION
    generation: int = row.generation
    return generation


def write_cooperative_user_data(generation: int) -> bytes:
    """Encodes the user data of Java's CooperativeStickyAssignor."""
    return _encoded(_COOPERATIVE_USER_DATA, 0, {"generation": generation})


def _by_topic(rows: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    partitions: dict[str, tuple[int, ...]] = dict(rows)
    if len(partitions) == len(rows):
        return partitions
    partitions.clear()
    for topic, numbers in rows:
        partitions[topic] = (*partitions.get(topic, ()), *numbers)
    return partitions


def _rows(partitions: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]


@cache
def _reader(schema: Schema, version: int) -> Read:
    return lenient_reader(schema, version)


def _versioned(schema: Schema, version: int, values: Mapping[str, Any]) -> bytes:
    return _VERSION.pack(version) + _encoded(schema, version, values)


def _encoded(schema: Schema, version: int, values: Mapping[str, Any]) -> bytes:
    out = bytearray()
    schema_writer(schema, version)(out, values)
    return bytes(out)


def _read_version(content: bytes) -> int:
    """Returns the version to read the bytes by."""
    _after_version(content)
    (version,) = _VERSION.unpack_from(content)
    if version < 0:
        raise CorruptMessage(f"the version is {version}")
    return min(int(version), VERSIONS[-1])


def _after_version(content: bytes) -> int:
    if len(content) < _VERSION.size:
        raise CorruptMessage("too short for its version")
    return _VERSION.size
