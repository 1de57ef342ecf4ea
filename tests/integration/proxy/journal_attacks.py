"""Requests by which a client of the proxy may try to read, change or stop the journal of its groups, API by API.

Each is one frame. The outcome is the set of errors anywhere in the answer; an answer that omits what does not exist has
none, and must not name the journal.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.groups.records import OffsetsStored
from kcoord.offsets_log.encoding import key_values
from kcoord.protocol.records.record import Record, write_batch

UNKNOWN: Final = ErrorCode.unknown_topic_or_partition
UNKNOWN_ID: Final = ErrorCode.unknown_topic_id
NOT_YOURS: Final = ErrorCode.transactional_id_authorization_failed
NO_TOPIC: Final = ErrorCode.topic_authorization_failed
_TOPIC_RESOURCE: Final = 2
_SOON: Final = timedelta(seconds=10)
NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The journal, and another topic that everybody may use."""

    topic: str
    topic_id: UUID
    transactional_id: str
    other_topic: str
    forged: bytes = b""
    """A batch with a record of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    api_key: int
    version: int
    values: Callable[[Target], dict[str, Any]]
    error: ErrorCode | None
    """The expected error; None if the answer omits the journal."""


def outcome(client: Client, attack: Attack, target: Target) -> tuple[set[ErrorCode], bool]:
    """Returns the errors in an answer, and whether the answer names the journal, if only as an echo of the request."""
    response = client.ask(attack.api_key, attack.version, **attack.values(target))
    return set(_errors_in(response)) - {ErrorCode.none}, target.topic in repr(response)


def forged_commit(group_id: str, topic: str, topic_id: UUID, offset: int) -> bytes:
    """Encodes a batch as the journal's writer would."""
    fact = OffsetsStored(group_id, topic, (0,), (offset,), (5,), ("",), int(time.time() * 1000), None, topic_id)
    ((key, value),) = key_values(fact)
    return write_batch([Record(offset=0, timestamp=int(time.time() * 1000), key=key, value=value, headers=())])


def _errors_in(entity: Any) -> Iterator[ErrorCode]:
    if isinstance(entity, ErrorCode):
        yield entity
    elif isinstance(entity, tuple):
        for each in entity:
            yield from _errors_in(each)
    elif is_dataclass(entity):
        for field in fields(entity):
            yield from _errors_in(getattr(entity, field.name))


def _fetched(**topic: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    return {
        "max_wait": timedelta(0),
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{**topic, "partitions": [partition]}],
    }


def _produced(target: Target, **topic: Any) -> dict[str, Any]:
    parts = [{"index": 0, "records": target.forged}]
    return {"acks": -1, "timeout": _SOON, "topic_data": [{**topic, "partition_data": parts}]}


