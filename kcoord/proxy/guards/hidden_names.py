"""Names that clients of the proxy can neither see nor use: a topic, with its ids, and a transactional id. Pure.

Frames contain them as plain bytes: Kafka has no compressed requests, and decodes bytes that are not strict UTF-8 to
other characters. So a frame without the bytes of a name or id cannot refer to it, and a byte search shows that without
parsing, which keeps Produce and Fetch fast.
"""

from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

from kcoord.errors import ErrorCode

TOPIC_RESOURCE: Final = 2  # ConfigResource.Type.TOPIC
_TOPIC_FIELDS: Final = ("name", "topic", "topic_name")  # as Kafka's schemas call the name of a topic


class Kind(Enum):
    """What a bare string in a request names: a topic or a transactional id."""

    TOPIC = auto()
    TRANSACTION = auto()


class HiddenNames:
    """A topic, with its ids, and a transactional id that clients of the proxy can neither see nor use. `topic_ids`
    grows: a topic recreated by another client has a new id.
    """

    def __init__(self, *, topic: str, transactional_id: str | None = None) -> None:
        self.topic = topic
        self.transactional_id = transactional_id
        self.topic_ids: set[UUID] = set()
        self._byte_patterns = _without_longer([each.encode() for each in (topic, transactional_id) if each])

    def learn_topic_id(self, topic_id: UUID) -> None:
        """Adds an id of the hidden topic, to be hidden like its name."""
        if topic_id.int and topic_id not in self.topic_ids:
            self.topic_ids.add(topic_id)
            self._byte_patterns = [*self._byte_patterns, topic_id.bytes]

    def may_be_in(self, frame: bytes) -> bool:
        """Returns whether the request frame may contain a hidden name or id, by a search of its bytes; False is
        certain.
        """
        for pattern in self._byte_patterns:  # noqa: SIM110 - a generator costs more than the search in a short frame
            if pattern in frame:
                return True
        return False

    def is_transaction(self, named: str | None) -> bool:
        """Returns whether this is the hidden transactional id."""
        return named is not None and named == self.transactional_id

    def collides(self, topic: str) -> bool:
        """Returns whether this topic name equals the hidden one except for dots and underscores, which brokers refuse
        as a collision (Topic.hasCollision).
        """
        return topic.replace(".", "_") == self.topic.replace(".", "_")

    def error_for(self, named: Any, kind: Kind, unknown_topic: ErrorCode) -> ErrorCode | None:
        """Returns the error for a string or kio entity in a request that names something hidden, `unknown_topic` for a
        topic's name; None if it names nothing hidden.
        """
        if isinstance(named, str):
            return self._error_for_text(named, kind, unknown_topic)
        if hasattr(named, "resource_name"):
            is_topic = named.resource_type == TOPIC_RESOURCE
            return unknown_topic if is_topic and named.resource_name == self.topic else None
        if self.is_transaction(getattr(named, "transactional_id", None)):
            return ErrorCode.transactional_id_authorization_failed
        if getattr(named, "topic_id", None) in self.topic_ids:
            return ErrorCode.unknown_topic_id
        if any(getattr(named, field, None) == self.topic for field in _TOPIC_FIELDS):
            return unknown_topic
        return None

    def _error_for_text(self, named: str, kind: Kind, unknown_topic: ErrorCode) -> ErrorCode | None:
        if kind is Kind.TRANSACTION:
            return ErrorCode.transactional_id_authorization_failed if self.is_transaction(named) else None
        return unknown_topic if named == self.topic else None


def _without_longer(texts: list[bytes]) -> list[bytes]:
    """Drops patterns that contain another: a frame without the shorter one has no longer one either."""
    return [each for each in texts if not any(other in each for other in texts if other is not each)]
