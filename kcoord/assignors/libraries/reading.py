"""What each library's leader reads from the subscription of a member: what it owns, and of which generation that is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from kcoord.assignors.plan import Subscriber
from kcoord.assignors.subscriptions import OwnedFrom, subscriber_from
from kcoord.protocol.consumer_protocol import Subscription

_KAFKA_PYTHON_USER_DATA: Final = b"\x00\x01"

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


as_librdkafka: Read = from_fields


def from_sticky_user_data(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads the user data of a sticky assignor, with a generation or without one."""
    return subscriber_from(member_id, subscription, OwnedFrom.STICKY_USER_DATA, instance_id=instance_id)


def as_kafka_python_sticky(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads user data that begins with its version, as kafka-python writes it. No other library does, so kafka-python
    and the others do not know of each other's members what they own."""
    user_data = subscription.user_data or b""
    is_own = user_data.startswith(_KAFKA_PYTHON_USER_DATA)
    content = user_data[len(_KAFKA_PYTHON_USER_DATA) :] if is_own else None
    member = from_sticky_user_data(member_id, replace(subscription, user_data=content), instance_id)
    return member if member.generation is not None else replace(member, owned={})


def as_franz_go_cooperative(member_id: str, subscription: Subscription, instance_id: str | None) -> Subscriber:
    """Reads the fields of the subscription if they have a generation, or else the user data of a sticky assignor."""
    if subscription.generation is not None:
        return from_fields(member_id, subscription, instance_id)
    return from_sticky_user_data(member_id, subscription, instance_id)
