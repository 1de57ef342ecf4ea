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
    """Bytes that grow at their end."""

    @property
    def size(self) -> int: ...

    def append(self, content: bytearray) -> None:
        """Appends all of it; if that fails, nothing of it."""

    def read(self, position: int, size: int) -> bytes:
        """Reads so many bytes from this position on, fewer where the store ends."""

    def truncate(self, size: int) -> None:
        """Cuts the store to its first `size` bytes."""

    def close(self) -> None:
        """Releases files and memory; the store is not used again."""

    def delete(self) -> None:
        """Closes the store and deletes its bytes."""


class LogStorage(Protocol):
    """The storage of one log: its segments, its start offset, its replacements."""

    def make_segment(self, base_offset: int, producers: "Producers") -> Store:
        """Creates a store for a new segment; `producers` are those of all batches before it."""

    def persist_start_offset(self, offset: int) -> None:
        """Persists where the log begins, whatever its first segment holds."""

    def make_replacement(self, base_offset: int) -> Store:
        """Creates a store for a replacement of segments, of which the first begins at this offset."""

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        """Replaces these stores atomically, even if the process is killed meanwhile.

        `end_offset` is where the next segment begins. If OSError is raised, nothing has changed.
        """

    def delete(self) -> None:
        """Deletes the log. Its segments are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """The persisted description of a topic. `replicas` are the nodes of each partition."""

    name: str
    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...]
    overrides: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """The storage of a cluster: its topics, logs and producer ids."""

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        """Creates the storage for a new partition's log, called `<topic>-<partition>`."""

    def persist_topic(self, topic: StoredTopic) -> None:
        """Persists a topic that is new or has changed."""

    def revert_topic(self) -> None:
        """Reverts the last `persist_topic`."""

    def forget_topic(self, topic_id: UUID) -> None: ...

    def persist_producer_ids(self, end: int) -> None:
        """Persists that producer ids below this may be in use."""

    def sync(self) -> None:
        """Makes everything that was persisted and appended as durable as the settings demand."""

    def close(self) -> None:
        """Closes the storage. All logs are closed."""


MakeStore = Callable[[], Store]


class MemoryStore:
    """A store in memory, for tests."""

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
        self._bytes.clear()

    def delete(self) -> None:
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
    """Storage that ends with the process."""

    def __init__(self, make_store: MakeStore = MemoryStore) -> None:
        self._log = _EphemeralLog(make_store)

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        return self._log

    def persist_topic(self, topic: StoredTopic) -> None:
        pass

    def revert_topic(self) -> None:
        pass

    def forget_topic(self, topic_id: UUID) -> None:
        pass

    def persist_producer_ids(self, end: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass
