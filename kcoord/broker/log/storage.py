"""Where records are kept, and what must be found again of topics.

Nothing is opened here: whoever makes the cluster hands in its storage. What the system refuses is an OSError.

| protocol   | of               | with names on disk           | that ends with the process                      |
|------------|------------------|------------------------------|-------------------------------------------------|
| Store      | a segment        | journal/segment_files        | journal/file_store, MemoryStore                 |
| LogStorage | a partition      | journal/log_folder           | _PassingLog, below                              |
| Storage    | the cluster      | journal/data_dir             | PassingStorage, below                           |
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
        """Take all of it in; if that fails, nothing of it is there."""

    def read(self, position: int, size: int) -> bytes:
        """So many bytes from this position on, fewer where the store ends."""

    def truncate(self, size: int) -> None:
        """Keep the first so many bytes."""

    def close(self) -> None:
        """Give back what was taken from the system; the store is not used again."""

    def delete(self) -> None:
        """Close it, and let the bytes go."""


class LogStorage(Protocol):
    """Where one log keeps its segments, and what else is to be found again with them."""

    def make_segment(self, base_offset: int, producers: "Producers") -> Store:
        """A store for the segment that begins now; `producers` are those of all batches before it."""

    def keep_start_offset(self, offset: int) -> None:
        """The log begins here from now on, whatever its first segment holds."""

    def make_replacement(self, base_offset: int) -> Store:
        """A store for what is to take the place of segments, of which the first begins here."""

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        """Let the replacement be there and the replaced be gone: both or neither, whatever happens meanwhile.

        `end_offset` is where the next segment begins. If OSError is raised, nothing has changed.
        """

    def delete(self) -> None:
        """The log is no more. Its segments are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTopic:
    """What must be found again of a topic. `replicas` are the nodes of each partition."""

    name: str
    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...]
    overrides: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """What a cluster is to find again, and where."""

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        """Room for the log of a new partition, called `<topic>-<partition>`."""

    def keep_topic(self, topic: KeptTopic) -> None:
        """The topic is new, or another than it was."""

    def take_back(self) -> None:
        """The topic that was kept last is not new after all, or is as it was before."""

    def forget_topic(self, topic_id: UUID) -> None: ...

    def keep_producer_ids(self, end: int) -> None:
        """Producer ids below this may be in use."""

    def sync(self) -> None:
        """What was said above, and all that was appended, is as safe as it was ordered to be once this returns."""

    def close(self) -> None:
        """Nothing more is asked for. All logs are closed."""


MakeStore = Callable[[], Store]


class MemoryStore:
    """All of it in memory: for what ends with a test."""

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


class _PassingLog:
    def __init__(self, make_store: MakeStore) -> None:
        self._make_store = make_store

    def make_segment(self, base_offset: int, producers: "Producers") -> Store:
        return self._make_store()

    def keep_start_offset(self, offset: int) -> None:
        pass

    def make_replacement(self, base_offset: int) -> Store:
        return self._make_store()

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        for store in replaced:
            store.delete()

    def delete(self) -> None:
        pass


class PassingStorage:
    """Nothing is to be found again."""

    def __init__(self, make_store: MakeStore = MemoryStore) -> None:
        self._log = _PassingLog(make_store)

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        return self._log

    def keep_topic(self, topic: KeptTopic) -> None:
        pass

    def take_back(self) -> None:
        pass

    def forget_topic(self, topic_id: UUID) -> None:
        pass

    def keep_producer_ids(self, end: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass
