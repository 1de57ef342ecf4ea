"""The topics of a data folder at start: kcoord's own, or those of a broker that used the folder before.

| a topic is            | then                                                                                     |
|-----------------------|------------------------------------------------------------------------------------------|
| in kcoord's file      | the file describes it; a missing log is created empty, and logged                        |
| only a folder         | it is adopted, with the id in its `partition.metadata`; missing logs are created empty   |
|                       | its settings come from the broker's metadata log; if unknown, no record expires by age   |
| `__consumer_offsets`  | it is compacted, whatever its settings are; a change of them is persisted and logged     |
| deleted, but a folder | the folder is deleted: the process ended before it could do that                         |
"""

import errno
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    PRODUCER_IDS_AT_ONCE,
    Cluster,
    NodeId,
    Partition,
    Topic,
)
from kcoord.broker.log.failed_log import FailedLog
from kcoord.broker.log.partition_log import LogSettings, PartitionLog
from kcoord.broker.log.storage import StoredTopic
from kcoord.broker.names import METADATA_TOPIC, why_invalid
from kcoord.broker.offsets_topic import why_offsets_are_lost
from kcoord.broker.topic_settings import BadConfig, log_settings, refuse_unless_valid
from kcoord.storage.data_dir import BadDataDir, DataDir
from kcoord.storage.kraft_metadata import KraftMetadata, KraftTopic, read_kraft_metadata
from kcoord.storage.log_dir import LogDir, read_topic_id
from kcoord.storage.recovery import Unrecoverable, recover

log = logging.getLogger("kcoord.storage")

_LOG_NAME: Final = re.compile(r"(?P<topic>.+)-(?P<partition>0|[1-9]\d{0,8})")
_FATAL_ERRNOS: Final = (errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE)

Folders = dict[str, dict[int, LogDir]]  # By topic and partition.


def load_topics(cluster: Cluster, data_dir: DataDir, fresh_topic_id: Callable[[], UUID], now_ms: int) -> None:
    """Adds the topics of the data folder to the cluster when the server starts, opening their logs; folders that a
    Kafka broker has left are adopted as topics. Raises BadDataDir."""
    try:
        data_dir.delete_leftovers()
        folders = _log_folders(data_dir)
        topics = _stored_topics(data_dir, folders) | _adopt_topics(cluster, data_dir, folders, fresh_topic_id)
        _compact_offsets_topic(cluster, data_dir, topics)
        _match_offsets_partitions(cluster, data_dir, topics, folders)
        missing = _missing(topics.values(), folders)
        if missing:
            log.warning("missing logs=%s: made empty", ",".join(missing))
        for stored in topics.values():
            cluster.add_topic(_open_topic(cluster, data_dir, stored, folders.get(stored.name, {}), now_ms))
        cluster.begin_producer_ids(max(data_dir.stored.producer_ids, _producer_ids_seen(cluster)))
    except OSError as error:
        raise BadDataDir(f"cannot use {error.filename or data_dir.folder}: {error.strerror or error}") from None


def _log_folders(data_dir: DataDir) -> Folders:
    folders: Folders = {}
    for path in sorted(data_dir.folder.iterdir()):
        named = _LOG_NAME.fullmatch(path.name)
        if named is None or not path.is_dir() or named["topic"] == METADATA_TOPIC:
            continue
        if why_invalid(named["topic"]):
            log.warning("left aside folder=%s: no topic has such a name", path)
            continue
        if data_dir.log_dir(path.name).is_leftover():
            continue
        folders.setdefault(named["topic"], {})[int(named["partition"])] = data_dir.log_dir(path.name)
    return folders


def _stored_topics(data_dir: DataDir, folders: Folders) -> dict[str, StoredTopic]:
    """Returns the topics of kcoord's file, and deletes the folders of those that it lists as deleted."""
    deleted = data_dir.stored.deleted
    for topic, logs in list(folders.items()):
        for index, folder in list(logs.items()):
            if read_topic_id(folder.folder) in deleted:
                data_dir.files.filesystem.delete_folder(folder.folder)
                del logs[index]
        if not logs:
            del folders[topic]
    return {stored.name: stored for stored in data_dir.stored.topics.values()}


def _adopt_topics(
    cluster: Cluster, data_dir: DataDir, folders: Folders, fresh_topic_id: Callable[[], UUID]
) -> dict[str, StoredTopic]:
    """Adopts the topics that only have folders: from now on kcoord's file lists them too."""
    known = {stored.name for stored in data_dir.stored.topics.values()}
    unlisted = {name: logs for name, logs in folders.items() if name not in known}
    metadata = read_kraft_metadata(data_dir.folder) if unlisted else KraftMetadata()
    topics = {}
    for name, logs in unlisted.items():
        ids = [topic_id for index in sorted(logs) if (topic_id := read_topic_id(logs[index].folder))]
        topic_id = ids[0] if ids else fresh_topic_id()
        described = metadata.topics.get(topic_id, KraftTopic(name=name, configs=_safe_configs(name)))
        count = max(described.partitions, max(logs) + 1)
        if not cluster.has_room_for(count):
            raise BadDataDir(f"{name} has {count} partitions: more than kcoord.max.partitions allows")
        replicas = tuple(map(tuple, cluster.assign_replicas(0, count, 1)))
        overrides = _known_configs(described)
        topics[name] = StoredTopic(name=name, topic_id=topic_id, replicas=replicas, overrides=overrides)
        data_dir.persist_topic(topics[name])
        log.info("taken over topic=%s partitions=%s settings=%s", name, count, overrides)
    if metadata.producer_ids > data_dir.stored.producer_ids:
        data_dir.persist_producer_ids(metadata.producer_ids)
        data_dir.stored.producer_ids = metadata.producer_ids
    return topics


