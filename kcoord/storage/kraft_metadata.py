"""The topics in a broker's data folder, from the log of the KRaft controllers, `__cluster_metadata-0`.

Only what is needed to adopt the topics is read: their names, partition counts and settings, and the producer ids that
were handed out. A broker that is no controller has no such log.

| record            | type | fields that are read here                                   |
|-------------------|------|-------------------------------------------------------------|
| TopicRecord       | 2    | name, id                                                    |
| PartitionRecord   | 3    | number, the topic's id                                      |
| ConfigRecord      | 4    | kind of resource, its name, the setting's name, value       |
| RemoveTopicRecord | 9    | id                                                          |
| ProducerIdsRecord | 15   | the next id, behind a broker's id and epoch                 |

A record begins with the version of this frame, its type and the version of that type. The newest
`<end offset>-<epoch>.checkpoint` replaces all that was logged before its end offset.
"""

import logging
import re
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final
from uuid import UUID

from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.record import read_records
from kcoord.protocol.varint import read_uvarint

log = logging.getLogger("kcoord.storage")

FOLDER: Final = "__cluster_metadata-0"
_FRAME_VERSION: Final = 1
_OF_TOPIC: Final = 2  # ConfigResource.Type
_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")


class _Kind(IntEnum):
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    REMOVE_TOPIC = 9
    PRODUCER_IDS = 15


@dataclass(slots=True, kw_only=True)
class KraftTopic:
    """A topic in the metadata log of a KRaft broker: its name, its number of partitions, and its configs."""

    name: str
    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class KraftMetadata:
    """The topics in the metadata log of a KRaft broker, by id, and the first producer id that was not handed out."""

    topics: dict[UUID, KraftTopic] = field(default_factory=dict)
    producer_ids: int = 0


def read_kraft_metadata(data_dir: Path) -> KraftMetadata:
    """Reads the topics from `__cluster_metadata-0` in a broker's data folder; there are none if it has no such log or
    the log cannot be read."""
    folder = data_dir / FOLDER
    known = KraftMetadata()
    if not folder.is_dir():
        return known
    try:
        checkpoint = max((path for path in folder.iterdir() if _CHECKPOINT_NAME.fullmatch(path.name)), default=None)
        from_offset = int(checkpoint.name[:20]) if checkpoint else 0
        if checkpoint:
            _apply_file(known, checkpoint, from_offset=0)
        for path in sorted(path for path in folder.iterdir() if _SEGMENT_NAME.fullmatch(path.name)):
            _apply_file(known, path, from_offset=from_offset)
    except (OSError, ValueError, IndexError) as error:
        log.warning("left aside folder=%s why=%r", folder, str(error))
        return KraftMetadata()
    return known


def _apply_file(known: KraftMetadata, path: Path, *, from_offset: int) -> None:
    for batch in split_batches(path.read_bytes()):
        if batch.header.is_control or batch.header.last_offset < from_offset:
            continue
        for record in read_records(batch):
            if record.value and record.offset >= from_offset:
                _apply(known, _Reader(record.value))


class _Reader:
    """Reads the fields of one record in their order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def unsigned(self) -> int:
        value, self._position = read_uvarint(self._content, self._position)
        return value

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), signed=True)

    def text(self) -> str | None:
        size = self.unsigned() - 1
        return None if size < 0 else self.take(size).decode()

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise ValueError(f"a record of {len(self._content)} bytes breaks off")
        taken, self._position = self._content[self._position : end], end
        return taken


def _apply(known: KraftMetadata, reader: _Reader) -> None:
    if reader.unsigned() != _FRAME_VERSION:
        raise ValueError("a record's frame is of an unknown version")
    kind = reader.unsigned()
    reader.unsigned()  # The version of the type: all versions begin with the fields that are read here.
    match kind:
        case _Kind.TOPIC:
            name = reader.text() or ""
            known.topics[reader.uuid()] = KraftTopic(name=name)
        case _Kind.PARTITION:
            index, topic = reader.number(4), known.topics.get(reader.uuid())
            if topic:
                topic.partitions = max(topic.partitions, index + 1)
        case _Kind.CONFIG:
            _apply_config(known, reader)
        case _Kind.REMOVE_TOPIC:
            known.topics.pop(reader.uuid(), None)
        case _Kind.PRODUCER_IDS:
            reader.take(4 + 8)
            known.producer_ids = reader.number(8)


def _apply_config(known: KraftMetadata, reader: _Reader) -> None:
    if reader.number(1) != _OF_TOPIC:
        return
    resource, name, value = reader.text(), reader.text() or "", reader.text()
    for topic in known.topics.values():
        if topic.name == resource:
            if value is None:
                topic.configs.pop(name, None)
            else:
                topic.configs[name] = value
