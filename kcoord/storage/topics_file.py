"""The file for what Kafka has in its metadata log: the topics, and the producer ids that were handed out.

Each line is one fact, as JSON, and the last of its kind holds:

    {"kcoord": "topics/v1"}
    {"topic": "orders", "id": "BeGax_FWRX-_vJHK2lOWVQ", "replicas": [[1], [1]], "configs": {"retention.ms": "1000"}}
    {"deleted": "BeGax_FWRX-_vJHK2lOWVQ"}
    {"producer_ids": 2000}

A line is written before the response to the request that caused it. Outdated lines are dropped when the file is opened
again. A last line without its end was never completely written, and is dropped.
"""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kcoord.broker.log.storage import StoredTopic
from kcoord.exceptions import CorruptData
from kcoord.protocol.uuids import format_uuid, parse_uuid
from kcoord.storage.segment_files import SegmentFile, SegmentFiles

log = logging.getLogger("kcoord.storage")

NAME: Final = "kcoord-topics.jsonl"
_FORMAT: Final = {"kcoord": "topics/v1"}


class BadTopicsFile(CorruptData, ValueError):
    """Raised when the file of topics, `kcoord-topics.jsonl`, is malformed."""


@dataclass(slots=True, kw_only=True)
class StoredState:
    """The contents of the file of topics: the topics by id, the ids of deleted ones, and `producer_ids`, the first
    producer id that has certainly not been assigned to a producer."""

    topics: dict[UUID, StoredTopic] = field(default_factory=dict)
    deleted: set[UUID] = field(default_factory=set)
    producer_ids: int = 0


class TopicsFile:
    """The file `kcoord-topics.jsonl` in the data folder, which stores what Kafka has in its metadata log: the topics,
    and the producer ids that were handed out. A line is appended for each change."""

    def __init__(self, folder: Path, files: SegmentFiles) -> None:
        """Reads and writes nothing before `open`."""
        self._path = folder / NAME
        self._files = files
        self._store = SegmentFile(files, self._path)
        self._size_before = 0

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._path.exists()

    def open(self) -> StoredState:
        """Reads the file, rewrites it without outdated lines, and returns its contents. Raises BadTopicsFile,
        OSError."""
        stored = _read(self._path) if self.exists else StoredState()
        content = _lines(_FORMAT, {"producer_ids": stored.producer_ids}, *map(_topic_line, stored.topics.values()))
        content += _lines(*({"deleted": format_uuid(topic_id.bytes)} for topic_id in stored.deleted))
        self._files.filesystem.write_atomically(self._path, content)
        self._store = SegmentFile(self._files, self._path, size=len(content))
        return stored

    def persist_topic(self, topic: StoredTopic) -> None:
        """Appends a line with a created or changed topic. Raises OSError."""
        self._size_before = self._store.size
        self._store.append(_lines(_topic_line(topic)))

    def revert_topic(self) -> None:
        """Removes the line of the topic that was persisted last. It needs no disk space."""
        self._store.truncate(self._size_before)

    def forget_topic(self, topic_id: UUID) -> None:
        """Appends a line by which this topic is deleted. Raises OSError."""
        self._store.append(_lines({"deleted": format_uuid(topic_id.bytes)}))

    def persist_producer_ids(self, end: int) -> None:
        """Appends a line by which all producer ids below `end` may have been handed out. Raises OSError."""
        self._store.append(_lines({"producer_ids": end}))


def _read(path: Path) -> StoredState:
    content = path.read_bytes()
    *lines, torn = content.split(b"\n")
    if torn:
        log.warning("torn line file=%s bytes=%s: left out", path, len(torn))
    stored = StoredState()
    for number, line in enumerate(lines, start=1):
        try:
            _apply(stored, json.loads(line), is_first=number == 1)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadTopicsFile(f"{path}: line {number} is not what kcoord writes") from None
    return stored


def _apply(stored: StoredState, line: dict[str, Any], *, is_first: bool) -> None:
    match line:
        case {"kcoord": _}:
            if line != _FORMAT or not is_first:
                raise ValueError(line)
        case {"topic": name}:
            topic = StoredTopic(
                name=str(name),
                topic_id=parse_uuid(line["id"]),
                replicas=tuple(tuple(map(int, nodes)) for nodes in line["replicas"]),
                overrides={str(key): str(value) for key, value in line["configs"].items()},
            )
            stored.topics[topic.topic_id] = topic
        case {"deleted": topic_id}:
            stored.topics.pop(parse_uuid(topic_id), None)
            stored.deleted.add(parse_uuid(topic_id))
        case {"producer_ids": end}:
            stored.producer_ids = int(end)
        case _:
            raise ValueError(line)


def _topic_line(topic: StoredTopic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": format_uuid(topic.topic_id.bytes),
        "replicas": topic.replicas,
        "configs": dict(topic.overrides),
    }


def _lines(*facts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(fact).encode() + b"\n" for fact in facts)
