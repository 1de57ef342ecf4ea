"""Produce, and the producer ids that make it idempotent (InitProducerId)."""

from copy import copy
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Cluster, Partition, RequestContext, Topic
from kcoord.broker.leader_info import CurrentLeader, Endpoint, endpoints_of, leader_of
from kcoord.broker.log.batch_validation import Admitted, Allowance
from kcoord.broker.log.partition_log import Appended, PartitionLog, Refused
from kcoord.broker.log.slices import Slices
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    Batch,
    CorruptBatch,
    claims_compression,
    produced_batch,
    read_header,
)
from kcoord.protocol.records.compression import Codec

_LEGAL_ACKS: Final = frozenset({-1, 0, 1})
_FRAME_SIZE: Final = 17  # The bytes that Kafka reads of a batch to find its end.
_LEAST_LENGTH: Final = 14  # The smallest record of format v0.
# Kafka explains only errors of single records; errors that only kcoord has are explained too.
_EXPLAINED_ERRORS: Final = frozenset({ErrorCode.invalid_txn_state, ErrorCode.kafka_storage_error})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedPartition:
    """The records of one partition in a Produce request: the bytes of a record batch, or None."""

    index: int
    records: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedTopic:
    """A topic in a Produce request, by name, or by id since version 13."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[ProducedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """A Produce request without a version."""

    acks: int
    has_transactional_id: bool
    allows_zstd: bool  # Since version 7 (KIP-110).
    topics: tuple[ProducedTopic, ...]

    @property
    def is_unanswered(self) -> bool:
        """Whether the client expects no response (acks=0)."""
        return self.acks == 0

    @property
    def is_compressed(self) -> bool:
        """Whether a record batch claims to be compressed, so that memory is needed to decompress it."""
        sent = (partition.records or b"" for topic in self.topics for partition in topic.partitions)
        return any(claims_compression(records) for records in sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordErrorResult:
    """The error of one record in the reply to Produce; `batch_index` is the record's position in its batch."""

    batch_index: int
    batch_index_error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The result of one partition in the reply to Produce: the base offset of the appended batch, or the error."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time: int | None = None
    log_start_offset: int = -1
    record_errors: tuple[RecordErrorResult, ...] = ()
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The results of one topic's partitions in the reply to Produce."""

    name: str
    topic_id: UUID | None
    partition_responses: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceReply:
    """The version-free reply to Produce."""

    responses: tuple[TopicResult, ...]
    node_endpoints: tuple[Endpoint, ...] = ()
    throttle_time: float = 0.0

    @property
    def has_errors(self) -> bool:
        """Whether any partition has an error."""
        results = [result for topic in self.responses for result in topic.partition_responses]
        return any(result.error_code for result in results)


def produce(cluster: Cluster, request: Produce, context: RequestContext) -> Slices[ProduceReply]:
    """Decides a Produce request: validates and appends its record batches. A generator that yields between slices of
    work, and returns the reply.
    """
    if refused := refuse_all(request):
        return ProduceReply(responses=tuple(refused_topic(topic, refused) for topic in merged(request.topics)))
    settings = cluster.settings
    allowance = Allowance(
        records=settings.kcoord_produce_max_records,
        headers=settings.kcoord_produce_max_headers,
        decompressed_bytes=settings.kcoord_produce_max_decompressed_bytes,
    )
    results: tuple[TopicResult, ...] = ()
    for topic in merged(request.topics):
        result = yield from _produce_topic(cluster, topic, request, context, allowance)
        results += (result,)
    return ProduceReply(responses=results, node_endpoints=endpoints_of(cluster, _current_leaders(results)))


def merged(topics: tuple[ProducedTopic, ...]) -> list[ProducedTopic]:
    """Merges the entries of a Produce request that name the same topic."""
    merged: dict[tuple[str | None, UUID | None], list[ProducedPartition]] = {}
    for topic in topics:
        if topic.partitions:
            merged.setdefault((topic.name, topic.topic_id), []).extend(topic.partitions)
    return [
        ProducedTopic(name=name, topic_id=topic_id, partitions=tuple(partitions))
        for (name, topic_id), partitions in merged.items()
    ]


