"""IncrementalAlterConfigs (KIP-339)."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.alter_configs import Alteration, AlterConfigs, AlteredResource, alter_configs


def to_request(entity: Any) -> AlterConfigs:
    """Converts kio's IncrementalAlterConfigs request of any version to the version-free one."""
    return AlterConfigs(resources=tuple(map(_resource, entity.resources)), validate_only=entity.validate_only)


def _resource(resource: Any) -> AlteredResource:
    return AlteredResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        alterations=tuple(
            Alteration(name=config.name, operation=config.config_operation, value=config.value)
            for config in resource.configs
        ),
    )


API = broker_api(to_request=to_request, decide=alter_configs)
