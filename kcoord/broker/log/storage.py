"""The protocols of storage: where logs and topics are persisted.

Nothing is opened here: the code that makes the cluster passes its storage. Errors of the system are OSErrors.

| protocol   | stores           | in named files               | only for the life of the process                |
|------------|------------------|------------------------------|-------------------------------------------------|
| Store      | a segment        | storage/segment_files        | storage/spill_store, MemoryStore                |
| LogStorage | a partition      | storage/log_dir              | _EphemeralLog, below                            |
| Storage    | the cluster      | storage/data_dir             | EphemeralStorage, below                         |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from kcoord.broker.log.producers import Producers


class Store(Protocol):
    """The bytes of one log segment, which grow at their end: a file, or memory."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    def append(self, content: bytearray) -> None:
        """Appends all of these bytes; if that fails, none of them."""

    def read(self, position: int, size: int) -> bytes:
        """Reads so many bytes from this position on, fewer where the store ends."""

    def truncate(self, size: int) -> None:
        """Cuts the store to its first `size` bytes."""

    def close(self) -> None:
        """Releases the store's file or memory; the store is not used again."""

    def delete(self) -> None:
        """Closes the store and deletes its bytes."""


class LogStorage(Protocol):
    """The storage of one partition's log: creates, replaces and deletes the stores of its segments, and persists its
    start offset.
    """

    def make_segment(self, base_offset: int, producers: "Producers") -> Store:
        """Creates a store for a new segment. `producers` are the idempotent producers of all batches before it, for a
        snapshot.
        """

    def persist_start_offset(self, offset: int) -> None:
        """Persists the log start offset, which may lie within the first segment after DeleteRecords."""

    def make_replacement(self, base_offset: int) -> Store:
        """Creates a store for the compacted replacement of segments, of which the first begins at this offset."""

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        """Replaces the stores of old segments by their compacted replacement, atomically even if the process is killed
        meanwhile.

        `end_offset` is where the next segment begins. If OSError is raised, nothing has changed.
        """

    def delete(self) -> None:
        """Deletes the partition's log. Its segments are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The persisted description of a topic. `replicas` are the node ids of each partition, `overrides` the topic's
    settings.
    """

    name: str
    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...]
    overrides: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """The storage of a cluster: persists its topics, partition logs and producer ids."""

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        """Creates the storage of a new partition's log; `name` is `<topic>-<partition>`."""

    def persist_topic(self, topic: StoredTopic) -> None:
        """Persists the description of a topic that is new or has changed."""

    def revert_topic(self) -> None:
        """Reverts the last `persist_topic`, because the logs of the topic's partitions could not be created."""

    def forget_topic(self, topic_id: UUID) -> None:
        """Deletes the persisted description of a topic."""

    def persist_producer_ids(self, end: int) -> None:
        """Persists that producer ids below `end` may have been given to producers."""

    def sync(self) -> None:
        """Makes everything that was persisted and appended as durable as the settings demand."""

    def close(self) -> None:
        """Closes the storage of the cluster, whose logs are closed already."""


MakeStore = Callable[[], Store]


class MemoryStore:
    """A segment's bytes in memory, for tests."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def size(self) -> int:
        return len(self._bytes)

    def append(self, content: bytearray) -> None:
        self._bytes += content

    def read(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._bytes)[position : position + size])

    def truncate(self, size: int) -> None:
        del self._bytes[size:]

    def close(self) -> None:
        """Drops the bytes."""
        self._bytes.clear()

    def delete(self) -> None:
        """Drops the bytes."""
        self.close()


class _EphemeralLog:
    def __init__(self, make_store: MakeStore) -> None:
        self._make_store = make_store

    def make_segment(self, base_offset: int, producers: "Producers") -> Store:
        return self._make_store()

    def persist_start_offset(self, offset: int) -> None:
        pass

    def make_replacement(self, base_offset: int) -> Store:
        return self._make_store()

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        for store in replaced:
            store.delete()

    def delete(self) -> None:
        pass


class EphemeralStorage:
    """Storage of a cluster whose data ends with the process: nothing is persisted. `make_store` makes the store of each
    segment.
    """

    def __init__(self, make_store: MakeStore = MemoryStore) -> None:
        self._log = _EphemeralLog(make_store)

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        """Returns storage that makes a new store for each segment of the log, and persists nothing."""
        return self._log

    def persist_topic(self, topic: StoredTopic) -> None:
        """Does nothing: topics end with the process."""

    def revert_topic(self) -> None:
        """Does nothing: topics are not persisted."""

    def forget_topic(self, topic_id: UUID) -> None:
        """Does nothing: topics are not persisted."""

    def persist_producer_ids(self, end: int) -> None:
        """Does nothing: producer ids end with the process."""

    def sync(self) -> None:
        """Does nothing: there is nothing on disk."""

    def close(self) -> None:
        """Does nothing: there is nothing to close."""
