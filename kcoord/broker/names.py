"""Which names a topic may have (Kafka's Topic.validate)."""

import re
from typing import Final

MAX_NAME_LENGTH: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"  # KRaft's log, which no client may create.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """Returns what is wrong with a topic's name (Kafka's Topic.validate); None if it is valid."""
    if not name:
        return "Topic name is invalid: it is empty"
    if name in (".", ".."):
        return f"Topic name is invalid: it cannot be {name!r}"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: it has {len(name)} characters, {MAX_NAME_LENGTH} are allowed"
    if not _LEGAL.fullmatch(name):
        return f"Topic name is invalid: {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def unified(name: str) -> str:
    """Returns a topic name with dots replaced by underscores: names that are equal then collide in Kafka's metrics
    (Topic.unifyCollisionChars).
    """
    return name.replace(".", "_")