def refuse_all(request: Produce) -> Refused | None:
    """Returns the error with which the whole Produce request is refused, or None: KafkaApis checks the first batch of
    each partition for a transaction before anything is appended.
    """
    for records in (partition.records or b"" for topic in request.topics for partition in topic.partitions):
        if len(records) >= _FRAME_SIZE and _is_unreadable(records):
            return Refused(error=ErrorCode.corrupt_message, message="It cannot be told where the first batch ends")
        if not request.has_transactional_id and _is_transactional(records):
            return Refused(error=ErrorCode.transactional_id_authorization_failed, message="")
    return None


def _is_unreadable(records: bytes) -> bool:
    """Returns whether ByteBufferLogInputStream.nextBatchSize would fail."""
    length, magic = int.from_bytes(records[8:12], signed=True), records[16]
    return length < _LEAST_LENGTH or magic > MAGIC


def _is_transactional(records: bytes) -> bool:
    if len(records) < HEADER_SIZE:
        return False
    header = read_header(records)
    return header.is_transactional and header.magic == MAGIC and header.size <= len(records)


def refused_topic(sent: ProducedTopic, refused: Refused) -> TopicResult:
    """Returns the result of a topic in a Produce request whose partitions all get this error."""
    results = {
        partition.index: PartitionResult(
            index=partition.index, error_code=refused.error, error_message=refused.message or None
        )
        for partition in sent.partitions
    }
    return TopicResult(name=sent.name or "", topic_id=sent.topic_id, partition_responses=tuple(results.values()))


def _current_leaders(topics: tuple[TopicResult, ...]) -> list[CurrentLeader]:
    results = [result for topic in topics for result in topic.partition_responses]
    return [result.current_leader for result in results if result.current_leader is not None]


def _produce_topic(
    cluster: Cluster, sent: ProducedTopic, request: Produce, context: RequestContext, allowance: Allowance
) -> Slices[TopicResult]:
    """Appends to one topic. If a partition is listed twice, the last valid batch is appended and the error of an
    invalid one returned, as by Kafka.
    """
    topic = cluster.topics.get(sent.name) if sent.name is not None else cluster.topic_by_id(sent.topic_id)
    refused: dict[int, PartitionResult] = {}
    batches: dict[int, tuple[Partition, Batch]] = {}
    for content in sent.partitions:
        index = content.index
        partition = topic.partition(index) if topic else None
        if partition is None:
            is_by_id = topic is None and sent.name is None
            error = ErrorCode.unknown_topic_id if is_by_id else ErrorCode.unknown_topic_or_partition
            refused[index] = PartitionResult(index=index, error_code=error)
            continue
        try:
            batches[index] = (partition, _read_batch(content.records, request))
        except CorruptBatch as bad:
            refused[index] = _result(index, Refused(error=bad.error, message=bad.message))
    appended: dict[int, PartitionResult] = {}
    for index, (partition, batch) in batches.items():
        assert topic is not None
        appended[index] = yield from _append(cluster, topic, partition, batch, request, context, allowance)
    results = tuple((appended | refused).values())
    return TopicResult(name=sent.name or "", topic_id=sent.topic_id, partition_responses=results)


def _read_batch(records: bytes | None, request: Produce) -> Batch:
    """Checks what needs no log (ProduceRequest.validateRecords). Raises CorruptBatch."""
    batch = produced_batch(records)
    if batch.header.codec == Codec.ZSTD and not request.allows_zstd:
        raise CorruptBatch(ErrorCode.unsupported_compression_type, "zstd needs Produce version 7 or later")
    return batch


