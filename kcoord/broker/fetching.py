"""Fetch: reads what there is, or waits for it.

`fetch` replies at once or returns what it waits for (`Waiting`). When that has arrived, or the time is up, `finish`
reads again and replies; the reply has everything that was appended in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Asked, Cluster, Partition
from kcoord.broker.fetch_sessions import (
    CLOSING_EPOCH,
    NO_SESSION,
    OPENING_EPOCH,
    FetchSessions,
    Opened,
    PartitionAsked,
    PartitionKey,
    Told,
)
from kcoord.broker.leader_info import CurrentLeader, Endpoint, endpoints_of, fence_epoch, leader_of
from kcoord.broker.log.partition_log import Refused
from kcoord.errors import ErrorCode

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
# Errors that are found before a log is read. Their results do not end a wait, and come behind the others.
_UNREAD: Final = {
    ErrorCode.unknown_topic_id: 1,
    ErrorCode.topic_authorization_failed: 2,
    ErrorCode.unknown_topic_or_partition: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A Fetch. `max_wait` is in seconds; topics are by name or, if `is_by_id`, by id. Without `may_read` all may be
    read.
    """

    max_wait: float
    min_bytes: int
    max_bytes: int
    isolation_level: int
    is_by_id: bool
    session_id: int
    session_epoch: int
    partitions: dict[PartitionKey, PartitionAsked]
    forgotten: tuple[PartitionKey, ...]
    may_read: Callable[[str], bool] | None = None

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == _READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    """Where the log diverges from what the client has read (KIP-595)."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[object, ...] | None = None
    preferred_read_replica: int = -1
    records: bytes = b""
    current_leader: CurrentLeader | None = None
    diverging_epoch: DivergingEpoch | None = None
    snapshot_id: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLine:
    topic: str
    topic_id: UUID | None
    partitions: tuple[PartitionLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    error_code: ErrorCode = ErrorCode.none
    session_id: int = NO_SESSION
    responses: tuple[TopicLine, ...] = ()
    node_endpoints: tuple[Endpoint, ...] = ()
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Fetch that found too little: it goes on when `missing_bytes` more have arrived in its partitions."""

    request: Fetch
    opened: Opened
    missing_bytes: int
    watched: tuple[tuple[str, int], ...]


Lines = dict[PartitionKey, PartitionLine]


def fetch(cluster: Cluster, sessions: FetchSessions, request: Fetch, asked: Asked) -> FetchReply | Waiting:
    """Replies to a Fetch, or returns what it waits for."""
    opened = _open(sessions, request, asked.now_ms)
    if isinstance(opened, ErrorCode):
        return FetchReply(error_code=opened)
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return _refuse(request, ErrorCode.unknown_server_error)
    lines = _read(cluster, opened, request, asked)
    read = [line for line in lines.values() if line.error_code not in _UNREAD]
    is_decided = any(line.error_code or line.diverging_epoch for line in read)
    missing = request.min_bytes - sum(len(line.records) for line in read)
    if missing <= 0 or request.max_wait <= 0 or is_decided or not read:
        return _reply(cluster, opened, lines)
    found = [key for key, line in lines.items() if line.error_code not in _UNREAD]
    watched = tuple((_named(cluster, topic), index) for topic, index in found)
    return Waiting(request=request, opened=opened, missing_bytes=missing, watched=watched)


def finish(cluster: Cluster, waiting: Waiting, asked: Asked) -> FetchReply:
    """Replies to a Fetch that waited."""
    return _reply(cluster, waiting.opened, _read(cluster, waiting.opened, waiting.request, asked))


def _refuse(request: Fetch, error: ErrorCode) -> FetchReply:
    """Refuses the whole request; if it uses ids, the error is not repeated per partition
    (FetchRequest.getErrorResponse).
    """
    lines = {
        key: PartitionLine(partition_index=key[1], error_code=error, aborted_transactions=())
        for key in request.partitions
    }
    return FetchReply(error_code=error, responses=() if request.is_by_id else _by_topic(lines))


def _open(sessions: FetchSessions, request: Fetch, now_ms: int) -> Opened | ErrorCode:
    if request.session_epoch in (OPENING_EPOCH, CLOSING_EPOCH):
        return sessions.full(
            request.session_id, request.session_epoch, request.partitions, is_by_id=request.is_by_id, now_ms=now_ms
        )
    return sessions.incremental(
        request.session_id,
        request.session_epoch,
        request.partitions,
        request.forgotten,
        is_by_id=request.is_by_id,
        now_ms=now_ms,
    )


def _named(cluster: Cluster, topic: str | UUID) -> str:
    if isinstance(topic, str):
        return topic
    found = cluster.topic_by_id(topic)
    return found.name if found else ""


def _read(cluster: Cluster, opened: Opened, request: Fetch, asked: Asked) -> Lines:
    """Reads every partition in order, until the limit of bytes. The first batch is read whatever its size (KIP-74)."""
    left = min(request.max_bytes, cluster.settings.fetch_max_bytes)
    is_first = True
    lines: Lines = {}
    for key, partition_asked in opened.partitions.items():
        partition = _find(cluster, opened, key, request.may_read)
        if isinstance(partition, PartitionLine):
            line = partition
        else:
            line = _read_partition(partition, partition_asked, request, asked, left, is_first)
        lines[key] = line
        left = max(0, left - len(line.records))
        is_first = is_first and not line.records
    return dict(sorted(lines.items(), key=lambda item: _rank(item[1])))


def _rank(line: PartitionLine) -> int:
    return _UNREAD.get(line.error_code, 0)


