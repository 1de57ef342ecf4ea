"""Recovery of a log at start: its segments, the end of the last one, the last batches of its producers.

Only the last segment is read: a process that is killed leaves all others complete. Every batch in it is validated, its
checksum too. What follows the first batch that is not valid decides:

| what follows       | is                                                    | and is                               |
|--------------------|-------------------------------------------------------|--------------------------------------|
| no valid batch     | a torn write at the end                               | cut off: it was never acknowledged   |
| a valid batch      | corruption: acknowledged batches lie behind bad bytes | not changed: the log fails           |

The invalid batch does not show where the next one would begin, as its length may be what is corrupt. So all bytes
behind it are searched for a header with a plausible length, a possible offset, and the right checksum. The checksum
does not cover base offsets: a complete batch with an offset that occurred before is corruption too.
"""

import logging
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcoord.broker.log.partition_log import Recovered
from kcoord.broker.log.producers import Producers
from kcoord.broker.log.segment import CorruptSegment, Segment
from kcoord.broker.log.storage import Store
from kcoord.exceptions import CorruptData
from kcoord.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    Batch,
    BatchHeader,
    has_valid_crc,
    read_header,
)
from kcoord.storage.checkpoints import LEADER_EPOCHS, BadCheckpoint, read_leader_epochs
from kcoord.storage.log_dir import INDEXES, SEGMENT, SNAPSHOT, SWAP, LogDir, offset_of
from kcoord.storage.producer_snapshot import BadSnapshot, read_snapshot

log = logging.getLogger("kcoord.storage")

_SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")
_SNAPSHOT_NAME: Final = re.compile(r"\d{20}\.snapshot")
_LEFTOVERS: Final = (".cleaned", ".deleted", ".tmp")
_SWAPS: Final = (".swap",)
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")  # The fields of BatchHeader (kcoord.protocol.records.batch).
_MAGIC_AT: Final = 16
_READ_AHEAD: Final = 1 << 20
_FURTHEST: Final = 2**31  # The offsets of a segment are less than this above its base offset.


class Unrecoverable(CorruptData):
    """Raised when a log is corrupt beyond a torn write at its end, and cannot be used. Its records were not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentListing:
    """A segment's file, as the folder lists it."""

    base_offset: int
    size: int
    modified_ms: int


def recover(folder: LogDir, *, start_offset: int, now_ms: int) -> Recovered | None:
    """Opens the log in this folder when the server starts: cuts off a torn write at its end, and returns its segments,
    producers and leader epochs; None if it has no segment. Raises Unrecoverable, OSError."""
    names = folder.names()
    if any(name.endswith((*_LEFTOVERS, *_SWAPS)) for name in names):
        _finish_replacement(folder, names)
        names = folder.names()
    found = _segments_in(folder, names)
    if not found:
        return None
    *older, last = _delete_before(folder, found, start_offset)
    closed = _closed(folder, older, last)
    store = folder.open_segment(last.base_offset, last.size)
    producers = _producers_before(folder, closed, last.base_offset)
    epochs = _epochs_of(folder) if LEADER_EPOCHS in names else []

    def note(header: BatchHeader) -> None:
        _note_producer(producers, header)
        if not epochs or header.leader_epoch > epochs[-1][0]:
            epochs.append((header.leader_epoch, header.base_offset))

    _cut_torn_tail(folder, last.base_offset, store, note)
    active = Segment.active(
        last.base_offset,
        log_position=sum(segment.size for segment in older),
        created_ms=now_ms,
        modified_ms=last.modified_ms,
        store=store,
    )
    folder.is_new = False
    _delete_outdated(folder, names, last.base_offset, active.next_offset)
    return Recovered(
        segments=[*closed, active],
        start_offset=min(max(start_offset, [*older, last][0].base_offset), active.next_offset),
        producers=producers,
        epochs=[(epoch, first) for epoch, first in epochs if first <= active.next_offset],
    )


def _finish_replacement(folder: LogDir, names: Sequence[str]) -> None:
    """Completes a replacement of segments that a process had begun, or undoes it."""
    filesystem = folder.files.filesystem
    for name in names:
        if name.endswith(_LEFTOVERS):
            filesystem.delete(folder.folder / name)
    for swap in [folder.folder / name for name in names if name.endswith(SWAP)]:
        base_offset = offset_of(swap)
        end = _end_of_replacement(folder, swap)
        folder.swap_in(base_offset, end)
        filesystem.sync_folder(folder.folder)
        log.info("replacement finished log=%s segment=%s", folder.name, base_offset)
    for name in names:
        if name.endswith(_SWAPS):  # Indexes that a broker built for the replacement.
            filesystem.delete(folder.folder / name)


def valid_end(store: Store, base_offset: int, note: Callable[[BatchHeader], None]) -> tuple[int, int]:
    """Returns the position in bytes after the valid batches at the beginning of a segment, and the offset after them.

    `note` is called with the headers of idempotent producers' batches, and with the first one of each leader epoch.
    """
    from crc32c import crc32c

    position, next_offset, newest_epoch, size = 0, base_offset, -1, store.size
    start, ahead = 0, memoryview(b"")
    while position + HEADER_SIZE <= size:
        at = position - start
        if at + HEADER_SIZE > len(ahead):
            start, at, ahead = position, 0, memoryview(store.read(position, _READ_AHEAD))
        fields = _HEADER.unpack_from(ahead, at)
        batch_offset, length, epoch, magic, crc, _, last_delta, _, _, producer_id, _, _, _ = fields
        end = at + length + LOG_OVERHEAD
        if magic != MAGIC or not HEADER_SIZE <= end - at <= size - position:
            break
        if not next_offset <= batch_offset < base_offset + _FURTHEST or last_delta < 0:
            break
        if end > len(ahead):
            start, ahead = position, memoryview(store.read(position, max(end - at, _READ_AHEAD)))
            at, end = 0, end - at
        if crc32c(ahead[at + ATTRIBUTES_OFFSET : end]) != crc:
            break
        if producer_id > NO_PRODUCER_ID or epoch > newest_epoch:
            newest_epoch = max(epoch, newest_epoch)
            note(BatchHeader._make(fields))
        position, next_offset = start + end, batch_offset + last_delta + 1
    return position, next_offset


def find_batch(store: Store, position: int, next_offset: int) -> int | None:
    """Searches a segment behind this position for a valid batch with an offset above `next_offset`, and returns the
    position at which it begins, or None."""
    start = position + 1
    while start + HEADER_SIZE <= store.size:
        ahead = store.read(start, _READ_AHEAD + HEADER_SIZE)
        magic = ahead.find(MAGIC, _MAGIC_AT)
        while magic >= 0:
            at = magic - _MAGIC_AT
            if at + HEADER_SIZE <= len(ahead):
                header = read_header(ahead, at)
                left = store.size - start - at
                if _is_plausible(header, left, next_offset + 1, next_offset + _FURTHEST) and has_valid_crc(
                    Batch(header=header, data=memoryview(store.read(start + at, header.size)))
                ):
                    return start + at
            magic = ahead.find(MAGIC, magic + 1)
        start += _READ_AHEAD
    return None


def _cut_torn_tail(folder: LogDir, base_offset: int, store: Store, note: Callable[[BatchHeader], None]) -> None:
    """Reads the last segment and cuts off a torn write at its end. Raises Unrecoverable."""
    position, next_offset = valid_end(store, base_offset, note)
    torn_bytes = store.size - position
    if not torn_bytes:
        return
    where = f"{folder.path(base_offset, SEGMENT)} at byte {position}"
    if _is_whole(store, position):
        raise Unrecoverable(f"{where}: a whole batch, but its offsets are out of order")
    if following := find_batch(store, position, next_offset):
        raise Unrecoverable(f"{where}: no sound batch, but one follows at {following}")
    if old_format := _old_format(store, position):
        raise Unrecoverable(f"{where}: records of format v{old_format - 1}, which are no longer read")
    log.warning("torn tail log=%s segment=%s bytes=%s: cut off", folder.name, base_offset, torn_bytes)
    store.truncate(position)


def _is_plausible(header: BatchHeader, left: int, least_offset: int, most_offset: int) -> bool:
    """Returns whether a batch may have such a header, with so many bytes left in the file."""
    return (
        header.magic == MAGIC
        and HEADER_SIZE <= header.size <= left
        and least_offset <= header.base_offset < most_offset
        and header.last_offset_delta >= 0
    )


def _is_whole(store: Store, position: int) -> bool:
    """Returns whether a complete batch begins here, in which only the offset may be wrong."""
    content = store.read(position, HEADER_SIZE)
    if len(content) < HEADER_SIZE:
        return False
    header = read_header(content)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= store.size - position:
        return False
    return has_valid_crc(Batch(header=header, data=memoryview(store.read(position, header.size))))


def _old_format(store: Store, position: int) -> int:
    """Returns 1 or 2 if Kafka's format v0 or v1 may begin here, else 0."""
    head = store.read(position, _MAGIC_AT + 1)
    if len(head) <= _MAGIC_AT or head[_MAGIC_AT] >= MAGIC:
        return 0
    length = int.from_bytes(head[8:12], signed=True)
    return head[_MAGIC_AT] + 1 if 14 <= length <= store.size - position - 12 else 0


def _segments_in(folder: LogDir, names: Sequence[str]) -> list[_SegmentListing]:
    """Returns the segments, the oldest first."""
    found = []
    for name in names:
        if _SEGMENT_NAME.fullmatch(name):
            path = folder.folder / name
            about = path.stat()
            modified_ms = about.st_mtime_ns // 1_000_000
            found.append(_SegmentListing(base_offset=offset_of(path), size=about.st_size, modified_ms=modified_ms))
    return found


def _delete_before(folder: LogDir, found: Sequence[_SegmentListing], start_offset: int) -> list[_SegmentListing]:
    """Deletes the segments before the one with the start offset, which DeleteRecords may not have done. Returns the
    rest.
    """
    remaining = list(found)
    while len(remaining) > 1 and remaining[1].base_offset <= start_offset:
        folder.open_segment(remaining[0].base_offset, remaining[0].size).delete()
        del remaining[0]
    return remaining


def _closed(folder: LogDir, older: Sequence[_SegmentListing], last: _SegmentListing) -> list[Segment]:
    segments, log_position = [], 0
    for found, following in zip(older, [*older, last][1:], strict=True):
        segment = Segment.closed(
            found.base_offset,
            next_offset=following.base_offset,
            log_position=log_position,
            modified_ms=found.modified_ms,
            store=folder.open_segment(found.base_offset, found.size),
        )
        segments.append(segment)
        log_position += found.size
    return segments


def _producers_before(folder: LogDir, closed: Sequence[Segment], base_offset: int) -> Producers:
    """Returns the producers of all batches before this offset: from the last snapshot, and from the batches since."""
    producers = Producers()
    unread: list[Segment] = []
    for segment in reversed([None, *closed]):
        after = base_offset if not unread else unread[0].base_offset
        if _read_snapshot(folder, after, producers) or segment is None or unread:
            break
        unread.insert(0, segment)
    for segment in unread:
        for _, header in segment.headers():
            _note_producer(producers, header)
    return producers


def _read_snapshot(folder: LogDir, offset: int, producers: Producers) -> bool:
    path = folder.path(offset, SNAPSHOT)
    try:
        for producer_id, producer in read_snapshot(path.read_bytes()):
            producers.restore(producer_id, producer)
    except FileNotFoundError:
        return False
    except BadSnapshot as error:
        log.warning("snapshot left aside file=%s why=%r", path, str(error))
        return False
    return True


def _note_producer(producers: Producers, header: BatchHeader) -> None:
    if header.has_producer_id and not header.is_control:
        producers.add(header, base_offset=header.base_offset, timestamp=header.max_timestamp)


def _epochs_of(folder: LogDir) -> list[tuple[int, int]]:
    try:
        return read_leader_epochs(folder.folder)
    except BadCheckpoint as error:
        log.warning("leader epochs left aside log=%s why=%r", folder.name, str(error))
        return []


def _delete_outdated(folder: LogDir, names: Sequence[str], base_offset: int, end_offset: int) -> None:
    """Deletes the indexes of a segment that will grow, and the snapshots behind the log's end."""
    stem = f"{base_offset:020}"
    for name in names:
        is_index = name.startswith(stem) and name.endswith(INDEXES)
        if is_index or (_SNAPSHOT_NAME.fullmatch(name) and int(name[: len(stem)]) > end_offset):
            folder.files.filesystem.delete(folder.folder / name)


def _end_of_replacement(folder: LogDir, swap: Path) -> int:
    """Returns the offset behind the last batch of a replacement."""
    base_offset = offset_of(swap)
    store = folder.open_replacement(base_offset, swap.stat().st_size)
    segment = Segment(base_offset, log_position=0, created_ms=0, store=store)
    end = base_offset
    try:
        for _, header in segment.headers():
            end = header.last_offset + 1
    except CorruptSegment as error:
        raise Unrecoverable(f"{swap}: {error}") from error
    finally:
        store.close()
    return end
