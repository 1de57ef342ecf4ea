"""Lists and describes groups of every type, in batches."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final

from kcoord.admin.model import Answers, Group, GroupType, ListedGroup, Node, Refusal, Resource, refused_names, rows_of
from kcoord.admin.retry import Attempt, retry_until_resolved
from kcoord.admin.wire.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from kcoord.admin.wire.brokers import ApiRequest, ApiResponse, Brokers, error_of
from kcoord.admin.wire.coordinators import Coordinators, GroupQuery, Groups
from kcoord.admin.wire.descriptions import classic_group, consumer_group, share_group, streams_group
from kcoord.errors import ErrorCode
from kcoord.protocol.schema.columns import columns_of

Piggyback = Sequence[GroupQuery[Any]]

GROUPS_PER_REQUEST: Final = 250
DEAD: Final = "Dead"


def list_groups(
    brokers: Brokers, *, states: Collection[str], types: Collection[str], timeout: float
) -> Answers[str, ListedGroup]:
    """Lists the groups of all brokers (ListGroups), each of which knows its own only. Filters that a broker does not
    support are applied here.

    The groups of a broker that leaves the cluster meanwhile move to others, so that those are asked once more.
    """
    fields = {"states_filter": tuple(states), "types_filter": tuple(types)}
    found: dict[str, ListedGroup] = {}

    def ask(nodes: list[int], attempt: Attempt[int, bool]) -> None:
        outcomes = brokers.ask_each([ApiRequest(node, LIST_GROUPS, fields) for node in nodes])
        for node, outcome in zip(nodes, outcomes, strict=True):
            if not isinstance(outcome, ApiResponse):
                attempt.refuse(node, Resource.BROKER, str(node), *error_of(outcome))
            elif outcome.response.error_code is not ErrorCode.none:
                attempt.refuse(node, Resource.BROKER, str(node), outcome.response.error_code, "it lists no groups")
            else:
                attempt.found[node] = True
                found.update((each.name, each) for each in _listed(outcome, node))
        if attempt.refused:
            with suppress(ConnectionError):  # if no broker answers, each is refused by name
                brokers.refresh()
        for node in attempt.refused.keys() - brokers.nodes.keys():
            attempt.refuse(node, Resource.BROKER, str(node), ErrorCode.broker_not_available, "it has left the cluster")

    listed = retry_until_resolved(list(brokers.nodes), ask, timeout=timeout, waits=brokers.waits)
    if any(refusal.error is ErrorCode.broker_not_available for refusal in listed.refused):
        again = retry_until_resolved(list(brokers.nodes), ask, timeout=timeout, waits=brokers.waits)
        listed = Answers(found=again.found, refused=tuple(dict.fromkeys((*listed.refused, *again.refused))))
    if not states and not types:
        return Answers(found=found, refused=listed.refused)
    wanted = {name: group for name, group in found.items() if _is_wanted(group, states, types)}
    return Answers(found=wanted, refused=listed.refused)


def _listed(answer: ApiResponse, node: int) -> Iterable[ListedGroup]:
    """Parses a list. Brokers before 2.6 do not send the state, nor those before 3.8 the type."""
    groups = answer.response.groups
    if not groups:
        return ()
    names, protocol_types, states, types = columns_of(groups)
    return rows_of(ListedGroup, names, protocol_types, states, map(_type, types), repeat(node))


_TYPES: Final = {kind.value: kind for kind in GroupType}


def _type(name: str) -> GroupType:
    return _TYPES.get(name.lower(), GroupType.UNKNOWN)


def _is_wanted(group: ListedGroup, states: Collection[str], types: Collection[str]) -> bool:
    """Whether the filters match. A missing state may be any; a missing type is classic, as all groups of such a broker
    are."""
    has_state = not states or not group.state or group.state.lower() in {state.lower() for state in states}
    kind = GroupType.CLASSIC if group.type is GroupType.UNKNOWN else group.type
    has_type = not types or kind.value in {wanted.lower() for wanted in types}
    return has_state and has_type


def describe_groups(
    brokers: Brokers, coordinators: Coordinators, names: Collection[str], *, timeout: float, piggyback: Piggyback = ()
) -> Answers[str, Group]:
    """Describes groups of any type: each is requested as a classic group first (DescribeGroups), and then as each of
    the other types if it was not found.

    The `piggyback` queries are sent for all groups together with the first request, and not again.
    """
    found: dict[str, Group] = {}
    refused: list[Refusal] = []
    left = list(names)
    for api, to_group in _DESCRIBERS:
        answers = _describe_as(brokers, coordinators, left, api, to_group, timeout, piggyback)
        piggyback = ()
        found |= answers.found
        absent = refused_names(answers.refused, Resource.GROUP, errors=_ABSENT)
        refused += [refusal for refusal in answers.refused if refusal.group_name not in absent]
        left = [name for name in left if name in absent]
    refused += [
        Refusal(kind=Resource.GROUP, name=name, error=ErrorCode.group_id_not_found, message="there is no such group")
        for name in left
    ]
    return Answers(found=found, refused=tuple(refused))


ToGroup = Callable[[Any, Node], Group]

_DESCRIBERS: Final[tuple[tuple[Api, ToGroup], ...]] = (
    (DESCRIBE_GROUPS, classic_group),
    (CONSUMER_GROUP_DESCRIBE, consumer_group),
    (STREAMS_GROUP_DESCRIBE, streams_group),
    (SHARE_GROUP_DESCRIBE, share_group),
)
# A broker that has no such API has no such groups.
_ABSENT: Final = (ErrorCode.group_id_not_found, ErrorCode.unsupported_version)


def _describe_as(
    brokers: Brokers,
    coordinators: Coordinators,
    names: Groups,
    api: Api,
    to_group: ToGroup,
    timeout: float,
    piggyback: Piggyback,
) -> Answers[str, Group]:
    piggybacked = list(piggyback)

    def fields(chunk: Groups) -> dict[str, Any]:
        return {"groups": chunk, "group_ids": chunk, "include_authorized_operations": False}

    def read(answer: ApiResponse, asked: Groups, attempt: Attempt[str, Group]) -> None:
        wanted = set(asked)
        for each in answer.response.groups:
            if each.group_id not in wanted:
                continue
            error = each.error_code
            if error is ErrorCode.none and each.group_state == DEAD and not each.members:
                error = ErrorCode.group_id_not_found  # which DescribeGroups before version 6 reports in this way
            if error is ErrorCode.none:
                attempt.found[each.group_id] = to_group(each, brokers.nodes[coordinators.coordinator_of(each.group_id)])
            else:
                attempt.refuse(each.group_id, Resource.GROUP, each.group_id, error, each.error_message)

    def ask(pending: Groups, attempt: Attempt[str, Group]) -> None:
        coordinators.ask(pending, GroupQuery(attempt, api, fields, read, GROUPS_PER_REQUEST), *piggybacked)
        piggybacked.clear()

    return retry_until_resolved(names, ask, timeout=timeout, waits=brokers.waits)
