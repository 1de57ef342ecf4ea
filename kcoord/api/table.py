"""The one table of served APIs: ApiVersions, dispatch and docs/protocol.md are made from it.

An API's file is imported when the API is first requested, so that a server starts fast: most clients use few APIs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from kcoord.api.contract import ApiModule
from kcoord.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One served API: Kafka's key and name, its versions, the lowest version that ApiVersions announces, and the name
    of its file in this folder.
    """

    key: ApiKey
    name: str
    versions: range
    announced_from: int
    file: str
    is_group_api: bool = False  # decided by the coordinator, not by the broker

    @property
    def module(self) -> ModuleType:
        """The API's Python module, for functions that only this API has."""
        return _module(self.file)

    @property
    def served(self) -> ApiModule:
        """The functions by which the API is served, which its module exports as `API`."""
        served: ApiModule = self.module.API
        return served


@cache
def _module(file: str) -> ModuleType:
    return import_module(f"kcoord.api.{file}")


def _api(key: ApiKey, first: int, last: int, *, announced_from: int | None = None) -> Api:
    return Api(
        key=key,
        name=key.title,
        versions=range(first, last + 1),
        announced_from=first if announced_from is None else announced_from,
        file=key.name.lower(),
    )


def _group_api(key: ApiKey, first: int, last: int) -> Api:
    return replace(_api(key, first, last), is_group_api=True)


_APIS: Final = (
    # Kafka 4 serves Produce from 3 on and announces 0: librdkafka takes a higher minimum for a broker that is too new
    # (KAFKA-18659).
    _api(ApiKey.PRODUCE, 3, 13, announced_from=0),
    _api(ApiKey.FETCH, 4, 18),
    _api(ApiKey.LIST_OFFSETS, 1, 11),
    _api(ApiKey.METADATA, 0, 13),
    _group_api(ApiKey.OFFSET_COMMIT, 2, 10),
    _group_api(ApiKey.OFFSET_FETCH, 1, 10),
    _api(ApiKey.FIND_COORDINATOR, 0, 6),
    _group_api(ApiKey.JOIN_GROUP, 0, 9),
    _group_api(ApiKey.HEARTBEAT, 0, 4),
    _group_api(ApiKey.LEAVE_GROUP, 0, 5),
    _group_api(ApiKey.SYNC_GROUP, 0, 5),
    _group_api(ApiKey.DESCRIBE_GROUPS, 0, 6),
    _group_api(ApiKey.LIST_GROUPS, 0, 5),
    _api(ApiKey.SASL_HANDSHAKE, 0, 1),
    _api(ApiKey.API_VERSIONS, 0, 4),
    _api(ApiKey.CREATE_TOPICS, 2, 7),
    _api(ApiKey.DELETE_TOPICS, 1, 6),
    _api(ApiKey.DELETE_RECORDS, 0, 2),
    _api(ApiKey.INIT_PRODUCER_ID, 0, 5),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    _api(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    _api(ApiKey.SASL_AUTHENTICATE, 0, 2),
    _api(ApiKey.CREATE_PARTITIONS, 0, 3),
    _group_api(ApiKey.DELETE_GROUPS, 0, 2),
    _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    _group_api(ApiKey.OFFSET_DELETE, 0, 0),
    _api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
)

SERVED: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in _APIS})
"""Every served API by its key."""
