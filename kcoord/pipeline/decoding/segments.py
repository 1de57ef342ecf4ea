"""Finds the segments of a folder, and splits them into ranges that can be read independently.

The folder may be a broker's or kcoord's, whole or in part: folders of partitions, one such folder, or one segment.
It may also hold such folders, as the disks of one broker, or brokers of which each has other partitions. Where two of
them have the same partition, they are copies of one log: that is refused, since each record would count twice.

| not read                                 | because                                                                 |
|------------------------------------------|-------------------------------------------------------------------------|
| folders `….<id>-delete`, `-stray`        | the broker has given them up                                            |
| folders `….<id>-future`                  | a copy that is on its way to another disk; its log is here already      |
| files `….log.deleted`                    | replaced by a compaction, or too old                                    |
| files `….log.cleaned`, `….log.swap`      | of a compaction that has not ended; what they replace is here still     |
| `__transaction_state` and its like       | no group reads them; one that is named itself is read                   |

A range begins and ends between two batches. A broker's `.index` names positions of batches: using it saves reading the
log. The index is not trusted: where it points there must be a batch whose checksum is right. Without a usable index
the headers of all batches are scanned.
"""

import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from kcoord.exceptions import InvalidInput
from kcoord.protocol.records.batch import (
    FRAME,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    has_valid_crc,
    read_header,
)

OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({"__cluster_metadata", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics except the offsets of groups: no group lags behind them."""
RANGE_BYTES: Final = 64 * 1024 * 1024
TASK_BYTES: Final = 8 * 1024 * 1024
"""One task reads several ranges smaller than this: starting a task, and its output file, takes longer than reading
them."""

_PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[\w.-]+)-(?P<partition>\d+)")
_SEGMENT_FILE: Final = re.compile(r"\d{20}\.log")
_INDEX_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])


class NoSegments(InvalidInput, ValueError):
    """Raised when a path has no log segments."""


class DuplicatePartitions(InvalidInput, ValueError):
    """Raised when a folder has the log of the same partition more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A log segment file (`<base offset>.log`) of a partition's log: its topic, partition, base offset and size in
    bytes."""

    path: Path
    topic: str
    partition: int
    base_offset: int
    size: int
    log_end: "LogEnd"


class LogEnd(NamedTuple):
    """Where a partition's log ended when its segments were found: it may grow while it is read, and all reads must see
    the same log."""

    base_offset: int
    """The base offset of the log's last segment."""
    size: int
    """The size of the last segment's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """A range of a segment file: the batches that begin at position `start` or later and end by `end`, in bytes."""

    segment: Segment
    start: int
    end: int

    @property
    def holds_offsets(self) -> bool:
        """Whether the segment belongs to `__consumer_offsets`."""
        return self.segment.topic == OFFSETS_TOPIC


def find_segments(path: Path) -> list[Segment]:
    """Returns the log segments of a data folder, of a partition's folder, or the named file; sorted by topic, partition
    and offset. Raises NoSegments, and DuplicatePartitions."""
    if path.is_file():
        segments = [each for each in _in_partition(path.absolute().parent) if each.path.name == path.name]
    elif path.is_dir():
        segments = _in_partition(path) or _segments_below(path)
    else:
        raise NoSegments(f"{path}: no such file or folder")
    if not segments:
        raise NoSegments(f"{path}: no segments of a log in it: <topic>-<partition>/<20 digits>.log")
    return sorted(segments, key=lambda each: (each.topic, each.partition, each.base_offset))


def plan_ranges(segments: Iterable[Segment], *, max_bytes: int = RANGE_BYTES) -> list[SegmentRange]:
    """Splits segments into ranges of at most about `max_bytes`, which can be decoded independently; a batch is never
    cut."""
    return [each for segment in segments if segment.size for each in _split(segment, max_bytes)]


def pack_ranges(ranges: Iterable[SegmentRange], *, task_bytes: int = TASK_BYTES) -> list[list[SegmentRange]]:
    """Distributes ranges of segments to Spark tasks: returns the ranges that each task reads, the largest first, so
    that the last task to end is a small one."""
    packs: list[list[SegmentRange]] = []
    room = 0
    for each in sorted(ranges, key=lambda each: each.start - each.end):
        size = each.end - each.start
        if not packs or size > room:
            packs.append([])
            room = task_bytes
        packs[-1].append(each)
        room -= size
    return packs


def later_segments(segment: Segment) -> list[tuple[Path, int]]:
    """Returns the paths of the later segments of the same log, each with its size in bytes when the log was found."""
    last, size = segment.log_end
    later = [path for path in _files(segment.path.parent) if segment.base_offset < int(path.stem) <= last]
    return [(path, size if int(path.stem) == last else path.stat().st_size) for path in later]


def _segments_below(root: Path) -> list[Segment]:
    """Returns the segments of the partition folders in a folder, and in its subfolders."""
    by_folder: dict[Path, list[Segment]] = {}
    for folder in _subfolders(root):
        if segments := _in_partition(folder):
            by_folder.setdefault(folder.resolve(), segments)
            continue
        with suppress(PermissionError):  # such as a disk's lost+found
            for inner in _subfolders(folder):
                by_folder.setdefault(inner.resolve(), _in_partition(inner))
    wanted = [each for each in by_folder.values() if each and each[0].topic not in INTERNAL_TOPICS]
    _check_copies(root, wanted)
    return [each for segments in wanted for each in segments]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir())


def _check_copies(root: Path, partitions: Iterable[Sequence[Segment]]) -> None:
    """Raises DuplicatePartitions if two of the lists of segments, each of one folder, are of the same partition."""
    folders: dict[str, list[Path]] = {}
    for first, *_ in partitions:
        folders.setdefault(f"{first.topic}-{first.partition}", []).append(first.path.parent)
    copied = [name for name, copies in folders.items() if len(copies) > 1]
    if not copied:
        return
    others = len(copied) - 1
    what = copied[0] + (f" and {others} other partition{'s' if others > 1 else ''}" if others else "")
    where = " and ".join(map(str, folders[copied[0]]))
    raise DuplicatePartitions(
        f"{root} holds several copies of {what}: {where}. Each record would count more than once: name one broker's "
        "folder, or one that has each partition once"
    )


def _in_partition(folder: Path) -> list[Segment]:
    named = _PARTITION_FOLDER.fullmatch(folder.resolve().name)
    files = _files(folder) if named else []
    if named is None or not files:
        return []
    sizes = {path: path.stat().st_size for path in files}
    log_end = LogEnd(int(files[-1].stem), sizes[files[-1]])
    return [
        Segment(
            path=path,
            topic=named["topic"],
            partition=int(named["partition"]),
            base_offset=int(path.stem),
            size=size,
            log_end=log_end,
        )
        for path, size in sizes.items()
    ]


def _files(folder: Path) -> list[Path]:
    """Returns the segment files, sorted by their base offsets."""
    return sorted(path for path in folder.iterdir() if _SEGMENT_FILE.fullmatch(path.name))


def _split(segment: Segment, max_bytes: int) -> Iterator[SegmentRange]:
    borders = [0]
    if segment.size > max_bytes:
        with segment.path.open("rb") as file, _mapped(file, segment.size) as log:
            borders += _borders_by_index(log, _index_positions(segment.path), max_bytes) or _borders_by_headers(
                log, max_bytes
            )
    for start, end in pairwise([*borders, segment.size]):
        yield SegmentRange(segment=segment, start=start, end=end)


def _mapped(file: BinaryIO, size: int) -> mmap.mmap:
    """Maps the part of the file that existed when it was found: it may have grown."""
    return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def _index_positions(log: Path) -> Sequence[int]:
    """Returns the positions of batches that the segment's index names; none if there is no index."""
    try:
        content = log.with_suffix(".index").read_bytes()
    except OSError:
        return []
    entries = np.frombuffer(content[: len(content) // _INDEX_ENTRY.itemsize * _INDEX_ENTRY.itemsize], _INDEX_ENTRY)
    positions: list[int] = np.unique(entries["position"]).tolist()
    return positions


def _borders_by_index(log: mmap.mmap, positions: Sequence[int], max_bytes: int) -> list[int]:
    """Selects the last of these positions before each range is full; returns none if one of them begins no batch."""
    borders: list[int] = []
    last = 0
    for position, next_position in pairwise([*positions, len(log)]):
        if position > last and next_position - last > max_bytes:
            if not _is_batch(log, position):
                return []
            borders.append(position)
            last = position
    return borders


def _borders_by_headers(log: mmap.mmap, max_bytes: int) -> list[int]:
    """Finds such positions by scanning the headers of the batches, as far as these are valid."""
    borders: list[int] = []
    position = last = 0
    while position + HEADER_SIZE <= len(log):
        _, length, _, magic = FRAME.unpack_from(log, position)
        end = position + length + LOG_OVERHEAD
        if length < 0 or not 0 <= magic <= MAGIC or end > len(log):
            break
        if position > last and end - last > max_bytes:
            borders.append(position)
            last = position
        position = end
    return borders


def _is_batch(log: mmap.mmap, position: int) -> bool:
    if not 0 <= position <= len(log) - HEADER_SIZE:
        return False
    header = read_header(log[position : position + HEADER_SIZE])
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(log) - position:
        return False
    return has_valid_crc(Batch(header=header, data=memoryview(log[position : position + header.size])))
