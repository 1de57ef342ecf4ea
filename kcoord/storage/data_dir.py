"""The data folder of a server: its identity, its lock, its topics and its logs.

meta.properties               the cluster's id and the node's: Kafka's file
.lock                         locked while a process uses the folder; a broker locks the same file
kcoord-topics.jsonl           the topics (topics_file)
log-start-offset-checkpoint   the start offsets of logs that were cut by DeleteRecords: Kafka's file
<topic>-<partition>/          a log (log_dir)
<topic>-<partition>.<id>-delete/   a log that is being deleted
"""

import errno
import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID

from kcoord.broker.log.storage import LogStorage, StoredTopic
from kcoord.exceptions import CorruptData, LocalFailure
from kcoord.java_properties import read_properties
from kcoord.storage.checkpoints import START_OFFSETS, read_start_offsets, start_offsets_text
from kcoord.storage.filesystem import Filesystem
from kcoord.storage.log_dir import DELETED, LogDir
from kcoord.storage.segment_files import SegmentFiles
from kcoord.storage.topics_file import StoredState, TopicsFile

log = logging.getLogger("kcoord.storage")

META: Final = "meta.properties"
LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
FIRST_NODE: Final = 1


class BadDataDir(LocalFailure):
    """Raised when the data folder cannot be used: locked by another process, unreadable or malformed. Its text is one
    line."""


class DataDir:
    """The data folder (Kafka's `log.dirs`) of a server: its lock, `meta.properties`, the file of its topics, and a
    folder per partition log. Implements kcoord.broker.log.storage.Storage.

    `cluster_id` and `node_id` are the folder's, from its first use on; `stored` is what its file of topics held when it
    was opened.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fresh_cluster_id: Callable[[], str],
        most_files: int,
        is_synced: bool = False,
        filesystem: Filesystem | None = None,
    ) -> None:
        """Opens the folder, and creates it if need be. Raises BadDataDir."""
        self.folder = folder
        self.files = SegmentFiles(most_files=most_files, is_synced=is_synced, filesystem=filesystem)
        self._topics = TopicsFile(folder, self.files)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(folder)
        except FileExistsError:
            raise BadDataDir(f"{folder} is not a folder") from None
        except OSError as error:
            raise _unusable(folder, error) from None
        try:
            self._open(fresh_cluster_id)
        except BaseException:
            self.close()
            raise

    def _open(self, fresh_cluster_id: Callable[[], str]) -> None:
        try:
            self.cluster_id, self.node_id = self._read_or_write_meta(fresh_cluster_id)
            self.files.filesystem.delete(self.folder / CLEAN_SHUTDOWN)  # A broker that starts does this too.
            self._start_offsets = read_start_offsets(self.folder)
            self.is_known = self._topics.exists
            self.stored: StoredState = self._topics.open()
        except CorruptData as error:
            raise BadDataDir(str(error)) from None
        except OSError as error:
            raise _unusable(self.folder, error) from None

    def log_dir(self, name: str) -> LogDir:
        """Returns the folder of the partition log with this name, `<topic>-<partition>`; it may not exist yet."""
        return LogDir(self.folder / name, self.files, self._persist_start_offset)

    def start_offset(self, name: str) -> int:
        """Returns the start offset that was persisted for the log of this name, or 0."""
        return self._start_offsets.get(name, 0)

    def delete_leftovers(self) -> None:
        """Deletes the folders of logs whose deletion was begun (`-delete`). Raises OSError."""
        for path in self.folder.iterdir():
            if path.name.endswith(DELETED) and path.is_dir():
                self.files.filesystem.delete_folder(path)

    def make_log(self, name: str, topic_id: UUID) -> LogStorage:
        """Creates the folder of a new partition log. Raises OSError."""
        if name in self._start_offsets:  # It is left from a deleted log of this name.
            self._write_start_offsets({log: start for log, start in self._start_offsets.items() if log != name})
        made = self.log_dir(name)
        made.make(topic_id)
        return made

    def persist_topic(self, topic: StoredTopic) -> None:
        """Writes a created or changed topic to the file of topics. Raises OSError."""
        self._topics.persist_topic(topic)

    def revert_topic(self) -> None:
        """Removes the topic that was persisted last from the file of topics, because its creation failed."""
        self._topics.revert_topic()

    def forget_topic(self, topic_id: UUID) -> None:
        """Writes to the file of topics that this topic is deleted. Raises OSError."""
        self._topics.forget_topic(topic_id)

    def persist_producer_ids(self, end: int) -> None:
        """Writes that all producer ids below `end` may have been handed out. Raises OSError."""
        self._topics.persist_producer_ids(end)

    def sync(self) -> None:
        """Flushes what was written to the disk, if the folder was opened with `is_synced`. Raises OSError."""
        self.files.sync()

    def close(self) -> None:
        """Closes all files and unlocks the folder."""
        self.files.close()
        os.close(self._lock)

    def _read_or_write_meta(self, fresh_cluster_id: Callable[[], str]) -> tuple[str, int]:
        path = self.folder / META
        if not path.exists():
            cluster_id = fresh_cluster_id()
            properties = f"version=1\ncluster.id={cluster_id}\nnode.id={FIRST_NODE}\n"
            self.files.filesystem.write_atomically(path, properties.encode())
            return cluster_id, FIRST_NODE
        properties_found = read_properties(path.read_text(errors="replace"))
        cluster_id = properties_found.get("cluster.id", "")
        node_id = properties_found.get("node.id", properties_found.get("broker.id", ""))
        if not cluster_id or not node_id.isdecimal():
            raise BadDataDir(f"{path}: cluster.id or node.id is missing")
        return cluster_id, int(node_id)

    def _persist_start_offset(self, name: str, offset: int) -> None:
        self._write_start_offsets({**self._start_offsets, name: offset})

    def _write_start_offsets(self, start_offsets: dict[str, int]) -> None:
        self.files.filesystem.write_atomically(self.folder / START_OFFSETS, start_offsets_text(start_offsets))
        self._start_offsets = start_offsets


def _lock(folder: Path) -> int:
    """Locks the folder until the descriptor is closed or the process ends. Raises BadDataDir if it is locked."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # A broker locks it this way.
    except OSError as error:
        os.close(lock)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BadDataDir(f"{folder} is in use by another process") from None
        raise
    return lock


def _unusable(folder: Path, error: OSError) -> BadDataDir:
    where = error.filename or folder
    return BadDataDir(f"cannot use {where}: {error.strerror or error}")
