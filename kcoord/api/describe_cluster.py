"""DescribeCluster: the brokers without topics (KIP-700)."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.describe_cluster import DescribeCluster, EndpointType, describe_cluster


def to_request(entity: Any) -> DescribeCluster:
    """Converts kio's DescribeCluster request of any version to the version-free one."""
    return DescribeCluster(
        include_operations=entity.include_cluster_authorized_operations,
        endpoint_type=getattr(entity, "endpoint_type", EndpointType.BROKERS),
    )


API = broker_api(to_request=to_request, decide=describe_cluster)
