"""Whether what a member brings to JoinGroup is fit for the leader that will read it. Pure.

The coordinator hands subscriptions on without looking; it is the leader, another member, that fails on a broken one,
and with it the whole group. What is wrong is told in words; None is a sound one.

The bytes of a consumer are read in the version that they claim. One thing is let pass: nothing at all behind what
version 0 has. Some clients claim version 1 and end there, and leaders of their own kind bear it.
"""

from struct import Struct
from typing import Any, Final

from kcoord.broker.names import why_invalid
from kcoord.protocol.frames import BadBody
from kcoord.protocol.schema.message_readers import body_reader
from kcoord.protocol.schema.messages import parsed

_VERSION: Final = Struct(">h")
_NEWEST: Final = 3
_CONSUMER: Final = "consumer"

_TOPICS: Final = parsed("""
    topics []string
    user_data bytes?
    """)
_OWNED: Final = parsed("""
    owned_partitions [] since 1
        topic string
        partitions []int32
    generation_id int32 since 2
    rack_id string? since 3
    """)
_read_topics: Final = body_reader(_TOPICS, 0, is_flexible=False)
_read_owned: Final = {version: body_reader(_OWNED, version, is_flexible=False) for version in range(1, _NEWEST + 1)}


def why_unfit(join: Any) -> str | None:
    """What is wrong with a JoinGroup, kio's entity of any version."""
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
    """What is wrong with the subscription of a consumer."""
    try:
        topics = _topics(subscription)
    except BadBody as bad:
        return f"not the subscription of a consumer: {bad}"
    return next((reason for topic in topics if (reason := why_invalid(topic))), None)


def _topics(subscription: bytes) -> tuple[str, ...]:
    if len(subscription) < _VERSION.size:
        raise BadBody("too short for its version")
    (version,) = _VERSION.unpack_from(subscription)
    if version < 0:
        raise BadBody(f"version {version}")
    row, position = _read_topics(subscription, _VERSION.size)
    if version > 0 and position < len(subscription):
        _read_owned[min(version, _NEWEST)](subscription, position)
    return tuple(row.topics)
