"""Metadata: the brokers and the topics, and topics that are created because they are requested."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId, Partition, RequestContext, Topic
from kcoord.broker.names import METADATA_TOPIC, why_invalid
from kcoord.errors import ErrorCode

OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
TOPIC_OPERATIONS: Final = 0b1101_1111_1000  # Every topic operation that Kafka has, as the bits of the ACL codes.
CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopic:
    """A topic that a Metadata request asks for, by name or, where `topic_id` is set, by id."""

    name: str | None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """A Metadata request without a version. `topics` None asks for all topics."""

    topics: tuple[RequestedTopic, ...] | None
    allows_ids: bool  # Since version 12 (KAFKA-10774).
    allow_auto_topic_creation: bool
    include_cluster_operations: bool
    include_topic_operations: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBroker:
    """A broker in the reply to Metadata or DescribeCluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def broker_id(self) -> int:
        """The node id under DescribeCluster's name of the field."""
        return self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPartition:
    """A partition in the reply to Metadata, with its leader, replicas and in-sync replicas."""

    partition_index: int
    leader_id: int
    replica_nodes: tuple[NodeId, ...]
    isr_nodes: tuple[NodeId, ...]
    offline_replicas: tuple[int, ...] = ()
    leader_epoch: int = 0
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTopic:
    """A topic in the reply to Metadata. `topic_authorized_operations` is a bit field of ACL operations."""

    name: str | None
    error_code: ErrorCode = ErrorCode.none
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataPartition, ...] = ()
    topic_authorized_operations: int = OPERATIONS_NOT_ASKED_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataReply:
    """The version-free reply to Metadata."""

    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataTopic, ...]
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED_FOR
    throttle_time: float = 0.0
    error_code: ErrorCode = ErrorCode.none


def metadata(cluster: Cluster, request: Metadata, context: RequestContext) -> MetadataReply:
    """Decides a Metadata request: the reply lists the brokers and the requested topics, which may be created by it
    (auto.create.topics.enable).
    """
    if error := refusal(request):
        topics = [
            MetadataTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=error)
            for topic in request.topics or ()
        ]
        return MetadataReply(brokers=(), cluster_id=None, controller_id=-1, topics=tuple(topics), error_code=error)
    return MetadataReply(
        brokers=metadata_brokers(cluster),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        topics=tuple(_topics(cluster, request, context)),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_operations else OPERATIONS_NOT_ASKED_FOR
        ),
    )


def refusal(request: Metadata) -> ErrorCode | None:
    """Returns the error for the whole Metadata request if one of its topics has neither a usable name nor an id, else
    None.
    """
    topics = request.topics or ()
    ids, names = [topic.topic_id for topic in topics], [topic.name for topic in topics]
    if not request.allows_ids and (any(ids) or None in names):
        return ErrorCode.invalid_request
    if not any(ids) and None in names:
        return ErrorCode.unknown_server_error
    return None


def _topics(cluster: Cluster, request: Metadata, context: RequestContext) -> list[MetadataTopic]:
    operations = TOPIC_OPERATIONS if request.include_topic_operations else OPERATIONS_NOT_ASKED_FOR
    if request.topics is None:
        return [_metadata_topic(topic, operations) for topic in cluster.topics.values()]
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id is not None)
    if ids:  # If there is one id, all names are ignored (KafkaApis.handleTopicMetadataRequest).
        return [_topic_by_id(cluster, topic_id, operations) for topic_id in ids]
    names = dict.fromkeys(topic.name or "" for topic in request.topics)
    return [_topic_by_name(cluster, name, request, operations, context.now_ms) for name in names]


def _topic_by_id(cluster: Cluster, topic_id: UUID, operations: int) -> MetadataTopic:
    found = cluster.topic_by_id(topic_id)
    if found is None:
        return MetadataTopic(name=None, topic_id=topic_id, error_code=ErrorCode.unknown_topic_id)
    return _metadata_topic(found, operations)


def _topic_by_name(cluster: Cluster, name: str, request: Metadata, operations: int, now_ms: int) -> MetadataTopic:
    if name in cluster.topics:
        return _metadata_topic(cluster.topics[name], operations)
    error = ErrorCode.unknown_topic_or_partition
    if why_invalid(name):
        error = ErrorCode.invalid_topic_exception
    elif request.allow_auto_topic_creation and cluster.settings.auto_create_topics_enable:
        error = _auto_create(cluster, name, now_ms)
    return MetadataTopic(name=name, error_code=error, topic_authorized_operations=operations)


def _auto_create(cluster: Cluster, name: str, now_ms: int) -> ErrorCode:
    """Creates the topic. This response does not list it yet, the next one will (Kafka's AutoTopicCreationManager)."""
    settings, is_of_groups = cluster.settings, name == OFFSETS_TOPIC
    num_partitions = settings.offsets_topic_num_partitions if is_of_groups else settings.num_partitions
    replication_factor = settings.default_replication_factor
    if replication_factor > len(cluster.nodes):
        return ErrorCode.invalid_replication_factor
    if name == METADATA_TOPIC or cluster.has_colliding_topic(name) or not cluster.has_room_for(num_partitions):
        # Kafka's controller refuses it, and the client does not get to know.
        return ErrorCode.unknown_topic_or_partition
    with suppress(OSError):  # The client asks again, and by then there may be space.
        if is_of_groups:
            _make_offsets_topic(cluster, now_ms)
        else:
            cluster.create_topic(name, cluster.assign_replicas(0, num_partitions, replication_factor), {}, now_ms)
    return ErrorCode.unknown_topic_or_partition


def _make_offsets_topic(cluster: Cluster, now_ms: int) -> None:
    # Imported here because it is seldom needed and imports all of a log.
    from kcoord.broker.offsets_topic import make_offsets_topic

    make_offsets_topic(cluster, now_ms)


def _metadata_topic(topic: Topic, operations: int) -> MetadataTopic:
    return MetadataTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_metadata_partition(partition) for partition in topic.partitions),
        topic_authorized_operations=operations,
    )


def _metadata_partition(partition: Partition) -> MetadataPartition:
    return MetadataPartition(
        partition_index=partition.index,
        leader_id=partition.leader,
        replica_nodes=partition.replicas,
        isr_nodes=partition.replicas,
        leader_epoch=partition.log.leader_epoch,
    )


def metadata_brokers(cluster: Cluster) -> tuple[MetadataBroker, ...]:
    """Returns all brokers of the cluster, as replies list them."""
    return tuple(
        MetadataBroker(node_id=node.node_id, host=node.host, port=node.port) for node in cluster.nodes.values()
    )
