"""Decodes all records but commits: classic groups to `generations`, those of newer kinds of groups to `group_events`.

They are read one by one by `offsets_log.record_codec`: a group writes one of them for hundreds of commits.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kcoord.offsets_log.record_codec import (
    CorruptRecord,
    UnreadableRecord,
    Values,
    read_key,
    read_value,
    read_versioned,
)
from kcoord.offsets_log.record_json import key_json, value_json
from kcoord.offsets_log.record_schemas import (
    CONSUMER_ASSIGNMENT,
    CONSUMER_SUBSCRIPTION,
    GROUP_METADATA,
    RECORD_TYPES,
)
from kcoord.pipeline.decoding.byte_columns import Integers
from kcoord.pipeline.decoding.records import Records, source_row, time_of
from kcoord.pipeline.decoding.rejected import Rejection, rejected_record
from kcoord.pipeline.schemas import GENERATIONS, GROUP_EVENTS, TABLES
from kcoord.protocol.schema.notation import Schema

_CONSUMER: Final = "consumer"
_VERSION: Final = struct.Struct(">h")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedGroups:
    """Records of groups that are decoded to rows of the tables `generations` and `group_events`, and rows of `rejected`
    for those that cannot be."""

    generations: list[Row] = field(default_factory=list)
    group_events: list[Row] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def batches(self) -> Mapping[str, pa.RecordBatch]:
        """Returns the rows as Arrow batches by table; only tables that have rows."""
        found = {GENERATIONS: self.generations, GROUP_EVENTS: self.group_events}
        return {name: pa.RecordBatch.from_pylist(rows, TABLES[name].schema) for name, rows in found.items() if rows}


def decode_groups(records: Records, rows: Integers) -> DecodedGroups:
    """Decodes these records, by their row numbers, which are no OffsetCommit: GroupMetadata of classic groups to rows
    of `generations`, those of consumer, share and streams groups to rows of `group_events`."""
    decoded = DecodedGroups()
    for row in rows.tolist():
        try:
            _decode(records, row, decoded)
        except UnreadableRecord as error:
            decoded.rejections.append(rejected_record(records, row, str(error)))
    return decoded


def _decode(records: Records, row: int, decoded: DecodedGroups) -> None:
    key, content = records.key(row), records.value(row)
    if key is None:
        raise CorruptRecord("a record without a key")
    number, names = read_key(key)
    version, value = (None, None) if content is None else read_value(number, content)
    facts = {"tombstone": value is None, "version": version, **source_row(records, row)}
    if number == GROUP_METADATA.number:
        decoded.generations.append(_generation(names, value) | facts)
    else:
        decoded.group_events.append(_group_event(number, names, version, value) | facts)


def _generation(names: Values, value: Values | None) -> Row:
    if value is None:
        return {"group": names["group"], "state": "Dead"}
    is_consumers = value["protocolType"] == _CONSUMER
    return {
        "group": names["group"],
        "generation": value["generation"],
        "state": "Stable" if value["members"] else "Empty",
        "protocol_type": value["protocolType"],
        "protocol": value["protocol"],
        "leader": value["leader"],
        "state_since": time_of(value["currentStateTimestamp"]),
        "members": [_member(member, is_consumers) for member in value["members"]],
    }


def _member(member: Values, is_consumers: bool) -> Row:
    subscription = _subscription(member["subscription"]) if is_consumers else None
    assignment = _assignment(member["assignment"]) if is_consumers else None
    return {
        "member_id": member["memberId"],
        "instance_id": member["groupInstanceId"],
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "session_timeout_ms": member["sessionTimeout"],
        "rebalance_timeout_ms": member["rebalanceTimeout"],
        "subscription": subscription,
        "assignment": assignment,
        "subscription_bytes": None if subscription else member["subscription"],
        "assignment_bytes": None if assignment else member["assignment"],
    }


def _subscription(content: bytes) -> Row | None:
    version, values = _read_embedded(CONSUMER_SUBSCRIPTION, content)
    if values is None:
        return None
    return {
        "version": version,
        "topics": values["topics"],
        "user_data": values["userData"],
        "owned": values["ownedPartitions"],
        "generation": values["generationId"],
        "rack": values["rackId"],
    }


def _assignment(content: bytes) -> Row | None:
    version, values = _read_embedded(CONSUMER_ASSIGNMENT, content)
    if values is None:
        return None
    return {"version": version, "assigned": values["assignedPartitions"], "user_data": values["userData"]}


def _read_embedded(schema: Schema, content: bytes) -> tuple[int, Values | None]:
    """Reads the bytes that consumers wrote, and their version; returns None for bytes that are not in their format.

    Each version begins as the one before, so that a newer one is read as the newest that is known (ConsumerProtocol).
    """
    if len(content) < _VERSION.size:
        return -1, None
    version: int = _VERSION.unpack_from(content)[0]
    newest = schema.versions[-1]
    if version > newest:
        content = _VERSION.pack(newest) + content[_VERSION.size :]
    try:
        return version, read_versioned(schema, content, what="a consumer's bytes")[1]
    except UnreadableRecord:
        return version, None


def _group_event(number: int, names: Values, version: int | None, value: Values | None) -> Row:
    return {
        "group": names["groupId"],
        "member_id": names.get("memberId"),
        "record_type": number,
        "record_name": RECORD_TYPES[number].name,
        "key": _json(key_json(number, names)),
        "payload": None if version is None or value is None else _json(value_json(number, version, value)),
    }


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
