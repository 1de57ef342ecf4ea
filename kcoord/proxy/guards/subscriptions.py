"""Validates the subscriptions in a JoinGroup request for the leader that will parse them. Pure.

The coordinator forwards subscriptions unread. The leader, another member, fails on a malformed one, and with it the
whole group. The functions return what is wrong as text, or None for a valid subscription.

A consumer's subscription is parsed in the version that it claims, with one exception: it may end after the fields of
version 0. Some clients claim version 1 and end there, and leaders of the same kind accept it.
"""

from struct import Struct
from typing import Any, Final

from kcoord.broker.names import why_invalid
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.schema.message_readers import body_reader
from kcoord.protocol.schema.notation import Schema

_VERSION: Final = Struct(">h")
_NEWEST: Final = 3
_CONSUMER: Final = "consumer"

_TOPICS: Final = Schema("""
    topics []string
    user_data bytes?
    """)
_OWNED: Final = Schema(
    """
    owned_partitions [] since 1
        topic string
        partitions []int32
    generation_id int32 since 2
    rack_id string? since 3
    """,
    versions=range(1, _NEWEST + 1),
)
_read_topics: Final = body_reader(_TOPICS, 0)
_read_owned: Final = {version: body_reader(_OWNED, version) for version in _OWNED.versions}


def why_unfit(join: Any) -> str | None:
    """Returns what is wrong with the protocols in a JoinGroup request (kio's entity of any version); None if the
    group's leader can parse them.
    """
    if not join.protocol_type:
        return "it names no protocol type"
    if not join.protocols:
        return "it names no protocols"
    if join.protocol_type != _CONSUMER:
        return None
    for protocol in join.protocols:
        if reason := why_malformed(protocol.metadata):
            return f"protocol {protocol.name!r}: {reason}"
    return None


def why_malformed(subscription: bytes) -> str | None:
    """Returns what is wrong with the bytes of a consumer's subscription; None if a leader can parse them."""
    try:
        topics = _topics(subscription)
    except CorruptMessage as bad:
        return f"not the subscription of a consumer: {bad}"
    return next((reason for topic in topics if (reason := why_invalid(topic))), None)


def _topics(subscription: bytes) -> tuple[str, ...]:
    if len(subscription) < _VERSION.size:
        raise CorruptMessage("too short for its version")
    (version,) = _VERSION.unpack_from(subscription)
    if version < 0:
        raise CorruptMessage(f"version {version}")
    row, position = _read_topics(subscription, _VERSION.size)
    if version > 0 and position < len(subscription):
        _read_owned[min(version, _NEWEST)](subscription, position)
    return tuple(row.topics)