def _resource(target: Target, **more: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": _TOPIC_RESOURCE, "resource_name": target.topic, **more}]}


def _topic(target: Target, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": target.topic, **more}]}


_TAKES: Final = "cleanup.policy"

ATTACKS: Final[Mapping[str, Attack]] = {
    "fetch by name": Attack(api_key=ApiKey.FETCH, version=12, error=UNKNOWN, values=lambda t: _fetched(topic=t.topic)),
    "fetch by id": Attack(
        api_key=ApiKey.FETCH, version=16, error=UNKNOWN_ID, values=lambda t: _fetched(topic_id=t.topic_id)
    ),
    "fetch its transactions": Attack(
        api_key=ApiKey.FETCH, version=12, error=NO_TOPIC, values=lambda _: _fetched(topic="__transaction_state")
    ),
    "produce an end of its transactions": Attack(
        api_key=ApiKey.PRODUCE, version=9, error=NO_TOPIC, values=lambda t: _produced(t, name="__transaction_state")
    ),
    "list offsets": Attack(
        api_key=ApiKey.LIST_OFFSETS,
        version=7,
        error=UNKNOWN,
        values=lambda t: {
            **_topic(t, partitions=[{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]),
            "replica_id": -1,
        },
    ),
    "metadata of all": Attack(api_key=ApiKey.METADATA, version=12, error=None, values=lambda t: {"topics": None}),
    "metadata by name": Attack(
        api_key=ApiKey.METADATA,
        version=12,
        error=UNKNOWN,
        values=lambda t: {"topics": [{"name": t.topic, "topic_id": None}]},
    ),
    "metadata by id": Attack(
        api_key=ApiKey.METADATA,
        version=12,
        error=UNKNOWN_ID,
        values=lambda t: {"topics": [{"topic_id": t.topic_id, "name": None}]},
    ),
    "describe partitions of all": Attack(
        api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, version=0, error=None, values=lambda t: {"topics": []}
    ),
    "describe partitions": Attack(api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, version=0, error=UNKNOWN, values=_topic),
    "find its coordinator": Attack(
        api_key=ApiKey.FIND_COORDINATOR,
        version=4,
        error=NOT_YOURS,
        values=lambda t: {"key_type": 1, "coordinator_keys": [t.transactional_id]},
    ),
    "find its coordinator, older": Attack(
        api_key=ApiKey.FIND_COORDINATOR,
        version=2,
        error=NOT_YOURS,
        values=lambda t: {"key_type": 1, "key": t.transactional_id},
    ),
    "create topic": Attack(
        api_key=ApiKey.CREATE_TOPICS,
        version=7,
        error=NO_TOPIC,
        values=lambda t: {**_topic(t, num_partitions=1, replication_factor=1), "timeout": _SOON},
    ),
    "create partitions": Attack(
        api_key=ApiKey.CREATE_PARTITIONS,
        version=3,
        error=UNKNOWN,
        values=lambda t: {**_topic(t, count=99, assignments=None), "timeout": _SOON},
    ),
    "leader epochs": Attack(
        api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version=4,
        error=UNKNOWN,
        values=lambda t: {
            "replica_id": -1,
            "topics": [
                {"topic": t.topic, "partitions": [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]}
            ],
        },
    ),
    "describe configs": Attack(
        api_key=ApiKey.DESCRIBE_CONFIGS,
        version=4,
        error=UNKNOWN,
        values=lambda t: _resource(t, configuration_keys=None),
    ),
    "list config resources": Attack(
        api_key=ApiKey.LIST_CONFIG_RESOURCES,
        version=1,
        error=None,
        values=lambda t: {"resource_types": [_TOPIC_RESOURCE]},
    ),
    "describe log folders": Attack(
        api_key=ApiKey.DESCRIBE_LOG_DIRS, version=4, error=None, values=lambda t: {"topics": None}
    ),
    "describe its log folders": Attack(
        api_key=ApiKey.DESCRIBE_LOG_DIRS,
        version=4,
        error=None,
        values=lambda t: {"topics": [{"topic": t.topic, "partitions": [0]}]},
    ),
    "list reassignments": Attack(
        api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        version=0,
        error=None,
        values=lambda t: {**_topic(t, partition_indexes=[0]), "timeout": _SOON},
    ),
    "reassign": Attack(
        api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        version=0,
        error=UNKNOWN,
        values=lambda t: {**_topic(t, partitions=[{"partition_index": 0, "replicas": [77]}]), "timeout": _SOON},
    ),
    "elect leaders": Attack(
        api_key=ApiKey.ELECT_LEADERS,
        version=2,
        error=UNKNOWN,
        values=lambda t: {
            "election_type": 0,
            "topic_partitions": [{"topic": t.topic, "partitions": [0]}],
            "timeout": _SOON,
        },
    ),
    "move log folders": Attack(
        api_key=ApiKey.ALTER_REPLICA_LOG_DIRS,
        version=2,
        error=UNKNOWN,
        values=lambda t: {"dirs": [{"path": "/nowhere", "topics": [{"name": t.topic, "partitions": [0]}]}]},
    ),
    "describe producers": Attack(
        api_key=ApiKey.DESCRIBE_PRODUCERS, version=0, error=UNKNOWN, values=lambda t: _topic(t, partition_indexes=[0])
    ),
    "describe its transaction": Attack(
        api_key=ApiKey.DESCRIBE_TRANSACTIONS,
        version=0,
        error=NOT_YOURS,
        values=lambda t: {"transactional_ids": [t.transactional_id]},
    ),
    "list transactions": Attack(
        api_key=ApiKey.LIST_TRANSACTIONS,
        version=1,
        error=None,
        values=lambda t: {"state_filters": [], "producer_id_filters": [], "duration_filter": -1},
    ),
    "add partitions of it": Attack(
        api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
        version=3,
        error=UNKNOWN,
        values=lambda t: {
            "v3_and_below_transactional_id": f"other-{t.topic}",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": t.topic, "partitions": [0]}],
        },
    ),
    "add partitions to its transaction": Attack(
        api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
        version=3,
        error=NOT_YOURS,
        values=lambda t: {
            "v3_and_below_transactional_id": t.transactional_id,
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": t.other_topic, "partitions": [0]}],
        },
    ),
    "add partitions to its transaction, as brokers do": Attack(
        api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
        version=4,
        error=NOT_YOURS,
        values=lambda t: {
            "transactions": [
                {
                    "transactional_id": t.transactional_id,
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": False,
                    "topics": [{"name": t.other_topic, "partitions": [0]}],
                }
            ]
        },
    ),
    "end its transaction": Attack(
        api_key=ApiKey.END_TXN,
        version=3,
        error=NOT_YOURS,
        values=lambda t: {
            "transactional_id": t.transactional_id,
            "producer_id": 1,
            "producer_epoch": 0,
            "committed": True,
        },
    ),
    "write transaction markers": Attack(
        api_key=ApiKey.WRITE_TXN_MARKERS,
        version=1,
        error=UNKNOWN,
        values=lambda t: {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 9,
                    "transaction_result": False,
                    "topics": [{"name": t.topic, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
    ),
    "produce by name": Attack(
        api_key=ApiKey.PRODUCE, version=9, error=UNKNOWN, values=lambda t: _produced(t, name=t.topic)
    ),
    "produce by id": Attack(
        api_key=ApiKey.PRODUCE, version=13, error=UNKNOWN_ID, values=lambda t: _produced(t, topic_id=t.topic_id)
    ),
    "produce in its transaction": Attack(
        api_key=ApiKey.PRODUCE,
        version=9,
        error=NOT_YOURS,
        values=lambda t: {**_produced(t, name=t.other_topic), "transactional_id": t.transactional_id},
    ),
    "alter configs": Attack(
        api_key=ApiKey.ALTER_CONFIGS,
        version=2,
        error=UNKNOWN,
        values=lambda t: _resource(t, configs=[{"name": _TAKES, "value": "delete"}]),
    ),
    "alter configs, one by one": Attack(
        api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        version=1,
        error=UNKNOWN,
        values=lambda t: _resource(t, configs=[{"name": _TAKES, "config_operation": 0, "value": "delete"}]),
    ),
    "fence its writer": Attack(
        api_key=ApiKey.INIT_PRODUCER_ID,
        version=4,
        error=NOT_YOURS,
        values=lambda t: {
            "transactional_id": t.transactional_id,
            "transaction_timeout": _SOON,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    "delete records": Attack(
        api_key=ApiKey.DELETE_RECORDS,
        version=2,
        error=UNKNOWN,
        values=lambda t: {**_topic(t, partitions=[{"partition_index": 0, "offset": -1}]), "timeout": _SOON},
    ),
    "delete by id": Attack(
        api_key=ApiKey.DELETE_TOPICS,
        version=6,
        error=UNKNOWN_ID,
        values=lambda t: {"topics": [{"name": None, "topic_id": t.topic_id}], "timeout": _SOON},
    ),
    "delete by name": Attack(
        api_key=ApiKey.DELETE_TOPICS,
        version=6,
        error=UNKNOWN,
        values=lambda t: {"topics": [{"name": t.topic, "topic_id": None}], "timeout": _SOON},
    ),
    "delete by name, older": Attack(
        api_key=ApiKey.DELETE_TOPICS,
        version=5,
        error=UNKNOWN,
        values=lambda t: {"topic_names": [t.topic], "timeout": _SOON},
    ),
}
"""All attacks, in an order in which each would succeed if it were not refused."""
