"""DescribeConfigs."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.describe_configs import DescribeConfigs, RequestedResource, describe_configs


def to_request(entity: Any) -> DescribeConfigs:
    """Converts kio's DescribeConfigs request of any version to the version-free one."""
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


API = broker_api(to_request=to_request, decide=describe_configs)
