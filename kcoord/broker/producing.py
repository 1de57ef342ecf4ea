"""Produce, and the producer ids that make it idempotent (InitProducerId)."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Asked, Cluster, Partition, Topic
from kcoord.broker.leaders import CurrentLeader, Endpoint, endpoints_of, leader_of
from kcoord.broker.partition_log import Appended, Refused
from kcoord.errors import ErrorCode
from kcoord.wire.batches import BadBatch, produced_batch
from kcoord.wire.compression import Codec

_legal_acks: Final = frozenset({-1, 0, 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedPartition:
    index: int
    records: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedTopic:
    """By name, or by id from version 13 on."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[ProducedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    acks: int
    is_transactional: bool
    allows_zstd: bool  # from version 7 on (KIP-110)
    topics: tuple[ProducedTopic, ...]

    @property
    def is_unanswered(self) -> bool:
        """Whether the client waits for no answer."""
        return self.acks == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordErrorLine:
    batch_index: int
    batch_index_error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time: int | None = None
    log_start_offset: int = -1
    record_errors: tuple[RecordErrorLine, ...] = ()
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLine:
    name: str
    topic_id: UUID | None
    partition_responses: tuple[PartitionLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceReply:
    responses: tuple[TopicLine, ...]
    node_endpoints: tuple[Endpoint, ...] = ()
    throttle_time: float = 0.0

    @property
    def has_errors(self) -> bool:
        lines = [line for topic in self.responses for line in topic.partition_responses]
        return any(line.error_code for line in lines)


def produce(cluster: Cluster, request: Produce, asked: Asked) -> ProduceReply:
    """Append what was sent. `cluster` tells the long polls of what arrived."""
    lines = tuple(_produce_topic(cluster, topic, request, asked) for topic in request.topics)
    return ProduceReply(responses=lines, node_endpoints=endpoints_of(cluster, _misled(lines)))


def _misled(topics: tuple[TopicLine, ...]) -> list[CurrentLeader]:
    lines = [line for topic in topics for line in topic.partition_responses]
    return [line.current_leader for line in lines if line.current_leader is not None]


def _produce_topic(cluster: Cluster, sent: ProducedTopic, request: Produce, asked: Asked) -> TopicLine:
    topic = cluster.topics.get(sent.name) if sent.name is not None else cluster.topic_by_id(sent.topic_id)
    lines = tuple(_produce_partition(cluster, topic, partition, request, asked, sent) for partition in sent.partitions)
    return TopicLine(name=sent.name or "", topic_id=sent.topic_id, partition_responses=lines)


def _produce_partition(
    cluster: Cluster,
    topic: Topic | None,
    sent: ProducedPartition,
    request: Produce,
    asked: Asked,
    sent_topic: ProducedTopic,
) -> PartitionLine:
    if topic is None and sent_topic.name is None:
        return PartitionLine(index=sent.index, error_code=ErrorCode.unknown_topic_id)
    partition = topic.partition(sent.index) if topic else None
    if topic is None or partition is None:
        return PartitionLine(index=sent.index, error_code=ErrorCode.unknown_topic_or_partition)
    if request.acks not in _legal_acks:
        return PartitionLine(index=sent.index, error_code=ErrorCode.invalid_required_acks)
    if topic.is_internal:
        return PartitionLine(index=sent.index, error_code=ErrorCode.invalid_topic_exception)
    if partition.leader != asked.node.node_id:
        return PartitionLine(
            index=sent.index, error_code=ErrorCode.not_leader_or_follower, current_leader=leader_of(partition)
        )
    outcome = _append(cluster, partition, sent.records, request, asked)
    return _line(sent.index, outcome)


def _append(
    cluster: Cluster, partition: Partition, records: bytes | None, request: Produce, asked: Asked
) -> Appended | Refused:
    try:
        batch = produced_batch(records)
    except BadBatch as bad:
        return Refused(error=bad.error, message=bad.message)
    if batch.header.codec == Codec.ZSTD and not request.allows_zstd:
        return Refused(error=ErrorCode.unsupported_compression_type, message="zstd needs Produce version 7 or later")
    if batch.header.is_transactional or request.is_transactional:
        return Refused(error=ErrorCode.invalid_txn_state, message="kcoord has no transactions")
    if cluster.held_bytes + batch.header.size > cluster.settings.kcoord_log_memory_bytes:
        return Refused(error=ErrorCode.kafka_storage_error, message="kcoord.log.memory.bytes is used up")
    outcome = partition.log.append(batch, asked.now_ms)
    if isinstance(outcome, Appended) and not outcome.is_duplicate:
        cluster.appended(partition, batch.header.size)
    return outcome


def _line(index: int, outcome: Appended | Refused) -> PartitionLine:
    if isinstance(outcome, Refused):
        errors = tuple(
            RecordErrorLine(batch_index=error.index, batch_index_error_message=error.message)
            for error in outcome.record_errors
        )
        return PartitionLine(index=index, error_code=outcome.error, error_message=outcome.message, record_errors=errors)
    return PartitionLine(
        index=index,
        base_offset=outcome.base_offset,
        log_append_time=None if outcome.append_time_ms < 0 else outcome.append_time_ms,
        log_start_offset=outcome.start_offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    transactional_id: str | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    producer_id: int = -1
    producer_epoch: int = -1
    error_code: ErrorCode = ErrorCode.none
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    throttle_time: float = 0.0


def init_producer_id(cluster: Cluster, request: InitProducerId, asked: Asked) -> InitProducerIdReply:
    """A fresh id for an idempotent producer, also for one that asks with its old id, as Kafka's does."""
    if (request.producer_id < 0) != (request.producer_epoch < 0) or request.transactional_id == "":
        return InitProducerIdReply(error_code=ErrorCode.invalid_request)
    if request.transactional_id is not None:
        return InitProducerIdReply(error_code=ErrorCode.transactional_id_authorization_failed)
    return InitProducerIdReply(producer_id=cluster.next_producer_id(), producer_epoch=0)
