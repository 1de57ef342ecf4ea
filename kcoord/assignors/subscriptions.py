"""What an assignor reads from the subscription of a member. Each finds what the member owns in another place."""

from enum import StrEnum

from kcoord.assignors.plan import AssignorFailed, Subscriber
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    decode_subscription,
    read_cooperative_user_data,
    read_sticky_user_data,
)
from kcoord.protocol.frames import CorruptMessage


class OwnedFrom(StrEnum):
    """Where a client-side assignor finds what a member owns."""

    NOWHERE = "nowhere"
    """It does not ask: range and round robin."""
    STICKY_USER_DATA = "the user data of StickyAssignor"
    FIELDS = "the fields of the subscription"
    """The generation is in the user data of CooperativeStickyAssignor before version 2."""


class UnreadableSubscription(AssignorFailed):
    """Raised for a member whose subscription is malformed. Java's leader decodes all subscriptions before it asks an
    assignor (ConsumerCoordinator.onLeaderElected), and throws an exception at the first one that it cannot decode: then
    no member gets an assignment, until that member leaves."""


def decode_subscriber(
    member_id: str, subscription: bytes, source: OwnedFrom, *, instance_id: str | None = None
) -> Subscriber:
    """Decodes what a member has sent to a JoinGroup. Raises UnreadableSubscription if it is not a consumer's
    subscription."""
    try:
        decoded = decode_subscription(subscription)
    except CorruptMessage as corrupt:
        raise UnreadableSubscription(f"the subscription of {member_id} is malformed: {corrupt}") from corrupt
    return subscriber_from(member_id, decoded, source, instance_id=instance_id)


def subscriber_from(
    member_id: str, subscription: Subscription, source: OwnedFrom, *, instance_id: str | None = None
) -> Subscriber:
    """Returns the member as this assignor sees it."""
    owned = _owned(subscription, source)
    return Subscriber(
        member_id=member_id,
        instance_id=instance_id,
        topics=tuple(subscription.topics),
        owned=owned.owned,
        generation=owned.generation,
        field_generation=subscription.generation,
        rack=subscription.rack,
    )


def _owned(subscription: Subscription, source: OwnedFrom) -> OwnedPartitions:
    match source:
        case OwnedFrom.NOWHERE:
            return OwnedPartitions()
        case OwnedFrom.STICKY_USER_DATA:
            return read_sticky_user_data(subscription.user_data)
        case OwnedFrom.FIELDS:
            generation = subscription.generation
            if generation is None:
                generation = read_cooperative_user_data(subscription.user_data)
            return OwnedPartitions(owned=subscription.owned, generation=generation)
