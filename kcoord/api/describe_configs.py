"""DescribeConfigs."""

from typing import Any

from kcoord.broker.describe_configs import DescribeConfigs, RequestedResource
from kcoord.broker.describe_configs import describe_configs as decide

__all__ = ["decide", "to_request"]


def to_request(entity: Any) -> DescribeConfigs:
    return DescribeConfigs(
        resources=tuple(
            RequestedResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configuration_keys=resource.configuration_keys,
            )
            for resource in entity.resources
        ),
        include_synonyms=entity.include_synonyms,
        include_documentation=getattr(entity, "include_documentation", False),
    )
