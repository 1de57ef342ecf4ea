"""The one table of served APIs: ApiVersions, dispatch and docs/protocol.md are made from it.

An API's file is imported when the API is first requested, so that a server starts fast: most clients use few APIs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from kcoord.api.contract import ApiModule


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One served API: Kafka's key and name, its versions, the lowest version that ApiVersions announces, and the name
    of its file in this folder.
    """

    key: int
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


def _api(key: int, name: str, first: int, last: int, file: str, *, announced_from: int | None = None) -> Api:
    return Api(
        key=key,
        name=name,
        versions=range(first, last + 1),
        announced_from=first if announced_from is None else announced_from,
        file=file,
    )


def _group_api(key: int, name: str, first: int, last: int, file: str) -> Api:
    versions = range(first, last + 1)
    return Api(key=key, name=name, versions=versions, announced_from=first, file=file, is_group_api=True)


PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
OFFSET_COMMIT: Final = 8
FIND_COORDINATOR: Final = 10
HEARTBEAT: Final = 12
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22

_APIS: Final = (
    # Kafka 4 serves Produce from 3 on and announces 0: librdkafka takes a higher minimum for a broker that is too new
    # (KAFKA-18659).
    _api(PRODUCE, "Produce", 3, 13, "produce", announced_from=0),
    _api(FETCH, "Fetch", 4, 18, "fetch"),
    _api(2, "ListOffsets", 1, 11, "list_offsets"),
    _api(3, "Metadata", 0, 13, "metadata"),
    _group_api(OFFSET_COMMIT, "OffsetCommit", 2, 10, "offset_commit"),
    _group_api(9, "OffsetFetch", 1, 10, "offset_fetch"),
    _api(FIND_COORDINATOR, "FindCoordinator", 0, 6, "find_coordinator"),
    _group_api(11, "JoinGroup", 0, 9, "join_group"),
    _group_api(HEARTBEAT, "Heartbeat", 0, 4, "heartbeat"),
    _group_api(13, "LeaveGroup", 0, 5, "leave_group"),
    _group_api(14, "SyncGroup", 0, 5, "sync_group"),
    _group_api(15, "DescribeGroups", 0, 6, "describe_groups"),
    _group_api(16, "ListGroups", 0, 5, "list_groups"),
    _api(17, "SaslHandshake", 0, 1, "sasl_handshake"),
    _api(API_VERSIONS, "ApiVersions", 0, 4, "api_versions"),
    _api(19, "CreateTopics", 2, 7, "create_topics"),
    _api(20, "DeleteTopics", 1, 6, "delete_topics"),
    _api(21, "DeleteRecords", 0, 2, "delete_records"),
    _api(INIT_PRODUCER_ID, "InitProducerId", 0, 5, "init_producer_id"),
    _api(23, "OffsetForLeaderEpoch", 2, 4, "offset_for_leader_epoch"),
    _api(32, "DescribeConfigs", 1, 4, "describe_configs"),
    _api(36, "SaslAuthenticate", 0, 2, "sasl_authenticate"),
    _api(37, "CreatePartitions", 0, 3, "create_partitions"),
    _group_api(42, "DeleteGroups", 0, 2, "delete_groups"),
    _api(44, "IncrementalAlterConfigs", 0, 1, "incremental_alter_configs"),
    _group_api(47, "OffsetDelete", 0, 0, "offset_delete"),
    _api(60, "DescribeCluster", 0, 2, "describe_cluster"),
)

SERVED: Final[Mapping[int, Api]] = MappingProxyType({api.key: api for api in _APIS})
"""Every served API by its key."""
