"""Fetch: reads what there is, or waits for it.

`fetch` replies at once or returns what it waits for (`Waiting`). When that has arrived, or the time is up, `finish`
reads again and replies; the reply has everything that was appended in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Cluster, Partition, RequestContext
from kcoord.broker.fetch_sessions import (
    CLOSING_EPOCH,
    NO_SESSION,
    OPENING_EPOCH,
    FetchContext,
    FetchSessions,
    LastSent,
    PartitionKey,
    RequestedPartition,
)
from kcoord.broker.leader_info import CurrentLeader, Endpoint, endpoints_of, fence_epoch, leader_of
from kcoord.broker.log.partition_log import Refused
from kcoord.errors import ErrorCode

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
# Errors that are found before a log is read. Their results do not end a wait, and come behind the others.
_NOT_READ: Final = {
    ErrorCode.unknown_topic_id: 1,
    ErrorCode.topic_authorization_failed: 2,
    ErrorCode.unknown_topic_or_partition: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A Fetch request without a version. `max_wait` is in seconds; partitions are by topic name or, if `is_by_id`, by
    topic id. `may_read` returns whether the client may read a topic; None allows all.
    """

    max_wait: float
    min_bytes: int
    max_bytes: int
    isolation_level: int
    is_by_id: bool
    session_id: int
    session_epoch: int
    partitions: dict[PartitionKey, RequestedPartition]
    forgotten: tuple[PartitionKey, ...]
    may_read: Callable[[str], bool] | None = None

    @property
    def is_read_committed(self) -> bool:
        """Whether the consumer reads with isolation.level=read_committed."""
        return self.isolation_level == _READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    """The leader epoch and its end offset in this log, after which what the client has read diverges from it
    (KIP-595).
    """

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The result of one partition in the reply to Fetch: its records, or its error."""

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
class TopicResult:
    """The results of one topic's partitions in the reply to Fetch."""

    topic: str
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """The version-free reply to Fetch."""

    error_code: ErrorCode = ErrorCode.none
    session_id: int = NO_SESSION
    responses: tuple[TopicResult, ...] = ()
    node_endpoints: tuple[Endpoint, ...] = ()
    throttle_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Fetch request that found fewer bytes than its fetch.min.bytes and is to be parked. It is decided again when
    `missing_bytes` more have been appended to the `watched` partitions (topic name and number), or after its max_wait.
    """

    request: Fetch
    fetch_context: FetchContext
    missing_bytes: int
    watched: tuple[tuple[str, int], ...]


Results = dict[PartitionKey, PartitionResult]


def fetch(cluster: Cluster, sessions: FetchSessions, request: Fetch, context: RequestContext) -> FetchReply | Waiting:
    """Decides a Fetch request: returns the reply or, if there are too few bytes yet, a Waiting for the caller
    to park.
    """
    fetch_context = _open(sessions, request, context.now_ms)
    if isinstance(fetch_context, ErrorCode):
        return FetchReply(error_code=fetch_context)
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return _refuse(request, ErrorCode.unknown_server_error)
    results = _read(cluster, fetch_context, request, context)
    read = [result for result in results.values() if result.error_code not in _NOT_READ]
    is_decided = any(result.error_code or result.diverging_epoch for result in read)
    missing = request.min_bytes - sum(len(result.records) for result in read)
    if missing <= 0 or request.max_wait <= 0 or is_decided or not read:
        return _reply(cluster, fetch_context, results)
    found = [key for key, result in results.items() if result.error_code not in _NOT_READ]
    watched = tuple((_named(cluster, topic), index) for topic, index in found)
    return Waiting(request=request, fetch_context=fetch_context, missing_bytes=missing, watched=watched)


def finish(cluster: Cluster, waiting: Waiting, context: RequestContext) -> FetchReply:
    """Decides a parked Fetch once more and returns its reply, with the records that there are by now."""
    return _reply(cluster, waiting.fetch_context, _read(cluster, waiting.fetch_context, waiting.request, context))


def _refuse(request: Fetch, error: ErrorCode) -> FetchReply:
    """Refuses the whole request; if it uses ids, the error is not repeated per partition
    (FetchRequest.getErrorResponse).
    """
    results = {
        key: PartitionResult(partition_index=key[1], error_code=error, aborted_transactions=())
        for key in request.partitions
    }
    return FetchReply(error_code=error, responses=() if request.is_by_id else _by_topic(results))


def _open(sessions: FetchSessions, request: Fetch, now_ms: int) -> FetchContext | ErrorCode:
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


def _read(cluster: Cluster, fetch_context: FetchContext, request: Fetch, context: RequestContext) -> Results:
    """Reads every partition in order, until the limit of bytes. The first batch is read whatever its size (KIP-74)."""
    left = min(request.max_bytes, cluster.settings.fetch_max_bytes)
    is_first = True
    results: Results = {}
    for key, requested in fetch_context.partitions.items():
        partition = _find(cluster, fetch_context, key, request.may_read)
        if isinstance(partition, PartitionResult):
            result = partition
        else:
            result = _read_partition(partition, requested, request, context, left, is_first)
        results[key] = result
        left = max(0, left - len(result.records))
        is_first = is_first and not result.records
    return dict(sorted(results.items(), key=lambda item: _rank(item[1])))


def _rank(result: PartitionResult) -> int:
    return _NOT_READ.get(result.error_code, 0)


def _find(
    cluster: Cluster, fetch_context: FetchContext, key: PartitionKey, may_read: Callable[[str], bool] | None
) -> Partition | PartitionResult:
    """Returns the partition, or the result that explains why it cannot be read."""
    topic, index = key
    error = ErrorCode.unknown_topic_or_partition
    name: str | None
    if isinstance(topic, str):
        name, found = topic, cluster.topics.get(topic)
    else:
        found = cluster.topic_by_id(topic)
        if found:
            fetch_context.names[key] = found.name
        name = fetch_context.names.get(key)
    if name is None:
        error = ErrorCode.unknown_topic_id
    elif may_read is not None and not may_read(name):  # Checked before the response shows whether it exists.
        error, found = ErrorCode.topic_authorization_failed, None
    elif found is None and not isinstance(topic, str) and name in cluster.topics:
        # The topic was deleted and recreated since it was first requested.
        return PartitionResult(partition_index=index, error_code=ErrorCode.inconsistent_topic_id)
    partition = found.partition(index) if found else None
    return partition or PartitionResult(partition_index=index, error_code=error, aborted_transactions=())


def _read_partition(
    partition: Partition,
    requested: RequestedPartition,
    request: Fetch,
    context: RequestContext,
    left: int,
    is_first: bool,
) -> PartitionResult:
    index = partition.index
    if partition.leader != context.node.node_id:
        return PartitionResult(
            partition_index=index, error_code=ErrorCode.not_leader_or_follower, current_leader=leader_of(partition)
        )
    if error_code := fence_epoch(partition, requested.current_leader_epoch):
        return PartitionResult(
            partition_index=index, error_code=error_code, current_leader=_newer_leader(partition, error_code)
        )
    return _read_records(partition, requested, request, left, is_first)


def _newer_leader(partition: Partition, error: ErrorCode) -> CurrentLeader | None:
    return leader_of(partition) if error is ErrorCode.fenced_leader_epoch else None


def _read_records(
    partition: Partition, requested: RequestedPartition, request: Fetch, left: int, is_first: bool
) -> PartitionResult:
    log, offset = partition.log, requested.fetch_offset
    max_bytes = min(left, requested.max_bytes)
    diverging = _diverging_epoch(partition, requested)
    if diverging is None and max_bytes < 0 and log.start_offset <= offset < log.end_offset:
        # LogSegment.read throws when it is called so.
        return PartitionResult(partition_index=partition.index, error_code=ErrorCode.unknown_server_error)
    records = b"" if diverging else log.read(offset, max_bytes=max_bytes, min_one_batch=is_first)
    if isinstance(diverging, ErrorCode) or isinstance(records, Refused):
        error = records.error if isinstance(records, Refused) else ErrorCode.offset_out_of_range
        return PartitionResult(partition_index=partition.index, error_code=error)
    # If not even one batch fits, Kafka drops what it has read of it, and the list with it (ReplicaManager).
    is_cut_off = not records and offset < log.end_offset and max_bytes > 0
    return PartitionResult(
        partition_index=partition.index,
        high_watermark=log.end_offset,
        last_stable_offset=log.end_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=() if request.is_read_committed and not is_cut_off else None,
        records=records,
        diverging_epoch=diverging,
    )


def _diverging_epoch(partition: Partition, requested: RequestedPartition) -> DivergingEpoch | ErrorCode | None:
    """Returns where the log diverges from what the client has read, by the epoch of its last record; None
    if nowhere.
    """
    epoch, log = requested.last_fetched_epoch, partition.log
    if epoch < 0:
        return None
    end = log.end_offset_for_epoch(epoch)
    if end.leader_epoch < 0 or requested.fetch_offset < log.start_offset:
        return ErrorCode.offset_out_of_range
    if end.leader_epoch < epoch or end.end_offset < requested.fetch_offset:
        return DivergingEpoch(epoch=end.leader_epoch, end_offset=end.end_offset)
    return None


def _reply(cluster: Cluster, fetch_context: FetchContext, results: Results) -> FetchReply:
    if fetch_context.session is not None:
        results = _remember(fetch_context, results)
    leaders = [result.current_leader for result in results.values() if result.current_leader is not None]
    return FetchReply(
        session_id=fetch_context.session_id,
        responses=_by_topic(results),
        node_endpoints=endpoints_of(cluster, leaders),
    )


def _remember(fetch_context: FetchContext, results: Results) -> Results:
    """Stores what the client is sent. An incremental response leaves out partitions without news."""
    session = fetch_context.session
    assert session is not None
    if not fetch_context.is_incremental:  # The session continues in the order of its first response.
        session.partitions = {key: session.partitions[key] for key in results if key in session.partitions}
    news: Results = {}
    for key, result in results.items():
        last_sent = session.last_sent.setdefault(key, LastSent())
        is_news = last_sent.high_watermark != result.high_watermark or last_sent.start_offset != result.log_start_offset
        last_sent.high_watermark, last_sent.start_offset = result.high_watermark, result.log_start_offset
        is_news = is_news or bool(result.records or result.error_code or result.diverging_epoch)
        if is_news or not fetch_context.is_incremental:
            news[key] = result
        if result.records and fetch_context.is_incremental and key in session.partitions:
            # A partition whose records were sent goes to the end, so that the limit of bytes starves no other.
            session.partitions[key] = session.partitions.pop(key)
    return news


def _by_topic(results: Results) -> tuple[TopicResult, ...]:
    return tuple(
        TopicResult(
            topic=topic if isinstance(topic, str) else "",
            topic_id=None if isinstance(topic, str) else topic,
            partitions=tuple(result for _, result in group),
        )
        for topic, group in groupby(results.items(), key=lambda item: item[0][0])
    )
