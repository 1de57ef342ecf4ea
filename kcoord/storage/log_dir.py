"""The folder of one log, with Kafka's file names.

| file                        | holds                                                                        |
|-----------------------------|------------------------------------------------------------------------------|
| `<base offset>.log`         | a segment; the offset has 20 digits, so that names are in order              |
| `<base offset>.snapshot`    | the idempotent producers of all batches before that segment                  |
| `<base offset>.log.cleaned` | an unfinished replacement: deleted when the folder is opened again           |
| `<base offset>.log.swap`    | a finished replacement: swapped in when the folder is opened again           |
| `partition.metadata`        | the topic's id                                                               |
| `leader-epoch-checkpoint`   | a broker's: read, and never changed                                          |

Kafka's `.index`, `.timeindex` and `.txnindex` of a segment are neither read nor written. They are deleted with their
segment and when it changes: a broker rebuilds those that are missing.
"""

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from kcoord.broker.log.producers import Producers
from kcoord.broker.log.storage import Store
from kcoord.protocol.uuids import format_uuid, parse_uuid
from kcoord.storage.producer_snapshot import write_snapshot
from kcoord.storage.segment_files import SegmentFile, SegmentFiles

log = logging.getLogger("kcoord.storage")

PARTITION_METADATA: Final = "partition.metadata"
SEGMENT: Final = ".log"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".log.cleaned"
SWAP: Final = ".log.swap"
INDEXES: Final = (".index", ".timeindex", ".txnindex")
DELETED: Final = "-delete"
_SIBLINGS: Final = (SNAPSHOT, *INDEXES)
_LONGEST_NAME: Final = 255
OFFSET_DIGITS: Final = 20
SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")


class LogDir:
    """The folder of one partition's log, `<topic>-<partition>`, with segments and other files under Kafka's names.
    Implements kcoord.broker.log.storage.LogStorage."""

    def __init__(self, folder: Path, files: SegmentFiles, persist_start_offset: Callable[[str, int], None]) -> None:
        self.folder = folder
        self.name = folder.name
        self.files = files
        self.is_new = True  # Until it has a segment.
        self._persist_start_offset = persist_start_offset

    def make(self, topic_id: UUID) -> None:
        """Creates the folder, with `partition.metadata` in it, which has the topic's id."""
        if not self.is_leftover():
            self.files.filesystem.make_folder(self.folder)
        self.files.note_created(self.folder)
        try:
            self.write_topic_id(topic_id)
        except OSError:
            self.delete()
            raise

    def is_leftover(self) -> bool:
        """Returns whether the folder exists without a topic id and without records: its creation failed, and so did its
        removal."""
        if not self.folder.is_dir() or read_topic_id(self.folder) is not None:
            return False
        return not self._has_records()

    def _has_records(self) -> bool:
        return any(path.stat().st_size for path in self.folder.glob(f"*{SEGMENT}"))

    def write_topic_id(self, topic_id: UUID) -> None:
        """Writes `partition.metadata`, which has the topic's id."""
        self._write(PARTITION_METADATA, f"version: 0\ntopic_id: {format_uuid(topic_id.bytes)}".encode())

    def open_segment(self, base_offset: int, size: int) -> SegmentFile:
        """Opens the file of an existing segment, which has `size` bytes."""
        return SegmentFile(self.files, self.path(base_offset, SEGMENT), size=size, siblings=_SIBLINGS)

    def open_replacement(self, base_offset: int, size: int) -> SegmentFile:
        """Opens the file of finished compaction output (`.swap`), which has `size` bytes."""
        return SegmentFile(self.files, self.path(base_offset, SWAP), size=size)

    def make_segment(self, base_offset: int, producers: Producers) -> Store:
        """Creates the file of a new segment, and the snapshot of the idempotent producers before it. Raises OSError."""
        self.files.cut_torn_tails(self.folder)  # The name of the next segment shows where this one ends.
        # Written before the segment: without its snapshot, the producers before it would be unknown.
        if not self.is_new:
            self._write(f"{base_offset:020}{SNAPSHOT}", write_snapshot(producers.items()))
        store = self.open_segment(base_offset, 0)
        self.files.descriptor(store)
        self.files.note_created(store.path)
        self.is_new = False
        return store

    def persist_start_offset(self, offset: int) -> None:
        """Writes the log's start offset to `log-start-offset-checkpoint`, after DeleteRecords."""
        self._persist_start_offset(self.name, offset)

    def make_replacement(self, base_offset: int) -> Store:
        """Creates the empty file (`.cleaned`) that a compaction writes the retained batches to."""
        store = SegmentFile(self.files, self.path(base_offset, CLEANED))
        store.truncate(0)
        return store

    def replace(self, replaced: Sequence[Store], replacement: Store, end_offset: int) -> None:
        """Replaces segments by the output of a compaction, in the steps of Kafka's LocalLog.replaceSegments.
        `end_offset` is that behind the last replaced one.

        After the first rename there is no way back, because the replaced segments begin to go. A step that fails after
        it is done by the next start; until then the replacement is read under the name that it has.
        """
        assert isinstance(replacement, SegmentFile)
        files = [store for store in replaced if isinstance(store, SegmentFile)]
        base_offset = offset_of(files[0].path)
        swap = self.path(base_offset, SWAP)
        if error := replacement.sync():
            raise error
        self.files.filesystem.rename(replacement.path, swap)
        replacement.note_renamed(swap)
        for file in files:
            file.close()
            self.files.forget(file)
        try:
            self.swap_in(base_offset, end_offset)
            replacement.note_renamed(self.path(base_offset, SEGMENT), _SIBLINGS)
            self.files.filesystem.sync_folder(self.folder)
        except OSError as failed:
            log.error("not in place yet log=%s segment=%s error=%r", self.name, base_offset, str(failed))

    def swap_in(self, base_offset: int, end_offset: int) -> None:
        """Renames finished compaction output (`.swap`) to the segment at this base offset, and deletes the other
        segments up to the end."""
        filesystem = self.files.filesystem
        filesystem.sync_folder(self.folder)
        # The oldest first: after a crash, the segments that are left are the newest of the replaced ones.
        for name in self.names():
            if SEGMENT_NAME.fullmatch(name) and base_offset < int(name[:OFFSET_DIGITS]) < end_offset:
                for kind in (SEGMENT, *_SIBLINGS):
                    filesystem.delete(self.path(int(name[:OFFSET_DIGITS]), kind))
        self.delete_indexes(base_offset)
        filesystem.rename(self.path(base_offset, SWAP), self.path(base_offset, SEGMENT))

    def delete(self) -> None:
        """Deletes the log: its folder is renamed at once to Kafka's name for a deleted log (`-delete`). What cannot be
        deleted now is deleted at the next start."""
        filesystem, deleted = (
            self.files.filesystem,
            self.folder.with_name(_deleted_name(self.name, self._topic_id_hex())),
        )
        self.files.forget_folder(self.folder)
        try:
            filesystem.rename(self.folder, deleted)
            self.files.note_created(deleted)
            filesystem.delete_folder(deleted)
        except OSError as error:
            log.warning("not deleted folder=%s error=%r", self.folder, str(error))
            self._forget_id_if_empty()

    def _forget_id_if_empty(self) -> None:
        """Deletes the topic id of an empty folder, which makes it a leftover: the next start would adopt it
        as a topic.
        """
        try:
            if not self._has_records():
                self.files.filesystem.delete(self.folder / PARTITION_METADATA)
        except OSError as error:
            log.warning("not deleted file=%s error=%r", self.folder / PARTITION_METADATA, str(error))

    def delete_indexes(self, base_offset: int) -> None:
        """Deletes Kafka's indexes of a segment that changes: a broker rebuilds them."""
        for kind in INDEXES:
            self.files.filesystem.delete(self.path(base_offset, kind))

    def names(self) -> list[str]:
        """Returns the names of all files in the log's folder, sorted."""
        return sorted(os.listdir(self.folder))  # noqa: PTH208 - only names are needed, of thousands of folders

    def path(self, base_offset: int, kind: str) -> Path:
        """Returns the path of a file named after an offset, such as `00000000000000000000.log`; `kind` is its
        suffix."""
        return self.folder / f"{base_offset:020}{kind}"

    def _write(self, name: str, content: bytes) -> None:
        """Writes a small file whose content can be derived again if it is lost."""
        store = SegmentFile(self.files, self.folder / name)
        try:
            store.truncate(0)
            store.append(content)
        finally:
            store.close()
        self.files.note_created(store.path)

    def _topic_id_hex(self) -> str:
        topic_id = read_topic_id(self.folder)
        return topic_id.hex if topic_id else "0" * 32


def offset_of(path: Path) -> int:
    """Returns the base offset in the name of a segment's file."""
    return int(path.name.partition(".")[0])


def read_topic_id(folder: Path) -> UUID | None:
    """Reads the topic id in a log's folder from `partition.metadata`; None if there is none that can be read."""
    try:
        lines = (folder / PARTITION_METADATA).read_text().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        return parse_uuid(fields["topic_id"])
    except (OSError, ValueError, KeyError):
        return None


def _deleted_name(name: str, unique: str) -> str:
    """Makes the name of a deleted log, as UnifiedLog.logDeleteDirName."""
    topic, _, partition = name.rpartition("-")
    suffix = f"-{partition}.{unique}{DELETED}"
    return topic[: _LONGEST_NAME - len(suffix)] + suffix
