"""Exports committed offsets as lines of a file: JSON lines (kcoord.offsets/v1), or the CSV of kafka-consumer-groups.

Groups may be running: each is read at one moment, and nothing is requested from its members. See docs/offsets-files.md.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.model import GroupType, TopicPartition
from kcoord.admin.offsets.cluster_state import CurrentGroup, CurrentLogs, read_groups, read_logs
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.files.plan_files import mark_document
from kcoord.admin.offsets.marking import mark_lines
from kcoord.errors import ErrorCode
from kcoord.exceptions import InvalidInput

FORMAT: Final = "offsets/v1"
GROUPS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export: a line for each committed offset, sorted by group, topic and partition, and texts about
    what is not in them.

    `refused` are groups that could not be read, `missing` those that do not exist. `notes` name groups without offsets,
    and logs and records that could not be added to a line (its offset is in it nevertheless). `gaps` are the notes
    about data that exists but could not be read; deleted topics do not count.
    """

    lines: tuple[OffsetLine, ...]
    refused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    share_groups: tuple[str, ...] = ()  # names of share groups
    gaps: tuple[str, ...] = ()


class CannotExport(InvalidInput, RuntimeError):
    """An error: the format of the file cannot represent the committed offsets."""


def export(cluster: ClusterClient, names: Collection[str], *, with_records: bool = True) -> Exported:
    """Reads all committed offsets of these groups from the cluster for an export, with the marks (time, checksum) of
    the records there if they are requested."""
    commits: dict[str, CurrentGroup] = {}
    refused: list[str] = []
    missing: list[str] = []
    notes: list[str] = []
    share_groups: list[str] = []
    ordered = sorted(set(names))
    for first in range(0, len(ordered), GROUPS_AT_ONCE):
        groups = read_groups(cluster, ordered[first : first + GROUPS_AT_ONCE])
        refused += map(str, groups.refused)
        for name, now in groups.found.items():
            if now.group is not None and now.group.type is GroupType.SHARE:
                share_groups.append(name)
                notes.append(f"group {name!r} is a share group, which commits no offsets")
            elif now.committed:
                commits[name] = now
            elif now.group is not None:
                notes.append(f"group {name!r} has committed nothing")
            else:
                missing.append(f"group {name!r} does not exist")
    logs = read_logs(cluster, (tp for now in commits.values() for tp in now.committed))
    lines = tuple(
        _line(now, tp, logs, cluster.cluster_id()) for _, now in sorted(commits.items()) for tp in sorted(now.committed)
    )
    lines, unmarked = mark_lines(cluster, lines) if with_records else (lines, ())
    unreadable = (*logs.refused, *unmarked)
    notes += map(str, unreadable)
    return Exported(
        lines=lines,
        refused=tuple(dict.fromkeys(refused)),
        missing=tuple(missing),
        notes=tuple(dict.fromkeys(notes)),
        share_groups=tuple(share_groups),
        gaps=tuple(str(each) for each in unreadable if each.error is not ErrorCode.unknown_topic_or_partition),
    )


def _line(now: CurrentGroup, tp: TopicPartition, logs: CurrentLogs, cluster_id: str | None) -> OffsetLine:
    return OffsetLine(
        group=now.name,
        tp=tp,
        committed=now.committed[tp],
        topic_id=logs.topic_id(tp.topic),
        bounds=logs.bounds.get(tp),
        cluster_id=cluster_id,
        group_state=now.group.state if now.group else None,
    )


# JSON lines


def json_lines(lines: Iterable[OffsetLine]) -> Iterator[str]:
    """Formats committed offsets as JSON lines (kcoord.offsets/v1). Each line is complete, so that files may be joined,
    sorted, cut and searched."""
    for line in lines:
        yield json.dumps({"kcoord": FORMAT, **line_document(line)}).replace("\x7f", "\\u007f") + "\n"


def line_document(line: OffsetLine) -> dict[str, Any]:
    """Returns the JSON object of one line of an export."""
    return {
        "group": line.group,
        "topic": line.tp.topic,
        "topic_id": line.topic_id,
        "partition": line.tp.partition,
        "offset": line.committed.offset,
        "leader_epoch": line.committed.leader_epoch,
        "metadata": line.committed.metadata,
        "log_start": line.bounds and line.bounds.start,
        "log_end": line.bounds and line.bounds.end,
        "timestamp": line.timestamp,
        "cluster_id": line.cluster_id,
        "group_state": line.group_state,
        "next_record": mark_document(line.next_record),
        "last_record": mark_document(line.last_record),
    }


# CSV, byte for byte as kafka-consumer-groups writes it: by Jackson, which quotes long texts without scanning them.

_LONGEST_BARE: Final = 24
_FIRST_BARE: Final = "-"  # characters before it include comma, quote and line break


def csv_lines(lines: Collection[OffsetLine], *, with_group: bool) -> Iterator[str]:
    """Formats committed offsets as CSV lines topic,partition,offset, with the group as the first column if there may be
    several. Raises CannotExport."""
    if not with_group and len({line.group for line in lines}) > 1:
        raise CannotExport("CSV of three columns has no place for several groups")
    for line in lines:
        fields = [_csv_text(line.group)] if with_group else []
        yield ",".join([*fields, _csv_text(line.tp.topic), str(line.tp.partition), str(line.committed.offset)]) + "\n"


def _csv_text(text: str) -> str:
    if not text.isprintable() and any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise CannotExport(f"{text!r} has control characters, which this CSV cannot carry: use --format jsonl")
    if len(text) <= _LONGEST_BARE and all(char >= _FIRST_BARE and char != "\\" for char in text):
        return text
    return '"' + text.replace('"', '""') + '"'
