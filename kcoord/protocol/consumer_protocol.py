"""The opaque bytes of groups of protocol type "consumer": subscriptions and assignments.

Every version begins as version 0 does, so a version newer than the known ones is read as the newest known one.
"""

from collections.abc import Mapping
from typing import Final

from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.schema.message_readers import body_reader
from kcoord.protocol.schema.notation import Schema

_VERSION_BYTES: Final = 2

_read_assignment: Final = body_reader(
    Schema("""
    assigned_partitions []
        topic string
        partitions []int32
    user_data bytes?
    """),
    0,
)
_read_subscription: Final = body_reader(
    Schema("""
    topics []string
    user_data bytes?
    """),
    0,
)


def read_assignment(assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Decodes a consumer's assignment: returns its partitions by topic; no bytes mean no partitions. Raises
    CorruptMessage if it is not a consumer's."""
    if not assignment:
        return {}
    row, _ = _read_assignment(assignment, _after_version(assignment))
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, numbers in row.assigned_partitions:
        partitions[topic] = (*partitions.get(topic, ()), *numbers)
    return partitions


def read_subscription(subscription: bytes) -> tuple[str, ...]:
    """Decodes a consumer's subscription: returns the topics that it names. Raises CorruptMessage if it is not a
    consumer's."""
    row, _ = _read_subscription(subscription, _after_version(subscription))
    return tuple(row.topics)


def _after_version(content: bytes) -> int:
    if len(content) < _VERSION_BYTES:
        raise CorruptMessage("too short for its version")
    return _VERSION_BYTES
