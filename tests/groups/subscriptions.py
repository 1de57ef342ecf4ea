"""The bytes that a consumer joins with."""

from collections.abc import Iterable
from struct import pack


def subscription_to(topics: Iterable[str]) -> bytes:
    """A consumer's subscription, version 1, without user data and without partitions that it owns."""
    names = [topic.encode() for topic in topics]
    listed = b"".join(pack(">h", len(name)) + name for name in names)
    return pack(">hi", 1, len(names)) + listed + pack(">ii", -1, 0)
