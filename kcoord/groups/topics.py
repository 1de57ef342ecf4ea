"""The topics of the cluster, as the coordinator asks for them."""

from typing import NamedTuple, Protocol
from uuid import UUID


class RecreatedTopic(NamedTuple):
    """A topic that was recreated under the name of a deleted one, with its new id.

    Commits by that name since `since_ms`, in milliseconds since the Unix epoch, may be meant for it.
    """

    topic_id: UUID
    since_ms: int


class Topics(Protocol):
    """The group coordinator's view of the cluster's topics: the interface through which it looks up names, ids and
    partition counts."""

    @property
    def deletion_epoch(self) -> int:
        """A number that changes whenever a topic is deleted or recreated; results of `has` are valid until then."""

    def topic_id(self, name: str) -> UUID | None:
        """Returns the id of a topic, or None if it does not exist."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """Returns the name of a topic, or None if it does not exist."""

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        """Returns whether the topic with this name has this id and this partition."""

    def partitions_of(self, name: str) -> int:
        """Returns the number of the topic's partitions, or 0 if it does not exist."""
