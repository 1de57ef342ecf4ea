"""Batches and records as lines of text; characters that a terminal would interpret are escaped."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kcoord.offsets_log.dump import DumpedBatch, DumpedRecord, codec_name

from .printable import printable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def line(offset: object, time: str, key: str, value: str) -> str:
    """Formats a line of `kcoord log dump` with offset, time, key and value in columns."""
    return f"{offset:>12}  {time:23}  {key:56}  {value}".rstrip()


def batch_line(batch: DumpedBatch) -> str:
    """Formats the header of a record batch as a line of `kcoord log dump`."""
    header = batch.header
    facts = [
        f"batch {header.base_offset}–{header.last_offset}: {_records(header.record_count)}, {codec_name(header)}",
        f"position {batch.position}, {header.size} bytes",
        f"leader epoch {header.leader_epoch}",
    ]
    if header.has_producer_id:
        facts.append(f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}")
    if header.is_transactional:
        facts.append("transactional")
    if header.is_control:
        facts.append("control")
    facts.append(f"crc {header.crc}" if batch.is_valid else f"crc {header.crc} IS WRONG")
    return ", ".join(facts)


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def record_line(dumped: DumpedRecord) -> str:
    """Formats a record as a line of `kcoord log dump`; a tombstone has the value <DELETE>."""
    record = dumped.record
    if dumped.marker is not None:
        key, value = "<marker>", _pairs(dumped.marker)
    else:
        key = _key_text(dumped.key)
        value = "<DELETE>" if record.value is None else _value_text(dumped.value)
    headers = "".join(f" [{printable(name)}]" for name, _ in record.headers)
    return line(record.offset, _time(record.timestamp), key, value + headers)


def _key_text(key: Any) -> str:
    if not isinstance(key, dict):
        return "<null>" if key is None else printable(key)
    if "data" in key:
        return f"{key['name']} {_pairs(key['data'])}"
    return _pairs(key)


def _value_text(value: Any) -> str:
    if not isinstance(value, dict):
        return printable(value)
    if "data" in value:
        return f"v{value['version']} {_pairs(value['data'])}"
    return _pairs(value)


def _pairs(facts: dict[str, Any]) -> str:
    return " ".join(f"{name}={_fact(value)}" for name, value in facts.items())


def _fact(value: Any) -> str:
    """Formats a value as it is if it is one word, else as JSON."""
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "\\=[]{}'):
        return value
    return printable(json.dumps(value, ensure_ascii=False))


def _time(timestamp: int) -> str:
    """Formats a timestamp in UTC. One that is beyond the calendar stays a number."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except OverflowError:
        return str(timestamp)
