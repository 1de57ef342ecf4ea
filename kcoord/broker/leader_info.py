"""Leaders of partitions, for responses to a client that has the wrong node or epoch (KIP-320, KIP-951)."""

from collections.abc import Iterable
from dataclasses import dataclass

from kcoord.broker.cluster import Cluster, NodeId, Partition
from kcoord.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLeader:
    """The leader of a partition and its epoch, which responses carry for a client that used another (KIP-951)."""

    leader_id: NodeId
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A broker's address, as in the field NodeEndpoints of Produce and Fetch responses (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def leader_of(partition: Partition) -> CurrentLeader:
    """Returns the partition's leader and leader epoch."""
    return CurrentLeader(leader_id=partition.leader, leader_epoch=partition.log.leader_epoch)


def endpoints_of(cluster: Cluster, leaders: Iterable[CurrentLeader]) -> tuple[Endpoint, ...]:
    """Returns the addresses of these leaders, each broker once."""
    nodes = [cluster.nodes[node] for node in dict.fromkeys(leader.leader_id for leader in leaders)]
    return tuple(Endpoint(node_id=node.node_id, host=node.host, port=node.port) for node in nodes)


def fence_epoch(partition: Partition, claimed_epoch: int) -> ErrorCode | None:
    """Returns the error for a client whose leader epoch is older or newer than the partition's (KIP-320), or None if it
    is the same. A `claimed_epoch` of -1 is not checked.
    """
    if claimed_epoch < 0 or claimed_epoch == partition.log.leader_epoch:
        return None
    if claimed_epoch < partition.log.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
