"""Parses files of offsets: JSON lines (kcoord.offsets/v1) or the CSV of kafka-consumer-groups. Pure.

A file with a wrong line is rejected as a whole; the error names the line.
"""

import csv
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.offsets.files.documents import INT64, BadDocument, Fields
from kcoord.admin.offsets.files.exporting import FORMAT
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.files.plan_files import committed_of, group_name, mark_of, partition_of
from kcoord.admin.offsets.resetting import OffsetsFromFile
from kcoord.admin.record_marks import RecordMark

Numbered = tuple[int, str]


def read_offsets(text: str, name: str, *, group: str | None = None) -> tuple[OffsetLine, ...]:
    """Parses a file of committed offsets, JSON lines or CSV. `group` is for CSV of three columns, which has no groups;
    `name` is the file's, for errors. Raises BadDocument."""
    numbered = [(number, line) for number, line in enumerate(_lines(text), start=1) if line.strip()]
    if not numbered:
        raise BadDocument(f"{name}: there are no offsets in it")
    is_json = re.match(r'\s*{\s*["}]', numbered[0][1])  # CSV never begins so: its quote comes first
    read = _json_reader(name) if is_json else _csv_reader(name, numbered[0], group)
    found: dict[tuple[str, TopicPartition], int] = {}
    lines = []
    for number, line in numbered:
        offset = read(number, line)
        first = found.setdefault((offset.group, offset.tp), number)
        if first != number:
            raise BadDocument(f"{name}:{number}: group {offset.group!r}, {str(offset.tp)!r} is in line {first} already")
        lines.append(offset)
    return tuple(lines)


def _lines(text: str) -> list[str]:
    """Splits at line feeds only: names may contain other characters that Python treats as ends of lines."""
    return [line.removesuffix("\r") for line in text.split("\n")]


Reader = Callable[[int, str], OffsetLine]

# JSON


def _json_reader(name: str) -> Reader:
    def read(number: int, line: str) -> OffsetLine:
        where = f"{name}:{number}"
        try:
            fields = Fields(json.loads(line), where)
        except BadDocument:
            raise
        except (ValueError, RecursionError):
            raise BadDocument(f"{where}: this is not a JSON object") from None
        kind = fields.optional_text("kcoord")
        if kind != FORMAT:
            raise BadDocument(f"{where}: this is no line of kcoord.{FORMAT}, but {kind!r}")
        return _from_fields(fields)

    return read


def _from_fields(fields: Fields) -> OffsetLine:
    committed = committed_of(fields)
    assert committed is not None
    start, end = fields.optional_number("log_start"), fields.optional_number("log_end")
    return OffsetLine(
        group=group_name(fields),
        tp=partition_of(fields),
        committed=committed,
        topic_id=fields.optional_text("topic_id"),
        bounds=None if start is None or end is None else Bounds(start, end),
        cluster_id=fields.optional_text("cluster_id"),
        group_state=fields.optional_text("group_state"),
        next_record=mark_of(fields.optional_inner("next_record")) or _only_time(fields),
        last_record=mark_of(fields.optional_inner("last_record")),
    )


def _only_time(fields: Fields) -> RecordMark | None:
    """Returns the mark of an older export, which has only the time of the next record."""
    timestamp = fields.optional_number("timestamp")
    return None if timestamp is None else RecordMark(timestamp=timestamp)


# CSV

_WITHOUT_GROUP, _WITH_GROUP = 3, 4
_SHAPE: Final = "write topic,partition,offset or group,topic,partition,offset"


def _csv_reader(name: str, first: Numbered, group: str | None) -> Reader:
    columns = len(_cells(f"{name}:{first[0]}", first[1]))
    if columns not in (_WITHOUT_GROUP, _WITH_GROUP):
        raise BadDocument(f"{name}:{first[0]}: {columns} columns are neither 3 nor 4: {_SHAPE}")
    if columns == _WITHOUT_GROUP and group is None:
        raise BadDocument(f"{name}: CSV of three columns does not say which group it is of: say --group")

    def read(number: int, line: str) -> OffsetLine:
        where = f"{name}:{number}"
        cells = _cells(where, line)
        if len(cells) != columns:
            raise BadDocument(f"{where}: {len(cells)} columns, and line {first[0]} has {columns}")
        *named, topic, partition, offset = cells
        tp = TopicPartition(topic, _number(where, "partition", partition))
        of_group = named[0] if named else group
        if not topic or not of_group:
            raise BadDocument(f"{where}: the {'group' if topic else 'topic'} has no name")
        if tp.partition >= 2**31:
            raise BadDocument(f"{where}: {partition!r} is no partition")
        return OffsetLine(group=of_group, tp=tp, committed=Committed(_number(where, "offset", offset)))

    return read


def _cells(where: str, line: str) -> list[str]:
    try:
        (cells,) = csv.reader([line], strict=True)
    except csv.Error as error:
        raise BadDocument(f"{where}: this is not CSV: {error}") from None
    return cells


def _number(where: str, what: str, text: str) -> int:
    bare = text.strip()
    if not (bare.isascii() and bare.isdecimal() and len(bare) <= 19 and int(bare) in INT64):
        raise BadDocument(f"{where}: {text!r} is no {what}: {_SHAPE}")
    return int(bare)


# Selecting from the lines


def rename_groups(lines: Iterable[OffsetLine], names: Mapping[str, str]) -> Iterator[OffsetLine]:
    """Yields the lines with groups renamed, by old name. Raises BadDocument if an old name has no group in the file."""
    listed = tuple(lines)
    _refuse_absent(names, listed)
    for line in listed:
        yield replace(line, group=names.get(line.group, line.group))


def only_groups(lines: Iterable[OffsetLine], groups: Collection[str]) -> Iterator[OffsetLine]:
    """Yields the lines of these groups. Raises BadDocument if one is not in the file."""
    listed = tuple(lines)
    _refuse_absent(groups, listed)
    return (line for line in listed if line.group in groups)


def _refuse_absent(groups: Collection[str], lines: Collection[OffsetLine]) -> None:
    absent = sorted(set(groups) - {line.group for line in lines})
    if absent:
        raise BadDocument(f"the file has no offsets of group {absent[0]!r}")


def offsets_by_group(lines: Iterable[OffsetLine]) -> dict[str, OffsetsFromFile]:
    """Returns the offsets that are to be committed for each group, from the lines of a file. Raises BadDocument if two
    groups were renamed to one, or a topic has two ids."""
    ordered = sorted(lines, key=lambda line: (line.group, line.tp))
    return {
        group: _target(group, list(group_lines)) for group, group_lines in groupby(ordered, key=lambda line: line.group)
    }


def _target(group: str, lines: list[OffsetLine]) -> OffsetsFromFile:
    offsets = {line.tp: line.committed for line in lines}
    if len(offsets) != len(lines):
        raise BadDocument(f"two groups that both become {group!r} have offsets for the same partition")
    topic_ids: dict[str, str] = {}
    for line in lines:
        if line.topic_id is not None and topic_ids.setdefault(line.tp.topic, line.topic_id) != line.topic_id:
            raise BadDocument(f"group {group!r} has offsets for two topics that are both named {line.tp.topic!r}")
    return OffsetsFromFile(offsets=offsets, topic_ids=topic_ids, lines={line.tp: line for line in lines})
