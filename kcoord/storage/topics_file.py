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

from kcoord.broker.log.storage import KeptTopic
from kcoord.storage.log_dir import topic_id_of, topic_id_text
from kcoord.storage.segment_files import SegmentFile, SegmentFiles

log = logging.getLogger("kcoord.storage")

NAME: Final = "kcoord-topics.jsonl"
_FORMAT: Final = {"kcoord": "topics/v1"}


class BadTopicsFile(ValueError):
    """The file exists, and is malformed."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """The state that the lines add up to."""

    topics: dict[UUID, KeptTopic] = field(default_factory=dict)
    deleted: set[UUID] = field(default_factory=set)
    producer_ids: int = 0


class TopicsFile:
    def __init__(self, folder: Path, files: SegmentFiles) -> None:
        """Reads and writes nothing before `open`."""
        self._path = folder / NAME
        self._files = files
        self._store = SegmentFile(files, self._path)
        self._size_before = 0

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def open(self) -> Kept:
        """Reads the file and rewrites it without outdated lines. Raises BadTopicsFile, OSError."""
        kept = _read(self._path) if self.exists else Kept()
        content = _lines(_FORMAT, {"producer_ids": kept.producer_ids}, *map(_topic_line, kept.topics.values()))
        content += _lines(*({"deleted": topic_id_text(topic_id)} for topic_id in kept.deleted))
        self._files.system.write_whole(self._path, content)
        self._store = SegmentFile(self._files, self._path, size=len(content))
        return kept

    def keep_topic(self, topic: KeptTopic) -> None:
        self._size_before = self._store.size
        self._store.append(_lines(_topic_line(topic)))

    def take_back(self) -> None:
        """Removes the topic that was persisted last. It needs no disk space."""
        self._store.truncate(self._size_before)

    def forget_topic(self, topic_id: UUID) -> None:
        self._store.append(_lines({"deleted": topic_id_text(topic_id)}))

    def keep_producer_ids(self, end: int) -> None:
        self._store.append(_lines({"producer_ids": end}))


def _read(path: Path) -> Kept:
    content = path.read_bytes()
    *lines, torn = content.split(b"\n")
    if torn:
        log.warning("torn line file=%s bytes=%s: left out", path, len(torn))
    kept = Kept()
    for number, line in enumerate(lines, start=1):
        try:
            _apply(kept, json.loads(line), is_first=number == 1)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadTopicsFile(f"{path}: line {number} is not what kcoord writes") from None
    return kept


def _apply(kept: Kept, line: dict[str, Any], *, is_first: bool) -> None:
    match line:
        case {"kcoord": _}:
            if line != _FORMAT or not is_first:
                raise ValueError(line)
        case {"topic": name}:
            topic = KeptTopic(
                name=str(name),
                topic_id=topic_id_of(line["id"]),
                replicas=tuple(tuple(map(int, nodes)) for nodes in line["replicas"]),
                overrides={str(key): str(value) for key, value in line["configs"].items()},
            )
            kept.topics[topic.topic_id] = topic
        case {"deleted": topic_id}:
            kept.topics.pop(topic_id_of(topic_id), None)
            kept.deleted.add(topic_id_of(topic_id))
        case {"producer_ids": end}:
            kept.producer_ids = int(end)
        case _:
            raise ValueError(line)


def _topic_line(topic: KeptTopic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": topic_id_text(topic.topic_id),
        "replicas": topic.replicas,
        "configs": dict(topic.overrides),
    }


def _lines(*facts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(fact).encode() + b"\n" for fact in facts)
