"""DescribeCluster: the brokers without topics (KIP-700)."""

from typing import Any

from kcoord.broker.describe_cluster import DescribeCluster, EndpointType
from kcoord.broker.describe_cluster import describe_cluster as decide

__all__ = ["decide", "to_request"]


def to_request(entity: Any) -> DescribeCluster:
    return DescribeCluster(
        include_operations=entity.include_cluster_authorized_operations,
        endpoint_type=getattr(entity, "endpoint_type", EndpointType.BROKERS),
    )
