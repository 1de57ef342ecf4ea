"""Lists and describes groups of every type, in batches."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final

from kcoord.admin.model import Answers, Group, GroupType, ListedGroup, Node, Refusal, rows_of
from kcoord.admin.retry import Round, settle
from kcoord.admin.wire.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from kcoord.admin.wire.brokers import Answer, Brokers, Question, refusing
from kcoord.admin.wire.coordinators import Asked, Coordinators, Groups
from kcoord.admin.wire.descriptions import classic_group, consumer_group, share_group, streams_group
from kcoord.errors import ErrorCode
from kcoord.protocol.schema.message_readers import columns_of

Beside = Sequence[Asked[Any]]

GROUPS_PER_REQUEST: Final = 250
DEAD: Final = "Dead"


def list_groups(
    brokers: Brokers, *, states: Collection[str], types: Collection[str], patience: float
) -> Answers[str, ListedGroup]:
    """Merges the lists of all brokers, each of its own groups. Filters that a broker does not support are applied here.

    The groups of a broker that leaves the cluster meanwhile move to others, so that those are asked once more.
    """
    fields = {"states_filter": tuple(states), "types_filter": tuple(types)}
    found: dict[str, ListedGroup] = {}

    def ask(nodes: list[int], told: Round[int, bool]) -> None:
        outcomes = brokers.ask_each([Question(node, LIST_GROUPS, fields) for node in nodes])
        for node, outcome in zip(nodes, outcomes, strict=True):
            if not isinstance(outcome, Answer):
                told.refuse(node, f"broker {node}", *refusing(outcome))
            elif outcome.response.error_code is not ErrorCode.none:
                told.refuse(node, f"broker {node}", outcome.response.error_code, "it lists no groups")
            else:
                told.found[node] = True
                found.update((each.name, each) for each in _listed(outcome, node))
        if told.refused:
            with suppress(ConnectionError):  # if no broker answers, each is refused by name
                brokers.refresh()
        for node in told.refused.keys() - brokers.nodes.keys():
            told.refuse(node, f"broker {node}", ErrorCode.broker_not_available, "it has left the cluster")

    settled = settle(list(brokers.nodes), ask, patience=patience, waits=brokers.waits)
    if any(refusal.error is ErrorCode.broker_not_available for refusal in settled.refused):
        again = settle(list(brokers.nodes), ask, patience=patience, waits=brokers.waits)
        settled = Answers(found=again.found, refused=tuple(dict.fromkeys((*settled.refused, *again.refused))))
    if not states and not types:
        return Answers(found=found, refused=settled.refused)
    wanted = {name: group for name, group in found.items() if _is_wanted(group, states, types)}
    return Answers(found=wanted, refused=settled.refused)


def _listed(answer: Answer, node: int) -> Iterable[ListedGroup]:
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
    brokers: Brokers, coordinators: Coordinators, names: Collection[str], *, patience: float, beside: Beside = ()
) -> Answers[str, Group]:
    """Describes groups of any type: each is requested as a classic group first, and then as each of the other types if
    it was not found.

    The `piggyback` queries are sent for all groups together with the first request, and not again.
    """
    found: dict[str, Group] = {}
    refused: list[Refusal] = []
    left = list(names)
    for api, to_group in _DESCRIBERS:
        answers = _describe_as(brokers, coordinators, left, api, to_group, patience, beside)
        beside = ()
        found |= answers.found
        absent = {refusal.what for refusal in answers.refused if refusal.error in _ABSENT}
        refused += [refusal for refusal in answers.refused if refusal.what not in absent]
        left = [name for name in left if f"group {name}" in absent]
    refused += [
        Refusal(what=f"group {name}", error=ErrorCode.group_id_not_found, message="there is no such group")
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
    patience: float,
    beside: Beside,
) -> Answers[str, Group]:
    others = list(beside)

    def fields(chunk: Groups) -> dict[str, Any]:
        return {"groups": chunk, "group_ids": chunk, "include_authorized_operations": False}

    def read(answer: Answer, asked: Groups, told: Round[str, Group]) -> None:
        wanted = set(asked)
        for each in answer.response.groups:
            if each.group_id not in wanted:
                continue
            error = each.error_code
            if error is ErrorCode.none and each.group_state == DEAD and not each.members:
                error = ErrorCode.group_id_not_found  # which DescribeGroups before version 6 reports in this way
            if error is ErrorCode.none:
                told.found[each.group_id] = to_group(each, brokers.nodes[coordinators.of(each.group_id)])
            else:
                told.refuse(each.group_id, f"group {each.group_id}", error, each.error_message)

    def ask(pending: Groups, told: Round[str, Group]) -> None:
        coordinators.ask(pending, Asked(told, api, fields, read, GROUPS_PER_REQUEST), *others)
        others.clear()

    return settle(names, ask, patience=patience, waits=brokers.waits)
