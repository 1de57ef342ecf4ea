"""The rows that a segment must give, made from the dump of `offsets_log.dump` or kafka-dump-log, record by record."""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from kcoord.offsets_log.dump import DumpedBatch, DumpFilter, batch_json, dump_segment
from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.pipeline.decoding.decode import decode_range
from kcoord.pipeline.decoding.segments import SegmentRange, find_segments, plan_ranges
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, TABLES

Row = dict[str, Any]
Rows = dict[str, list[Row]]

_COMMIT_NUMBERS: Final = (0, 1)
_GROUP_NUMBER: Final = 2
_NEWEST: Final = 3  # the newest version of a consumer's bytes that dumps decode
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


def decoded(path: Path, **how: Any) -> Rows:
    """Decodes all tables of all segments, and checks each batch against its schema."""
    return decoded_ranges(plan_ranges(find_segments(path), **how))


def decoded_ranges(ranges: list[SegmentRange]) -> Rows:
    found: Rows = {name: [] for name in TABLES}
    for each in ranges:
        for name, batch in decode_range(each):
            batch.validate(full=True)
            assert batch.schema.equals(TABLES[name].schema)
            assert batch.num_rows or name == "log_ends"
            found[name] += batch.to_pylist()
    for row in found["scanned"]:
        assert row["records"] == sum(row[name] for name in list(row)[8:]), row
    return found


def expected_rows(segment: Path) -> Rows:
    """Returns the expected rows, by our own dump."""
    dumped = dump_segment(segment, DumpFilter())
    return expected_rows_of_dump([batch_json(each) for each in dumped if isinstance(each, DumpedBatch)], segment)


def expected_rows_of_dump(batches: list[dict[str, Any]], segment: Path) -> Rows:
    """Returns the expected rows of dumped batches, whose records have keys and values as JSON."""
    rows: Rows = {COMMITS: [], GENERATIONS: [], GROUP_EVENTS: []}
    for batch in _committed(batches):
        for record in batch["records"]:
            if found := _row(batch, record, segment):
                rows[found[0]].append(found[1])
    return rows


def decoded_tables(rows: Rows) -> Rows:
    return {name: rows[name] for name in (COMMITS, GENERATIONS, GROUP_EVENTS)}


def _committed(batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the batches that are committed. It goes backwards, since the marker of a transaction comes after its
    batches."""
    ends: dict[int, str] = {}
    committed: list[dict[str, Any]] = []
    for batch in reversed(batches):
        if batch["isControl"]:
            for record in reversed(batch["records"]):
                if record["marker"]["type"] in ("ABORT", "COMMIT"):
                    ends[batch["producerId"]] = record["marker"]["type"]
        elif not batch["isTransactional"] or ends.get(batch["producerId"]) == "COMMIT":
            committed.append(batch)
    yield from reversed(committed)


def _row(batch: Mapping[str, Any], record: Mapping[str, Any], segment: Path) -> tuple[str, Row] | None:
    key, value = record["key"], record["value"]
    if not isinstance(key, dict) or "data" not in key or (value is not None and "data" not in value):
        return None
    number, names = int(key["type"]), key["data"]
    facts = {
        "tombstone": value is None,
        "version": None if value is None else int(value["version"]),
        "source_partition": int(segment.parent.name.rpartition("-")[2]),
        "source_segment": int(segment.stem),
        "source_offset": record["offset"],
        "appended_at": moment(record["timestamp"]),
        "date": _day(record["timestamp"]),
    }
    content = None if value is None else value["data"]
    if number in _COMMIT_NUMBERS:
        return COMMITS, names | _commit(content) | {"transactional": batch["isTransactional"]} | facts
    if number == _GROUP_NUMBER:
        return GENERATIONS, names | _generation(content) | facts
    return GROUP_EVENTS, _group_event(number, names, content) | facts


def _commit(value: Row | None) -> Row:
    value = value or {}
    epoch = value.get("leaderEpoch", -1)
    return {
        "offset": value.get("offset"),
        "epoch": None if epoch == -1 else epoch,
        "metadata": value.get("metadata"),
        "committed_at": moment(value.get("commitTimestamp", -1)),
        "expires_at": moment(value.get("expireTimestamp", -1)),
        "topic_id": value.get("topicId"),
    }


def _generation(value: Row | None) -> Row:
    if value is None:
        nothing = ("generation", "protocol_type", "protocol", "leader", "state_since", "members")
        return dict.fromkeys(nothing) | {"state": "Dead"}
    return {
        "generation": value["generation"],
        "state": "Stable" if value["members"] else "Empty",
        "protocol_type": value["protocolType"],
        "protocol": value["protocol"],
        "leader": value["leader"],
        "state_since": moment(value.get("currentStateTimestamp", -1)),
        "members": [_member(member) for member in value["members"]],
    }


def _member(member: Row) -> Row:
    subscription, assignment = member["subscription"], member["assignment"]
    is_read, is_assigned = isinstance(subscription, dict), isinstance(assignment, dict)
    return {
        "member_id": member["memberId"],
        "instance_id": member.get("groupInstanceId"),
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "session_timeout_ms": member["sessionTimeout"],
        "rebalance_timeout_ms": member.get("rebalanceTimeout", -1),
        "subscription": _subscription(subscription) if is_read else None,
        "assignment": _assignment(assignment) if is_assigned else None,
        "subscription_bytes": None if is_read else _unless_newer(base64.b64decode(subscription)),
        "assignment_bytes": None if is_assigned else _unless_newer(base64.b64decode(assignment)),
    }


def _subscription(value: Row) -> Row:
    return {
        "topics": value["topics"],
        "user_data": _bytes(value["userData"]),
        "owned": value.get("ownedPartitions", []),
        "generation": value.get("generationId", -1),
        "rack": value.get("rackId"),
    }


def _assignment(value: Row) -> Row:
    return {"assigned": value["assignedPartitions"], "user_data": _bytes(value["userData"])}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _group_event(number: int, names: Row, value: Row | None) -> Row:
    return {
        "group": names["groupId"],
        "member_id": names.get("memberId"),
        "record_type": number,
        "record_name": RECORD_TYPES[number].name,
        "key": names,
        "payload": value,
    }


def comparable(rows: Rows) -> Rows:
    """Converts decoded rows to the form of the dump: JSON is parsed, and the versions of consumers' bytes, which it
    lacks, are removed."""
    shown = decoded_tables(rows)
    for row in shown[GROUP_EVENTS]:
        row["key"] = json.loads(row["key"])
        row["payload"] = None if row["payload"] is None else json.loads(row["payload"])
    for row in shown[GENERATIONS]:
        for member in row["members"] or []:
            for part in ("subscription", "assignment"):
                if member[part] is None:
                    member[f"{part}_bytes"] = _unless_newer(member[f"{part}_bytes"])
                elif member[part].pop("version") > _NEWEST:
                    member[part] = None
    return shown


def _unless_newer(content: bytes) -> bytes | None:
    """Returns None for versions that only the pipeline decodes: dumps show them as bytes."""
    return None if len(content) > 1 and int.from_bytes(content[:2], "big", signed=True) > _NEWEST else content


def moment(milliseconds: int) -> datetime | None:
    is_known = _FIRST_MS <= milliseconds <= _LAST_MS and milliseconds != -1
    return _EPOCH + timedelta(milliseconds=milliseconds) if is_known else None


def _day(milliseconds: int) -> date | None:
    at = moment(milliseconds)
    return None if at is None else at.date()