def _append(
    cluster: Cluster,
    topic: Topic,
    partition: Partition,
    batch: Batch,
    request: Produce,
    context: RequestContext,
    allowance: Allowance,
) -> Slices[PartitionResult]:
    index = partition.index
    if request.acks not in _LEGAL_ACKS:
        return PartitionResult(index=index, error_code=ErrorCode.invalid_required_acks)
    if topic.is_internal:
        return PartitionResult(index=index, error_code=ErrorCode.invalid_topic_exception)
    if partition.leader != context.node.node_id:
        leader = leader_of(partition)
        return PartitionResult(index=index, error_code=ErrorCode.not_leader_or_follower, current_leader=leader)
    if batch.header.is_transactional:
        return _result(index, Refused(error=ErrorCode.invalid_txn_state, message="kcoord has no transactions"))
    if refused := _refuse_as_full(cluster, batch):
        return _result(index, refused)
    end_offset, now_ms = partition.log.end_offset, context.now_ms
    admitted = yield from _admit(partition.log, batch, now_ms, allowance)
    if isinstance(admitted, Refused):
        return _result(index, admitted)
    if partition.log.end_offset != end_offset:
        now_ms = max(now_ms, partition.log.appended_ms)  # or times of append would run backwards
    return _result(index, _append_to_log(cluster, topic, partition, batch, admitted, now_ms))


def _admit(log: PartitionLog, batch: Batch, now_ms: int, allowance: Allowance) -> Slices[Admitted | Refused]:
    """Whether the log may take the batch, by the settings that it has at the end: if they have changed while others
    had their turn, the batch is looked at once more, and paid for once."""
    while True:
        settings, left = log.settings, copy(allowance)
        admitted = yield from log.admit(batch, now_ms, left)
        if log.settings is settings:
            allowance.set_to(left)
            return admitted


def _append_to_log(
    cluster: Cluster, topic: Topic, partition: Partition, batch: Batch, admitted: Admitted, now_ms: int
) -> Appended | Refused:
    """Appends an admitted batch. Other work may have run since the check: the topic may be deleted, or the space used
    up.
    """
    if cluster.topics.get(topic.name) is not topic:
        return Refused(error=ErrorCode.unknown_topic_or_partition, message="The topic was deleted meanwhile")
    if refused := _refuse_as_full(cluster, batch):
        return refused
    if partition.log.settings.uses_append_time:
        admitted = admitted._replace(max_timestamp=now_ms)
    outcome = partition.log.append(batch, admitted, now_ms)
    if isinstance(outcome, Appended) and not outcome.is_duplicate:
        cluster.appended(partition, batch.header.size)
    return outcome


def _refuse_as_full(cluster: Cluster, batch: Batch) -> Refused | None:
    if cluster.held_bytes + batch.header.size <= cluster.settings.kcoord_log_bytes:
        return None
    cluster.refused_as_full += 1
    return Refused(error=ErrorCode.kafka_storage_error, message="kcoord.log.bytes is used up")


def _result(index: int, outcome: Appended | Refused) -> PartitionResult:
    if isinstance(outcome, Refused):
        errors = tuple(
            RecordErrorResult(batch_index=error.index, batch_index_error_message=error.message)
            for error in outcome.record_errors
        )
        return PartitionResult(
            index=index,
            error_code=outcome.error,
            log_start_offset=outcome.start_offset,
            record_errors=errors,
            error_message=outcome.message if errors or outcome.error in _EXPLAINED_ERRORS else None,
        )
    return PartitionResult(
        index=index,
        base_offset=outcome.base_offset,
        log_append_time=None if outcome.append_time_ms < 0 else outcome.append_time_ms,
        log_start_offset=outcome.start_offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """An InitProducerId request without a version."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    """The version-free reply to InitProducerId."""

    producer_id: int = -1
    producer_epoch: int = -1
    error_code: ErrorCode = ErrorCode.none
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    throttle_time: float = 0.0


def init_producer_id(cluster: Cluster, request: InitProducerId, context: RequestContext) -> InitProducerIdReply:
    """Decides an InitProducerId request: an idempotent producer gets a fresh id, also if it has an old one, as in
    Kafka. There are no transactions, so a transactional id is refused.
    """
    if (request.producer_id < 0) != (request.producer_epoch < 0) or request.transactional_id == "":
        return InitProducerIdReply(error_code=ErrorCode.invalid_request)
    if request.transactional_id is not None:
        return InitProducerIdReply(error_code=ErrorCode.transactional_id_authorization_failed)
    try:
        return InitProducerIdReply(producer_id=cluster.next_producer_id(), producer_epoch=0)
    except OSError:
        # Kafka returns this while it has no ids left (RPCProducerIdManager): the client asks again.
        return InitProducerIdReply(error_code=ErrorCode.coordinator_load_in_progress)
