"""DescribeConfigs."""

from typing import Any, Final

from kcoord.broker.configs import DescribeConfigs, ResourceAsked

KEY: Final = 32
NAME: Final = "DescribeConfigs"
VERSIONS: Final = range(1, 5)


def to_request(entity: Any) -> DescribeConfigs:
    return DescribeConfigs(
        resources=tuple(
            ResourceAsked(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configuration_keys=resource.configuration_keys,
            )
            for resource in entity.resources
        ),
        include_synonyms=entity.include_synonyms,
        include_documentation=getattr(entity, "include_documentation", False),
    )
