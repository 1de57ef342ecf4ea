"""DescribeCluster: the brokers alone (KIP-700)."""

from typing import Any, Final

from kcoord.broker.describing import DescribeCluster, EndpointType

KEY: Final = 60
NAME: Final = "DescribeCluster"
VERSIONS: Final = range(3)


def to_request(entity: Any) -> DescribeCluster:
    return DescribeCluster(
        include_operations=entity.include_cluster_authorized_operations,
        endpoint_type=getattr(entity, "endpoint_type", EndpointType.BROKERS),
    )
