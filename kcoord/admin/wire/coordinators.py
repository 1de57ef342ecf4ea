"""Finds the broker that coordinates each group, and batches requests by coordinator."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.model import Resource
from kcoord.admin.retry import RETRIABLE, Attempt
from kcoord.admin.waiting import Waits
from kcoord.admin.wire.apis import FIND_COORDINATOR, Api
from kcoord.admin.wire.brokers import ApiRequest, ApiResponse, Brokers, Outcome, chunked, error_of
from kcoord.errors import ErrorCode

Value = TypeVar("Value")
Groups = list[str]

KEYS_PER_REQUEST: Final = 2000
BATCHED_SINCE: Final = 4  # FindCoordinator (KIP-699)
GROUP_KEY: Final = 0


def coordinator_request(group: str) -> ApiRequest:
    """Returns the FindCoordinator request for this group, to be sent to the first broker together with the first
    Metadata request."""
    return ApiRequest(-1, FIND_COORDINATOR, {"key": group})


class GroupQuery(NamedTuple, Generic[Value]):
    """A request about many groups, to be sent to their coordinators: its API, a function that makes its fields, and
    `read`, which parses each response into `attempt`; failures become refusals there.

    A broker that does not support the batched version gets a request for each group.
    """

    attempt: Attempt[str, Value]
    api: Api
    fields: Callable[[Groups], Mapping[str, Any]]
    read: Callable[[ApiResponse, Groups, Attempt[str, Value]], None]
    groups_per_request: int
    batched_since: int = 0


class Coordinators:
    """A cache of the brokers that coordinate groups (FindCoordinator), through which requests are sent to them. An
    entry is dropped when it turns out to be wrong."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._nodes: dict[str, int] = {}

    @property
    def waits(self) -> Waits:
        """The registry of what these connections wait for."""
        return self._brokers.waits

    def ask(self, groups: Groups, *queries: GroupQuery[Any]) -> None:
        """Sends all queries to the coordinators of these groups at once, and fills the attempts of the queries with the
        results."""
        by_node = self._by_node(groups, [each.attempt for each in queries])
        chunks = [
            (node, chunk, each)
            for each in queries
            for node, size in self._sizes(by_node, each).items()
            for chunk in chunked(by_node[node], size)
        ]
        requests = [ApiRequest(node, each.api, each.fields(chunk)) for node, chunk, each in chunks]
        for (node, chunk, each), outcome in zip(chunks, self._brokers.ask_each(requests), strict=True):
            self._take_outcome(node, chunk, each, outcome)
        self._forget_stale(*(each.attempt for each in queries))

    def learn(self, nodes: Mapping[str, int]) -> None:
        """Adds the coordinators that a list of groups names to the cache, by group: the broker that lists a group
        coordinates it, or did right now."""
        self._nodes |= nodes

    def seed(self, group: str, answer: ApiResponse) -> None:
        """Adds the response to a `coordinator_request` to the cache. If it names no coordinator, the group is looked up
        again."""
        response = answer.response
        if response.error_code is ErrorCode.none and response.node_id in self._brokers.nodes:
            self._nodes[group] = response.node_id

    def coordinator_of(self, group: str) -> int:
        """Returns the id of the broker that answered for this group."""
        return self._nodes[group]

    def _sizes(self, by_node: Mapping[int, Groups], query: GroupQuery[Any]) -> dict[int, int]:
        """Returns how many groups one request to each broker may cover."""
        versions = self._brokers.versions(by_node, query.api) if query.batched_since else {}
        return {
            node: query.groups_per_request if versions.get(node, 0) >= query.batched_since else 1 for node in by_node
        }

    def _take_outcome(self, node: int, chunk: Groups, query: GroupQuery[Any], outcome: Outcome) -> None:
        answered: Attempt[str, Any] = Attempt()
        error, message = ErrorCode.unknown_server_error, "does not tell of it"
        if isinstance(outcome, ApiResponse):
            query.read(outcome, chunk, answered)
        else:
            error, message = error_of(outcome)
        for group in query.attempt.merge(chunk, answered):
            query.attempt.refuse(group, Resource.GROUP, group, error, f"its coordinator, broker {node}: {message}")

    def _by_node(self, groups: Groups, attempts: Sequence[Attempt[str, Any]]) -> dict[int, Groups]:
        self._find([group for group in groups if group not in self._nodes], attempts)
        by_node: dict[int, Groups] = defaultdict(list)
        for group in groups:
            if group in self._nodes:
                by_node[self._nodes[group]].append(group)
        return by_node

    def _find(self, groups: Groups, attempts: Sequence[Attempt[str, Any]]) -> None:
        for chunk in chunked(groups, KEYS_PER_REQUEST):
            coordinators = self._find_coordinators(chunk)
            for group in chunk:
                for each in attempts:
                    self._take(group, coordinators.get(group), each)
        if any(group in self._nodes and self._nodes[group] not in self._brokers.nodes for group in groups):
            self._refresh()

    def _find_coordinators(self, groups: Groups) -> dict[str, Any]:
        """Finds the coordinators; with one request for each group if the broker does not support batches."""
        answer = self._brokers.ask_any(FIND_COORDINATOR, key_type=GROUP_KEY, key=groups[0], coordinator_keys=groups)
        if answer.version >= BATCHED_SINCE:
            return {each.key: each for each in answer.response.coordinators}
        others = {
            group: self._brokers.ask_any(FIND_COORDINATOR, key_type=GROUP_KEY, key=group, coordinator_keys=[group])
            for group in groups[1:]
        }
        return {groups[0]: answer.response} | {group: each.response for group, each in others.items()}

    def _take(self, group: str, coordinator: Any | None, attempt: Attempt[str, Any]) -> None:
        if coordinator is None:
            attempt.refuse(
                group, Resource.GROUP, group, ErrorCode.coordinator_not_available, "no coordinator is told of it"
            )
        elif coordinator.error_code is not ErrorCode.none:
            attempt.refuse(group, Resource.GROUP, group, coordinator.error_code, coordinator.error_message)
        else:
            self._nodes[group] = coordinator.node_id

    def _forget_stale(self, *attempts: Attempt[str, Any]) -> None:
        wrong = {group for each in attempts for group, refusal in each.refused.items() if refusal.error in RETRIABLE}
        for group in wrong:
            self._nodes.pop(group, None)
        if wrong:
            self._refresh()

    def _refresh(self) -> None:
        with suppress(ConnectionError):  # other answers remain valid; unreachable coordinators are named
            self._brokers.refresh()