def _safe_configs(name: str) -> dict[str, str]:
    """Returns settings for an adopted topic whose settings are unknown: none of its records may expire."""
    return {"cleanup.policy": "compact"} if name in INTERNAL_TOPICS else {"retention.ms": "-1"}


def _known_configs(topic: KraftTopic) -> dict[str, str]:
    """Returns the settings that kcoord supports."""
    known = {}
    for name, value in topic.configs.items():
        try:
            refuse_unless_valid({name: value})
            known[name] = value
        except BadConfig as bad:
            log.warning("left aside topic=%s setting=%s=%r why=%r", topic.name, name, value, str(bad))
    return known


def _compact_offsets_topic(cluster: Cluster, data_dir: DataDir, topics: dict[str, StoredTopic]) -> None:
    """Sets `__consumer_offsets` to be compacted, whatever its settings are: committed offsets must not
    expire by age.
    """
    stored = topics.get(OFFSETS_TOPIC)
    if stored is None:
        return
    if reason := why_offsets_are_lost(stored.name, stored.overrides, cluster.settings):
        overrides = {**stored.overrides, "cleanup.policy": "compact"}
        topics[stored.name] = replace(stored, overrides=overrides)
        data_dir.persist_topic(topics[stored.name])
        log.warning("setting mended topic=%s cleanup.policy=compact why=%r", stored.name, reason)


def _match_offsets_partitions(
    cluster: Cluster, data_dir: DataDir, topics: dict[str, StoredTopic], folders: Folders
) -> None:
    """Gives `__consumer_offsets` as many partitions as it has folders: the number decides which one a group is in."""
    stored = topics.get(OFFSETS_TOPIC)
    if stored is None or (count := max(folders.get(stored.name, {}), default=-1) + 1) <= len(stored.replicas):
        return
    if not cluster.has_room_for(count):
        raise BadDataDir(f"{stored.name} has {count} partitions: more than kcoord.max.partitions allows")
    added = tuple(map(tuple, cluster.assign_replicas(len(stored.replicas), count - len(stored.replicas), 1)))
    topics[stored.name] = replace(stored, replicas=stored.replicas + added)
    data_dir.persist_topic(topics[stored.name])
    log.warning("number mended topic=%s partitions=%s why='it has as many folders'", stored.name, count)


def _missing(topics: Iterable[StoredTopic], folders: Folders) -> list[str]:
    return [
        f"{stored.name}-{index}"
        for stored in topics
        for index in range(len(stored.replicas))
        if index not in folders.get(stored.name, {})
    ]


def _open_topic(
    cluster: Cluster, data_dir: DataDir, stored: StoredTopic, folders: dict[int, LogDir], now_ms: int
) -> Topic:
    settings = log_settings(stored.overrides, cluster.settings)
    partitions = []
    for index, nodes in enumerate(stored.replicas):
        folder = folders.get(index)
        if folder is None:
            name = f"{stored.name}-{index}"
            made = data_dir.make_log(name, stored.topic_id)
            log_found = PartitionLog(name, settings, now_ms=now_ms, storage=made)
        else:
            log_found = _open_log(folder, stored.topic_id, settings, data_dir.start_offset(folder.name), now_ms)
        replicas = _replicas(cluster, nodes, index)
        partitions.append(Partition(topic=stored.name, index=index, replicas=replicas, log=log_found))
    return Topic(name=stored.name, topic_id=stored.topic_id, partitions=partitions, overrides=dict(stored.overrides))


def _open_log(folder: LogDir, topic_id: UUID, settings: LogSettings, start_offset: int, now_ms: int) -> PartitionLog:
    try:
        _check_topic_id(folder, topic_id)
        found = recover(folder, start_offset=start_offset, now_ms=now_ms)
        return PartitionLog(
            folder.name, settings, now_ms=now_ms, start_offset=start_offset, storage=folder, recovered=found
        )
    except Unrecoverable as error:
        reason = str(error)
    except OSError as error:
        if error.errno in _FATAL_ERRNOS:
            raise
        reason = str(error)
    log.error("log failed log=%s why=%r", folder.name, reason)
    return FailedLog(folder.name, settings, storage=folder, reason=reason)


def _check_topic_id(folder: LogDir, topic_id: UUID) -> None:
    found = read_topic_id(folder.folder)
    if found is None:
        folder.write_topic_id(topic_id)
    elif found != topic_id:
        raise Unrecoverable(f"{folder.folder} is of another topic of that name: its id is {found}, not {topic_id}")


def _replicas(cluster: Cluster, nodes: tuple[int, ...], index: int) -> tuple[NodeId, ...]:
    """Returns the replicas it had, as far as these nodes exist now."""
    present = tuple(NodeId(node) for node in nodes if node in cluster.nodes)
    return present or tuple(cluster.assign_replicas(index, 1, 1)[0])


def _producer_ids_seen(cluster: Cluster) -> int:
    """Returns the first block of producer ids above all ids found in logs."""
    seen = [producer_id for partition in cluster.partitions() for producer_id, _ in partition.log.producers.items()]
    return (max(seen) // PRODUCER_IDS_AT_ONCE + 1) * PRODUCER_IDS_AT_ONCE if seen else 0
