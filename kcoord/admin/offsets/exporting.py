"""What groups have committed, as lines of a file: JSON lines (kcoord.offsets/v1), or the CSV of kafka-consumer-groups.

Groups may be running: each is read at one moment, and nothing is asked of its members. See docs/offsets-files.md.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kcoord.admin.live import LiveCluster
from kcoord.admin.model import Answers, Bounds, Committed, GroupType, Position, TopicPartition
from kcoord.admin.offsets.world import Logs, read_groups, read_logs

WHAT: Final = "offsets/v1"
GROUPS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLine:
    """One committed offset. What a file of the other format does not have is None."""

    group: str
    tp: TopicPartition
    committed: Committed
    topic_id: str | None = None
    bounds: Bounds | None = None
    timestamp: int | None = None  # of the record at that offset; None if the log has none there


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Lines in order of group, topic and partition, and in words what is not in them.

    `refused` are groups that could not be read, `missing` those that do not exist. `notes` tell of groups that have no
    offsets, and of logs and times that are not in the lines: every offset is.
    """

    lines: tuple[OffsetLine, ...]
    refused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sharing: tuple[str, ...] = ()  # names of share groups


class CannotExport(RuntimeError):
    """What the format has no place for."""


def export(cluster: LiveCluster, names: Collection[str], *, with_times: bool = True) -> Exported:
    """All that these groups have committed. Without times, no record is read."""
    commits: dict[str, Mapping[TopicPartition, Committed]] = {}
    refused: list[str] = []
    missing: list[str] = []
    notes: list[str] = []
    sharing: list[str] = []
    ordered = sorted(set(names))
    for first in range(0, len(ordered), GROUPS_AT_ONCE):
        groups = read_groups(cluster, ordered[first : first + GROUPS_AT_ONCE])
        refused += map(str, groups.refused)
        for name, now in groups.found.items():
            if now.group is not None and now.group.type is GroupType.SHARE:
                sharing.append(name)
                notes.append(f"group {name!r} is a share group, which commits no offsets")
            elif now.committed:
                commits[name] = now.committed
            elif now.group is not None:
                notes.append(f"group {name!r} has committed nothing")
            else:
                missing.append(f"group {name!r} does not exist")
    logs = read_logs(cluster, (tp for own in commits.values() for tp in own))
    times = _times(cluster, commits, logs) if with_times else Answers(found={})
    notes += map(str, (*logs.refused, *times.refused))
    lines = [_line(name, tp, own[tp], logs, times.found) for name, own in sorted(commits.items()) for tp in sorted(own)]
    return Exported(
        lines=tuple(lines),
        refused=tuple(dict.fromkeys(refused)),
        missing=tuple(missing),
        notes=tuple(dict.fromkeys(notes)),
        sharing=tuple(sharing),
    )


def _times(
    cluster: LiveCluster, commits: Mapping[str, Mapping[TopicPartition, Committed]], logs: Logs
) -> Answers[Position, int]:
    positions = {
        (tp, committed.offset)
        for own in commits.values()
        for tp, committed in own.items()
        if tp in logs.bounds and logs.bounds[tp].start <= committed.offset < logs.bounds[tp].end
    }
    return cluster.timestamps(positions) if positions else Answers(found={})


def _line(
    group: str, tp: TopicPartition, committed: Committed, logs: Logs, times: Mapping[Position, int]
) -> OffsetLine:
    return OffsetLine(
        group=group,
        tp=tp,
        committed=committed,
        topic_id=logs.topic_id(tp.topic),
        bounds=logs.bounds.get(tp),
        timestamp=times.get((tp, committed.offset)),
    )


# JSON lines


def json_lines(lines: Iterable[OffsetLine]) -> Iterator[str]:
    """Each line says all of itself, so that files may be joined, sorted, cut and searched."""
    for line in lines:
        yield json.dumps({"kcoord": WHAT, **line_document(line)}).replace("\x7f", "\\u007f") + "\n"


def line_document(line: OffsetLine) -> dict[str, Any]:
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
    }


# CSV, byte for byte as kafka-consumer-groups writes it: by Jackson, which quotes what it has not looked through.

_LONGEST_BARE: Final = 24
_FIRST_BARE: Final = "-"  # whatever is before it may be a comma, a quote or a line break


def csv_lines(lines: Collection[OffsetLine], *, with_group: bool) -> Iterator[str]:
    """topic,partition,offset, and the group before it if there may be several."""
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
