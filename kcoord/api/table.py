"""The one table of what is served: ApiVersions, dispatch and docs/protocol.md are made from it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from kcoord.api import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kcoord.api.api_versions import ApiRange


class Api(Protocol):
    """What every file of this folder has."""

    @property
    def KEY(self) -> int: ...  # noqa: N802
    @property
    def NAME(self) -> str: ...  # noqa: N802
    @property
    def VERSIONS(self) -> range: ...  # noqa: N802
    @property
    def to_request(self) -> Callable[[Any], Any]: ...


_modules: Final[tuple[Api, ...]] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    find_coordinator,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    describe_configs,
    create_partitions,
    incremental_alter_configs,
    describe_cluster,
)

served: Final[Mapping[int, Api]] = MappingProxyType({api.KEY: api for api in sorted(_modules, key=lambda a: a.KEY)})
"""Every served API by its key."""

announced_from: Final[Mapping[int, int]] = MappingProxyType({produce.KEY: produce.ANNOUNCED_FROM})
"""Where more is announced than is served."""


reshaped: Final[Mapping[int, Callable[[Any, int], object]]] = MappingProxyType(
    {find_coordinator.KEY: find_coordinator.to_response}
)
"""The APIs whose replies take another shape in some versions."""


def announced() -> tuple[ApiRange, ...]:
    """What ApiVersions says."""
    return tuple(
        ApiRange(
            api_key=api.KEY,
            min_version=announced_from.get(api.KEY, api.VERSIONS[0]),
            max_version=api.VERSIONS[-1],
        )
        for api in served.values()
    )
