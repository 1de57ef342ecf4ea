"""The protocol that a group selects, and the topics that its members subscribe to.

A subscription is opaque to the coordinator, with one exception: for protocol type "consumer" its topics are parsed, to
prevent offsets of topics in use from being deleted (as ClassicGroup.computeSubscribedTopics does). Bytes that cannot be
parsed are no error: the topics are then unknown, and all of them count as in use.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from struct import Struct, error
from typing import Final

from kcoord.groups.classic.member import Member, Protocols

CONSUMER: Final = "consumer"

_NAME: Final = itemgetter(0)
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_BEFORE_TOPICS: Final = 6  # bytes of a subscription: its version and the count of topics


def names(protocols: Protocols) -> list[str]:
    """Returns the names of the protocols, in order of preference."""
    return list(map(_NAME, protocols))


def have_same_names(some: Protocols, others: Protocols) -> bool:
    """Returns whether both lists of protocols have the same names in the same order. This is a loop because all joins
    of a rebalance pass here."""
    if len(some) != len(others):
        return False
    for (name, _), (other, _) in zip(some, others, strict=True):  # noqa: SIM110
        if name != other:
            return False
    return True


def select_protocol(members: Collection[Member], protocol_support: Mapping[str, int]) -> str:
    """Returns the protocol with the most votes among those that all members support; each member votes for its first of
    these. `protocol_support` is how many members support each protocol."""
    candidates = {name for name, count in protocol_support.items() if count == len(members)}
    assert candidates, "a member that shares no protocol with the others is never let in"
    votes: dict[str, int] = {}
    for member in members:
        for name, _ in member.protocols:
            if name in candidates:
                votes[name] = votes.get(name, 0) + 1
                break
    return max(votes, key=votes.__getitem__)


def subscribed_topics(subscriptions: Iterable[bytes]) -> set[str] | None:
    """Returns the topics that these consumers' subscriptions name together, or None if one of them cannot be parsed."""
    topics: set[str] = set()
    for subscription in subscriptions:
        of_member = topics_of(subscription)
        if of_member is None:
            return None
        topics |= of_member
    return topics


def topics_of(subscription: bytes) -> set[str] | None:
    """Returns the topics of a consumer's subscription, or None if its bytes cannot be parsed. Every version begins with
    the fields of version 0."""
    try:
        return _topics_of(subscription)
    except (error, ValueError):
        return None


def topic_count(subscription: bytes) -> int:
    """Returns how many topics a consumer's subscription names, without parsing them; 0 if its bytes cannot hold as many
    as it claims."""
    if len(subscription) < _BEFORE_TOPICS:
        return 0
    count: int = _INT32.unpack_from(subscription, _INT16.size)[0]
    return count if 0 < count <= (len(subscription) - _BEFORE_TOPICS) // _INT16.size else 0


def _topics_of(subscription: bytes) -> set[str]:
    position = 2  # skips the version: the fields read here are those of version 0
    count, position = _INT32.unpack_from(subscription, position)[0], position + 4
    if count < 0:
        raise ValueError("a count that cannot be")
    topics = set()
    for _ in range(count):
        length, position = _INT16.unpack_from(subscription, position)[0], position + 2
        if length < 0 or position + length > len(subscription):
            raise ValueError("a length that cannot be")
        topics.add(subscription[position : position + length].decode(errors="replace"))
        position += length
    user_data, position = _INT32.unpack_from(subscription, position)[0], position + 4
    if position + max(user_data, 0) > len(subscription):
        raise ValueError("user data that is cut off")
    return topics