def _find(
    cluster: Cluster, opened: Opened, key: PartitionKey, may_read: Callable[[str], bool] | None
) -> Partition | PartitionLine:
    """Returns the partition, or the result that explains why it cannot be read."""
    topic, index = key
    error = ErrorCode.unknown_topic_or_partition
    name: str | None
    if isinstance(topic, str):
        name, found = topic, cluster.topics.get(topic)
    else:
        found = cluster.topic_by_id(topic)
        if found:
            opened.names[key] = found.name
        name = opened.names.get(key)
    if name is None:
        error = ErrorCode.unknown_topic_id
    elif may_read is not None and not may_read(name):  # Checked before the response shows whether it exists.
        error, found = ErrorCode.topic_authorization_failed, None
    elif found is None and not isinstance(topic, str) and name in cluster.topics:
        # The topic was deleted and recreated since it was first requested.
        return PartitionLine(partition_index=index, error_code=ErrorCode.inconsistent_topic_id)
    partition = found.partition(index) if found else None
    return partition or PartitionLine(partition_index=index, error_code=error, aborted_transactions=())


def _read_partition(
    partition: Partition,
    partition_asked: PartitionAsked,
    request: Fetch,
    asked: Asked,
    left: int,
    is_first: bool,
) -> PartitionLine:
    index = partition.index
    if partition.leader != asked.node.node_id:
        return PartitionLine(
            partition_index=index, error_code=ErrorCode.not_leader_or_follower, current_leader=leader_of(partition)
        )
    if error_code := fence_epoch(partition, partition_asked.current_leader_epoch):
        return PartitionLine(
            partition_index=index, error_code=error_code, current_leader=_newer_leader(partition, error_code)
        )
    return _records_line(partition, partition_asked, request, left, is_first)


def _newer_leader(partition: Partition, error: ErrorCode) -> CurrentLeader | None:
    return leader_of(partition) if error is ErrorCode.fenced_leader_epoch else None


def _records_line(
    partition: Partition, partition_asked: PartitionAsked, request: Fetch, left: int, is_first: bool
) -> PartitionLine:
    log, offset = partition.log, partition_asked.fetch_offset
    max_bytes = min(left, partition_asked.max_bytes)
    diverging = _diverging_epoch(partition, partition_asked)
    if diverging is None and max_bytes < 0 and log.start_offset <= offset < log.end_offset:
        # LogSegment.read throws when it is called so.
        return PartitionLine(partition_index=partition.index, error_code=ErrorCode.unknown_server_error)
    records = b"" if diverging else log.read(offset, max_bytes=max_bytes, min_one_batch=is_first)
    if isinstance(diverging, ErrorCode) or isinstance(records, Refused):
        error = records.error if isinstance(records, Refused) else ErrorCode.offset_out_of_range
        return PartitionLine(partition_index=partition.index, error_code=error)
    # If not even one batch fits, Kafka drops what it has read of it, and the list with it (ReplicaManager).
    is_cut_off = not records and offset < log.end_offset and max_bytes > 0
    return PartitionLine(
        partition_index=partition.index,
        high_watermark=log.end_offset,
        last_stable_offset=log.end_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=() if request.is_read_committed and not is_cut_off else None,
        records=records,
        diverging_epoch=diverging,
    )


def _diverging_epoch(partition: Partition, partition_asked: PartitionAsked) -> DivergingEpoch | ErrorCode | None:
    """Returns where the log diverges from what the client has read, by the epoch of its last record; None
    if nowhere.
    """
    epoch, log = partition_asked.last_fetched_epoch, partition.log
    if epoch < 0:
        return None
    end = log.end_offset_for_epoch(epoch)
    if end.leader_epoch < 0 or partition_asked.fetch_offset < log.start_offset:
        return ErrorCode.offset_out_of_range
    if end.leader_epoch < epoch or end.end_offset < partition_asked.fetch_offset:
        return DivergingEpoch(epoch=end.leader_epoch, end_offset=end.end_offset)
    return None


def _reply(cluster: Cluster, opened: Opened, lines: Lines) -> FetchReply:
    if opened.session is not None:
        lines = _remember(opened, lines)
    leaders = [line.current_leader for line in lines.values() if line.current_leader is not None]
    return FetchReply(
        session_id=opened.session_id,
        responses=_by_topic(lines),
        node_endpoints=endpoints_of(cluster, leaders),
    )


def _remember(opened: Opened, lines: Lines) -> Lines:
    """Stores what the client is sent. An incremental response leaves out partitions without news."""
    session = opened.session
    assert session is not None
    if not opened.is_incremental:  # The session continues in the order of its first response.
        session.partitions = {key: session.partitions[key] for key in lines if key in session.partitions}
    news: Lines = {}
    for key, line in lines.items():
        told = session.told.setdefault(key, Told())
        is_news = told.high_watermark != line.high_watermark or told.start_offset != line.log_start_offset
        told.high_watermark, told.start_offset = line.high_watermark, line.log_start_offset
        is_news = is_news or bool(line.records or line.error_code or line.diverging_epoch)
        if is_news or not opened.is_incremental:
            news[key] = line
        if line.records and opened.is_incremental and key in session.partitions:
            # A partition whose records were sent goes to the end, so that the limit of bytes starves no other.
            session.partitions[key] = session.partitions.pop(key)
    return news


def _by_topic(lines: Lines) -> tuple[TopicLine, ...]:
    return tuple(
        TopicLine(
            topic=topic if isinstance(topic, str) else "",
            topic_id=None if isinstance(topic, str) else topic,
            partitions=tuple(line for _, line in group),
        )
        for topic, group in groupby(lines.items(), key=lambda item: item[0][0])
    )
