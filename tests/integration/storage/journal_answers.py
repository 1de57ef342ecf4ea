"""All that a cluster answers about its groups, in a form that can be compared with the answers of another."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.support.differential.difference import Differs, explain_answers
from tests.support.differential.pair import cluster_id, wait_until
from tests.support.differential.plain import Naming, Plain, plain

_FILTERS: Final[Sequence[dict[str, list[str]]]] = [
    {"states_filter": [], "types_filter": []},
    {"states_filter": ["Stable", "reconciling"], "types_filter": []},
    {"states_filter": ["Empty"], "types_filter": ["classic"]},
    {"states_filter": [], "types_filter": ["consumer", "SHARE"]},
]
_NOT_YET: Final = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


def address_of(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def wait_for_groups(bootstrap: str, group_ids: Sequence[str]) -> None:
    """Waits until the coordinators have loaded all of them."""
    asked = [{"group_id": group_id, "topics": []} for group_id in group_ids]
    with Client(*address_of(bootstrap)) as client:

        def are_read() -> bool:
            answer = client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked)
            return all(group.error_code not in _NOT_YET for group in answer.groups)

        wait_until(are_read, timeout=60)


def answers(bootstrap: str, group_ids: Sequence[str], topics: Mapping[str, UUID]) -> dict[str, Plain]:
    """Returns the answers to all kinds of requests about these groups, by request. Topics are named, not identified by
    id."""
    wait_for_groups(bootstrap, group_ids)
    address = address_of(bootstrap)
    naming = Naming(port=address[1], cluster_id=cluster_id(address))
    for name, topic_id in topics.items():
        naming.learn("topic", topic_id, name)
    found: dict[str, Any] = {}
    with Client(*address) as client:
        for filters in _FILTERS:
            found[f"ListGroups 5 {filters}"] = client.ask(ApiKey.LIST_GROUPS, 5, **filters)
        for version in (0, 6):
            found[f"DescribeGroups {version}"] = client.ask(
                ApiKey.DESCRIBE_GROUPS, version, groups=list(group_ids), include_authorized_operations=True
            )
        found["FindCoordinator 6"] = client.ask(
            ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=list(group_ids)
        )
        for version in (8, 9, 10):
            for what, lines in (("all", None), ("named", _lines(topics))):
                groups = [{"group_id": group_id, "topics": lines} for group_id in group_ids]
                found[f"OffsetFetch {version} {what}"] = client.ask(ApiKey.OFFSET_FETCH, version, groups=groups)
        for group_id in group_ids:
            for version in (1, 7):
                answer = client.ask(ApiKey.OFFSET_FETCH, version, group_id=group_id, topics=_lines(topics))
                found[f"OffsetFetch {version} {group_id}"] = answer
    return {question: _in_order(plain(answer, naming)) for question, answer in found.items()}


def compare(*, kafka: Mapping[str, Plain], kcoord: Mapping[str, Plain]) -> None:
    """Raises Differs with the first request that was answered differently."""
    __tracebackhide__ = True
    assert kafka.keys() == kcoord.keys()
    for question, answer in kafka.items():
        if answer != kcoord[question]:
            differences, _, _ = explain_answers(answer, kcoord[question]).partition("\nKafka answers:")
            raise Differs(f"{question} is answered differently:\n{differences[:10_000]}")


def _lines(topics: Mapping[str, UUID]) -> list[dict[str, Any]]:
    """Returns more partitions than any group has offsets of."""
    return [
        {"name": name, "topic_id": topic_id, "partition_indexes": list(range(5))} for name, topic_id in topics.items()
    ]


def _in_order(answer: Plain) -> Plain:
    """Sorts an answer whose order is that of a hash table."""
    if isinstance(answer, dict):
        return {name: _in_order(part) for name, part in answer.items()}
    return sorted(map(_in_order, answer), key=repr) if isinstance(answer, list) else answer
