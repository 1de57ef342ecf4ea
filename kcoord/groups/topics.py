"""What the coordinator asks of the cluster: which topics there are."""

from typing import NamedTuple, Protocol
from uuid import UUID


class Heir(NamedTuple):
    """The topic that has the name of one that was deleted, and since when a commit by that name may be meant for it."""

    topic_id: UUID
    since_ms: int


class Topics(Protocol):
    @property
    def losses(self) -> int:
        """Another number whenever a topic is deleted or made anew: until then, what `has` said is still so."""

    def topic_id(self, name: str) -> UUID | None:
        """The id of a topic; None if there is no such topic."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic; None if there is no such topic."""

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        """Whether the topic of that name is the one of that id, and has such a partition."""

    def partitions_of(self, name: str) -> int:
        """How many a topic has; 0 if there is no such topic."""
