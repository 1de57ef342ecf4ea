"""Describes the cluster's nodes and finds the coordinator of a group, for DescribeCluster and FindCoordinator."""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Node, RequestContext
from kcoord.broker.metadata import CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED_FOR, MetadataBroker, metadata_brokers
from kcoord.errors import ErrorCode
from kcoord.java_hashing import string_hash


class EndpointType(IntEnum):
    """The kind of nodes that a DescribeCluster request asks about (KIP-919)."""

    BROKERS = 1
    CONTROLLERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCluster:
    """A DescribeCluster request without a version. `endpoint_type` is an EndpointType, or an unknown number."""

    include_operations: bool
    endpoint_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterReply:
    """The version-free reply to DescribeCluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[MetadataBroker, ...]
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED_FOR
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    endpoint_type: int = EndpointType.BROKERS
    throttle_time: float = 0.0


def describe_cluster(cluster: Cluster, request: DescribeCluster, context: RequestContext) -> DescribeClusterReply:
    """Decides a DescribeCluster request: the reply lists the cluster's brokers."""
    if request.endpoint_type != EndpointType.BROKERS:
        return DescribeClusterReply(
            cluster_id="",
            controller_id=-1,
            brokers=(),
            error_code=(
                ErrorCode.mismatched_endpoint_type
                if request.endpoint_type == EndpointType.CONTROLLERS
                else ErrorCode.unsupported_endpoint_type
            ),
            error_message="this endpoint serves brokers",
        )
    return DescribeClusterReply(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.node_id,
        brokers=metadata_brokers(cluster),
        cluster_authorized_operations=(CLUSTER_OPERATIONS if request.include_operations else OPERATIONS_NOT_ASKED_FOR),
    )


class KeyType(IntEnum):
    """The kind of coordinator that a FindCoordinator request asks for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinator:
    """A FindCoordinator request without a version. `key_type` is a KeyType, or an unknown number; `keys` are
    group ids.
    """

    key_type: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The result for one key in the reply to FindCoordinator: the node that coordinates the group `key`, or
    an error.
    """

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorReply:
    """The version-free reply to FindCoordinator."""

    coordinators: tuple[Coordinator, ...]
    throttle_time: float = 0.0


def find_coordinator(cluster: Cluster, request: FindCoordinator, context: RequestContext) -> FindCoordinatorReply:
    """Decides a FindCoordinator request. It finds coordinators of groups only: other key types get an error."""
    return FindCoordinatorReply(coordinators=tuple(_coordinator(cluster, request, key) for key in request.keys))


def _coordinator(cluster: Cluster, request: FindCoordinator, key: str) -> Coordinator:
    if request.key_type != KeyType.GROUP:
        # Of all errors this one makes every client give up at once, instead of asking again until its timeout.
        is_transaction = request.key_type == KeyType.TRANSACTION
        error = ErrorCode.transactional_id_authorization_failed if is_transaction else ErrorCode.invalid_request
        return Coordinator(
            key=key, error_code=error, error_message="kcoord serves neither transactions nor share groups"
        )
    node = coordinator_of(cluster, key)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)


def coordinator_of(cluster: Cluster, group_id: str) -> Node:
    """Returns the coordinator of a group: the node that leads the group's partition of __consumer_offsets, also before
    that topic exists.
    """
    topic = cluster.topics.get(OFFSETS_TOPIC)
    if topic is None:
        partition = offsets_partition(group_id, cluster.settings.offsets_topic_num_partitions)
        nodes = list(cluster.nodes.values())
        return nodes[partition % len(nodes)]
    return cluster.nodes[topic.partitions[offsets_partition(group_id, len(topic.partitions))].leader]


@lru_cache(maxsize=10_000)
def offsets_partition(group_id: str, partitions: int) -> int:
    """Returns the number of a group's partition of __consumer_offsets, as Kafka does
    (GroupMetadataManager.partitionFor): the absolute value of the id's Java hash, modulo `partitions`.
    """
    hashed = string_hash(group_id)
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return 0 if signed == -(2**31) else abs(signed) % partitions
