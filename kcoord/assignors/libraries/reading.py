"""What each library's leader reads from the subscription of a member: what it owns, and of which generation that is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from kcoord.assignors.plan import AssignorFailed, Subscriber
from kcoord.assignors.subscriptions import OwnedFrom, subscriber_from
from kcoord.protocol.consumer_protocol import Subscription, read_sticky_user_data

_KAFKA_PYTHON_USER_DATA: Final = b"\x00\x01"
_UNREADABLE: Final = read_sticky_user_data(b"\x00")
_NOTHING_OWNED: Final = b"\x00\x00\x00\x00\xff\xff\xff\xff"
"""No partitions of an unknown generation, which is also what unreadable user data count as."""

Read: TypeAlias = Callable[[str, Subscription, str | None], Subscriber]


def as_java(source: OwnedFrom | None) -> Read:
    """Returns how Java reads subscriptions for an assignor that finds what members own in this place."""
    assert source is not None, "a server-side assignor reads no subscription"

    def read(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
        return subscriber_from(member_id, subscription, source, instance_id=instance_id)

    return read


def from_fields(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads the fields of the subscription alone: a generation in user data is not considered."""
    member = subscriber_from(member_id, subscription, OwnedFrom.FIELDS, instance_id=instance_id)
    return replace(member, generation=subscription.generation)


def from_sticky_user_data(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads the user data of a sticky assignor, with a generation or without one."""
    return subscriber_from(member_id, subscription, OwnedFrom.STICKY_USER_DATA, instance_id=instance_id)


def as_sarama_sticky(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads the user data of a sticky assignor. Raises AssignorFailed if they are empty or cannot be read, as those of
    kafka-python are: then sarama makes no plan."""
    member = from_sticky_user_data(member_id, subscription, instance_id)
    user_data = subscription.user_data
    is_unreadable = member.generation == _UNREADABLE.generation and not member.owned and user_data != _NOTHING_OWNED
    if user_data == b"" or is_unreadable:
        raise AssignorFailed("kafka: insufficient data to decode packet, more bytes expected")
    return member


def as_kafka_python_sticky(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads user data that begins with its version, as kafka-python writes it. No other library does, so kafka-python
    and the others do not know of each other's members what they own."""
    user_data = subscription.user_data or b""
    is_prefixed = user_data.startswith(_KAFKA_PYTHON_USER_DATA)
    content = user_data[len(_KAFKA_PYTHON_USER_DATA) :] if is_prefixed else None
    member = from_sticky_user_data(member_id, replace(subscription, user_data=content), instance_id)
    return member if member.generation is not None else replace(member, owned={})
