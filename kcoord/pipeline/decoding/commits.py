"""Decodes OffsetCommit records to rows of `commits`: each field of all records of a version at once.

The schemas are those of `offsets_log.record_schemas`. A record that does not have the regular form of its version is
read alone, by `offsets_log.record_codec`, which accepts all that is allowed; what that refuses is rejected with its
reason.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kcoord.offsets_log.record_codec import UnreadableRecord, read_key, read_value
from kcoord.offsets_log.record_schemas import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, default_of
from kcoord.pipeline.decoding.byte_columns import Cursor, Flags, Integers
from kcoord.pipeline.decoding.fields import UUID_BYTES, Column, Spans, read_fields
from kcoord.pipeline.decoding.records import Records, source_columns, source_row, time_of, times
from kcoord.pipeline.decoding.rejected import Rejection, rejected_record
from kcoord.pipeline.schemas import COMMITS, TABLES
from kcoord.protocol.schema.notation import INTEGERS
from kcoord.protocol.uuids import format_uuid

COMMIT_TYPES: Final = (OFFSET_COMMIT, LEGACY_OFFSET_COMMIT)
"""The record types of commits. Their keys differ only in the type's number."""
assert OFFSET_COMMIT.key.fields == LEGACY_OFFSET_COMMIT.key.fields

_SCHEMA: Final = TABLES[COMMITS].schema
_FIRST_BYTES: Final = 2  # the type of a key, the version of a value
_NONE: Final = -1
_NO_ID: Final = bytes(UUID_BYTES)


def decode_commits(records: Records) -> tuple[pa.RecordBatch, list[Rejection]]:
    """Decodes OffsetCommit records (the caller has selected them by their keys) to rows of the table `commits`, in
    their order; returns them with rows of `rejected` for records that cannot be decoded."""
    names = Cursor(records.buffer, records.key_starts + _FIRST_BYTES, records.key_ends)
    keys = read_fields(OFFSET_COMMIT.key, 0, names)
    versions = _versions(records)
    values, is_valid = _read_values(records, versions)
    is_valid &= names.is_valid
    if is_valid.all():
        return _batch(records, keys, versions, values), []
    regular = np.flatnonzero(is_valid)
    read, rejections = _one_by_one(records, np.flatnonzero(~is_valid))
    if not len(regular):
        return pa.RecordBatch.from_pylist(list(read.values()), _SCHEMA), rejections
    regular_rows = decode_commits(records.take(regular))[0]
    if not read:
        return regular_rows, rejections
    others = pa.RecordBatch.from_pylist(list(read.values()), _SCHEMA)
    return _merged(regular_rows, regular, others, np.array(list(read))), rejections


def _versions(records: Records) -> npt.NDArray[np.int16]:
    """Returns the version of each value; -1 if the value is null."""
    versions = records.buffer.numbers("h", records.value_starts)
    return np.where(records.has_value, versions, np.int16(_NONE))


def _read_values(records: Records, versions: npt.NDArray[np.int16]) -> tuple[dict[str, Column], Flags]:
    """Returns a column for each field, and which records have the regular form. Tombstones have nothing to read."""
    numbers = records.buffer.numbers("h", records.key_starts)
    columns = _defaults(records)
    is_valid = ~records.has_value
    for record_type in COMMIT_TYPES:
        is_of_type = records.has_value & (numbers == record_type.number)
        for version in record_type.value.versions:
            rows = np.flatnonzero(is_of_type & (versions == version))
            if not len(rows):
                continue
            some = records.take(rows)
            cursor = Cursor(some.buffer, some.value_starts + _FIRST_BYTES, some.value_ends)
            for name, column in read_fields(record_type.value, version, cursor).items():
                columns[name] = _with_values(columns[name], rows, column)
            is_valid[rows] = cursor.is_valid
    return columns, is_valid


def _defaults(records: Records) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for field in OFFSET_COMMIT.value.fields:
        if field.type in INTEGERS:
            columns[field.name] = np.full(len(records), default_of(field), np.dtype(INTEGERS[field.type]))
        else:
            columns[field.name] = Spans(records.value_starts, records.value_starts)
    return columns


def _with_values(column: Column, rows: Integers, found: Column) -> Column:
    """Returns the column with these values in these rows."""
    if isinstance(column, Spans):
        assert isinstance(found, Spans)
        return Spans(
            _with_array_values(column.starts, rows, found.starts), _with_array_values(column.ends, rows, found.ends)
        )
    assert not isinstance(found, Spans)
    return _with_array_values(column, rows, found)


