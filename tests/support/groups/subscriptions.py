"""Subscriptions, as consumers encode them."""

from collections.abc import Iterable
from struct import pack


def subscription_to(topics: Iterable[str]) -> bytes:
    """Returns a version 1 subscription without user data and without owned partitions."""
    names = [topic.encode() for topic in topics]
    listed = b"".join(pack(">h", len(name)) + name for name in names)
    return pack(">hi", 1, len(names)) + listed + pack(">ii", -1, 0)
