"""Encodes facts of groups as records of `__consumer_offsets`, in the versions that Kafka 4.3 writes.

`record_schemas` has the schemas of all records as data, for any reader; the few records that a coordinator writes are
encoded by hand here. A test compares every record that is written here with its schema.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Final, assert_never
from uuid import UUID

from kcoord.groups.records import (
    ForeignGroupRecord,
    ForeignGroupTombstone,
    GroupDeleted,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    Record,
    RepeatedCommit,
)
from kcoord.protocol.varint import uvarint

OFFSET_KEY: Final = 1
GROUP_KEY: Final = 2
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1  # The last version that has an expiry time.
GROUP_VALUE_VERSION: Final = 3

_MAX_IDENTITIES: Final = 10_000
_NO_TIME: Final = -1

_short = Struct(">h").pack
_int = Struct(">i").pack
_long = Struct(">q").pack
_offset_start = Struct(">hqi").pack


def key_values(fact: Record) -> Iterable[tuple[bytes, bytes | None]]:
    """Encodes a group's record as records of `__consumer_offsets`: the bytes of key and value of each, where a value of
    None is a tombstone."""
    match fact:
        case GroupStored():
            return [(group_key(fact.group_id), _group_value(fact))]
        case GroupDeleted():
            return [(group_key(fact.group_id), None)]
        case OffsetsStored():
            rows = zip(fact.partitions, fact.offsets, fact.leader_epochs, fact.metadata, strict=True)
            return [
                (
                    offset_key(fact.group_id, fact.topic, partition),
                    _offset_value(fact, offset, epoch, text.encode()),
                )
                for partition, offset, epoch, text in rows
            ]
        case RepeatedCommit():
            return [each for stored in fact.expand() for each in key_values(stored)]
        case OffsetDeleted():
            return [(offset_key(fact.group_id, fact.topic, fact.partition), None)]
        case ForeignGroupTombstone():
            return [(fact.key, None)]
        case ForeignGroupRecord():
            raise AssertionError("groups of other kinds are only read")
        case _:
            assert_never(fact)


def group_key(group_id: str) -> bytes:
    """Encodes the key of a group's record (GroupMetadataKey)."""
    return _short(GROUP_KEY) + _string(group_id)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Encodes the key of a committed offset's record (OffsetCommitKey)."""
    return offset_names(group_id, topic) + _int(partition)


def offset_names(group_id: str, topic: str) -> bytes:
    """Encodes the key of a committed offset's record up to its partition, which is the last field."""
    return _short(OFFSET_KEY) + _string(group_id) + _string(topic)


def _offset_value(fact: OffsetsStored, offset: int, epoch: int, text: bytes) -> bytes:
    if fact.expires_at_ms is not None:
        times = _long(fact.committed_at_ms) + _long(fact.expires_at_ms)
        return _short(OFFSET_VALUE_VERSION_WITH_EXPIRY) + _long(offset) + _short(len(text)) + text + times
    start = _offset_start(OFFSET_VALUE_VERSION, offset, epoch) + uvarint(len(text) + 1) + text
    return start + _long(fact.committed_at_ms) + topic_tag(fact.topic_id)


def topic_tag(topic_id: UUID | None) -> bytes:
    """Encodes the tagged fields of a committed offset: the id of its topic, if that is known."""
    return b"\0" if topic_id is None else b"\x01\x00\x10" + topic_id.bytes


def _group_value(fact: GroupStored) -> bytes:
    parts = [
        _short(GROUP_VALUE_VERSION),
        _string(fact.protocol_type or ""),
        _int(fact.generation),
        _nullable(fact.protocol),
        _nullable(fact.leader_id),
        _long(_NO_TIME if fact.since_ms is None else fact.since_ms),
        _int(len(fact.members)),
    ]
    for member in fact.members:
        *who, subscription, assignment = member
        parts += (_member_identity(*who), _int(len(subscription)), subscription, _int(len(assignment)), assignment)
    return b"".join(parts)


@lru_cache(_MAX_IDENTITIES)
def _member_identity(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    client_host: str,
    session_timeout: float,
    rebalance_timeout: float,
) -> bytes:
    """Encodes the part of a member that is the same in each generation."""
    return b"".join(
        (
            _string(member_id),
            _nullable(instance_id),
            _string(client_id),
            _string(client_host),
            _int(round(rebalance_timeout * 1000)),
            _int(round(session_timeout * 1000)),
        )
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _short(len(encoded)) + encoded


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def _varint(size: int) -> bytes:
    return uvarint(2 * size)
