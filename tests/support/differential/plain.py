"""Converts answers to plain values that can be compared: values that must differ between two clusters become names.

| what                                  | becomes                                                        |
|---------------------------------------|----------------------------------------------------------------|
| topic, session and producer ids       | a name, given in the order in which a side first answers them  |
| the cluster's id, its port            | `<cluster>`, `<port>`, if they are those of the side           |
| times of the test's own minutes       | `<now>`                                                        |
| texts of errors                       | `<text>`, if there is one                                      |
| settings that the server itself sets  | `<server>`                                                     |
| records                               | the whole batches, each with its header and a sound checksum   |
| throttle times                        | left out                                                       |
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import HEADER_SIZE, Batch, has_valid_crc, split_batches

Plain = Any
"""A comparable value: None, bool, int, str, bytes, or dicts and lists of them."""

_texts: Final = frozenset({"error_message", "batch_index_error_message", "documentation"})
_times: Final = frozenset({"timestamp", "log_append_time", "log_append_time_ms"})
_from_topic, _from_default = 1, 5  # config sources that do not depend on how the server was started


@dataclass(slots=True, kw_only=True)
class Naming:
    """Maps one side's ids to the names that the comparison uses."""

    port: int
    cluster_id: str
    server_settings: frozenset[str] = frozenset()  # topic settings that one of the servers overrides
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000 - 1000)
    _names: dict[tuple[str, object], str] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def learn(self, kind: str, value: object, about: str = "") -> str:
        """The name of an id of this side, a new one if it is seen for the first time."""
        if (kind, value) not in self._names:
            group = f"{kind} {about}".strip()
            self._counts[group] = self._counts.get(group, 0) + 1
            name = f"{group} #{self._counts[group]}"
            self._names[kind, value] = name
            self._values[name] = self._values[group] = value
        return self._names[kind, value]

    def name(self, kind: str, value: object) -> object:
        return self._names.get((kind, value), value)

    def value(self, name: str) -> Any:
        """The id behind a name; without a number, the newest of that kind."""
        return self._values[name]

    def knows(self, name: str) -> bool:
        return name in self._values


def learn_topics(value: Any, naming: Naming) -> None:
    """Names the ids of the topics that an answer contains."""
    if isinstance(value, tuple):
        for element in value:
            learn_topics(element, naming)
    if not is_dataclass(value):
        return
    topic_id, name = getattr(value, "topic_id", None), getattr(value, "name", None) or getattr(value, "topic", None)
    if topic_id is not None and name and not getattr(value, "error_code", 0):
        naming.learn("topic", topic_id, name)
    for part in fields(value):
        learn_topics(getattr(value, part.name), naming)


def plain(value: Any, naming: Naming) -> Plain:
    """Converts an answer, or a part of it, to comparable values."""
    if isinstance(value, tuple):
        return [plain(element, naming) for element in value]
    if isinstance(value, ErrorCode):
        return value.name
    if not is_dataclass(value):
        return value
    parts = {part.name: getattr(value, part.name) for part in fields(value)}
    return {
        name: _field(name, part, naming) for name, part in _masked(parts, naming).items() if name != "throttle_time"
    }


def _masked(parts: dict[str, Any], naming: Naming) -> dict[str, Any]:
    """Masks the parts of a topic's setting that depend on how the server was started."""
    if "synonyms" in parts:
        sources = (_from_topic, _from_default)
        parts = {**parts, "synonyms": tuple(line for line in parts["synonyms"] if line.source in sources)}
    if parts.get("name") in naming.server_settings and parts.get("config_source", _from_topic) != _from_topic:
        return {**parts, "value": "<server>", "config_source": "<server>"}
    return parts


def _field(name: str, value: Any, naming: Naming) -> Plain:
    if name in _texts:
        return "<text>" if value else value
    if name in _times:
        return _time(value, naming)
    match name:
        case "topic_id":
            return naming.name("topic", value) if isinstance(value, UUID) else value
        case "session_id":
            return naming.learn("session", value) if value else value
        case "producer_id":
            return naming.learn("producer", value) if value >= 0 else value
        case "cluster_id":
            return "<cluster>" if value == naming.cluster_id else value
        case "port":
            return "<port>" if value == naming.port else value
        case "records":
            return value if value is None else [_batch(batch, naming) for batch in split_batches(value)]
    return plain(value, naming)


def _time(value: Any, naming: Naming) -> Plain:
    if isinstance(value, datetime):
        value = round(value.timestamp() * 1000)
    if value is None or value < naming.started_ms or value > time.time_ns() // 1_000_000:
        return value
    return "<now>"


def _batch(batch: Batch, naming: Naming) -> Mapping[str, Plain]:
    header = batch.header
    return {
        "base offset": header.base_offset,
        "size": header.size,
        "leader epoch": header.leader_epoch,
        "checksum": "sound" if has_valid_crc(batch) else "broken",
        "attributes": header.attributes,
        "last offset delta": header.last_offset_delta,
        "base timestamp": _time(header.base_timestamp, naming),
        "max timestamp": _time(header.max_timestamp, naming),
        "producer": naming.name("producer", header.producer_id),
        "producer epoch": header.producer_epoch,
        "base sequence": header.base_sequence,
        "records": header.record_count,
        "bytes": bytes(batch.data[HEADER_SIZE:]),
    }