def _with_array_values(column: npt.NDArray[Any], rows: Integers, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(rows) == len(column):
        return found
    column = column.copy()
    column[rows] = found
    return column


def _batch(records: Records, keys: Any, versions: npt.NDArray[np.int16], values: dict[str, Any]) -> pa.RecordBatch:
    is_tombstone = ~records.has_value
    epochs, metadata = values["leaderEpoch"], values["metadata"]
    texts = records.buffer.texts(*metadata)
    columns = [
        records.buffer.texts(*keys["group"]),
        records.buffer.texts(*keys["topic"]),
        pa.array(keys["partition"]),
        pa.array(values["offset"], mask=_mask(is_tombstone)),
        pa.array(epochs, mask=_mask(is_tombstone | (epochs == _NONE))),
        pc.if_else(pa.array(is_tombstone), pa.scalar(None, pa.string()), texts) if is_tombstone.any() else texts,
        times(np.where(is_tombstone, _NONE, values["commitTimestamp"])),
        times(values["expireTimestamp"]),
        pa.array(is_tombstone),
        _topic_ids(records, values["topicId"]),
        pa.array(versions, mask=_mask(is_tombstone)),
        pa.array(records.is_transactional),
        *source_columns(records),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _mask(is_null: Flags) -> Flags | None:
    return is_null if is_null.any() else None


def _topic_ids(records: Records, spans: Spans) -> pa.Array:
    """Returns the topic ids as text. Each distinct id is converted once; a run of commits of one topic is looked up
    once."""
    is_there = spans.ends > spans.starts
    if not is_there.any():
        return pa.nulls(len(records), pa.string())
    ids = records.buffer.rows(spans.starts[is_there], UUID_BYTES).view(np.int64)
    is_new = np.ones(len(ids), np.bool_)
    is_new[1:] = (ids[1:] != ids[:-1]).any(axis=1)
    runs = ids[is_new]
    encoded = pa.Array.from_buffers(pa.binary(UUID_BYTES), len(runs), [None, pa.py_buffer(runs)]).dictionary_encode()
    texts = pa.array([_id_text(each) for each in encoded.dictionary.to_pylist()], pa.string())
    indices = np.zeros(len(records), np.int32)
    indices[is_there] = encoded.indices.to_numpy()[np.cumsum(is_new) - 1]
    return texts.take(pa.array(indices, mask=_mask(~is_there)))


def _id_text(content: bytes) -> str | None:
    return None if content == _NO_ID else format_uuid(content)


def _one_by_one(records: Records, rows: Integers) -> tuple[dict[int, dict[str, Any]], list[Rejection]]:
    """Reads each row alone; returns the decoded ones by row number, and the rejected ones."""
    read: dict[int, dict[str, Any]] = {}
    rejections: list[Rejection] = []
    for row in rows.tolist():
        try:
            read[row] = _row(records, row)
        except UnreadableRecord as error:
            rejections.append(rejected_record(records, row, str(error)))
    return read, rejections


def _row(records: Records, row: int) -> dict[str, Any]:
    """Decodes one record. Raises UnreadableRecord."""
    key, content = records.key(row), records.value(row)
    assert key is not None
    number, names = read_key(key)
    version, value = (None, None) if content is None else read_value(number, content)
    return {
        **names,
        **(_value_columns(value) if value is not None else {}),
        "tombstone": value is None,
        "version": version,
        "transactional": bool(records.is_transactional[row]),
        **source_row(records, row),
    }


def _value_columns(value: dict[str, Any]) -> dict[str, Any]:
    epoch, topic_id = value.get("leaderEpoch", _NONE), value.get("topicId")
    return {
        "offset": value["offset"],
        "epoch": None if epoch == _NONE else epoch,
        "metadata": value["metadata"],
        "committed_at": time_of(value["commitTimestamp"]),
        "expires_at": time_of(value.get("expireTimestamp", _NONE)),
        "topic_id": None if topic_id is None else _id_text(topic_id.bytes),
    }


def _merged(
    regular_rows: pa.RecordBatch, regular: Integers, others: pa.RecordBatch, irregular: Integers
) -> pa.RecordBatch:
    """Merges both batches into one, in the order of their row numbers."""
    order = pa.array(np.argsort(np.concatenate([regular, irregular])))
    return pa.Table.from_batches([regular_rows, others]).take(order).combine_chunks().to_batches()[0]
