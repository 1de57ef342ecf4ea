"""Finds the broker that coordinates each group, and batches requests by coordinator."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.retry import PASSING, Round
from kcoord.admin.waiting import Waits
from kcoord.admin.wire.apis import FIND_COORDINATOR, Api
from kcoord.admin.wire.brokers import Answer, Brokers, Outcome, Question, in_chunks, refusing
from kcoord.errors import ErrorCode

Value = TypeVar("Value")
Groups = list[str]

KEYS_PER_REQUEST: Final = 2000
BATCHED_SINCE: Final = 4  # FindCoordinator (KIP-699)
GROUP_KEY: Final = 0


def early_question(group: str) -> Question:
    """Returns the request for the coordinator of this group, to be sent to the first broker together with the first
    Metadata request."""
    return Question(-1, FIND_COORDINATOR, {"key": group})


class Asked(NamedTuple, Generic[Value]):
    """A query to the coordinators of groups. `read` parses each response; failures become refusals in `attempt`.

    A broker that does not support the batched version gets a request for each group.
    """

    told: Round[str, Value]
    api: Api
    fields: Callable[[Groups], Mapping[str, Any]]
    read: Callable[[Answer, Groups, Round[str, Value]], None]
    groups_per_request: int
    batched_since: int = 0


class Coordinators:
    """A cache of the coordinators of groups; an entry is dropped when it turns out to be wrong."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._nodes: dict[str, int] = {}

    @property
    def waits(self) -> Waits:
        """The registry of waits of these connections."""
        return self._brokers.waits

    def ask(self, groups: Groups, *asked: Asked[Any]) -> None:
        """Sends all queries to the coordinators of these groups at once."""
        by_node = self._by_node(groups, [each.told for each in asked])
        chunks = [
            (node, chunk, each)
            for each in asked
            for node, size in self._sizes(by_node, each).items()
            for chunk in in_chunks(by_node[node], size)
        ]
        questions = [Question(node, each.api, each.fields(chunk)) for node, chunk, each in chunks]
        for (node, chunk, each), outcome in zip(chunks, self._brokers.ask_each(questions), strict=True):
            self._take_outcome(node, chunk, each, outcome)
        self._forget_wrong(*(each.told for each in asked))

    def learn(self, nodes: Mapping[str, int]) -> None:
        """Takes over coordinators from a list of groups: the broker that lists a group coordinates it, or did right
        now."""
        self._nodes |= nodes

    def learn_early(self, group: str, answer: Answer) -> None:
        """Takes over the response to the coordinator request that was sent with the first Metadata request. If it names
        no coordinator, the group is looked up again."""
        told = answer.response
        if told.error_code is ErrorCode.none and told.node_id in self._brokers.nodes:
            self._nodes[group] = told.node_id

    def of(self, group: str) -> int:
        """Returns the coordinator that answered for this group."""
        return self._nodes[group]

    def _sizes(self, by_node: Mapping[int, Groups], asked: Asked[Any]) -> dict[int, int]:
        """Returns how many groups one request to each broker may cover."""
        versions = self._brokers.versions(by_node, asked.api) if asked.batched_since else {}
        return {
            node: asked.groups_per_request if versions.get(node, 0) >= asked.batched_since else 1 for node in by_node
        }

    def _take_outcome(self, node: int, chunk: Groups, asked: Asked[Any], outcome: Outcome) -> None:
        answered: Round[str, Any] = Round()
        error, message = ErrorCode.unknown_server_error, "does not tell of it"
        if isinstance(outcome, Answer):
            asked.read(outcome, chunk, answered)
        else:
            error, message = refusing(outcome)
        for group in asked.told.take(chunk, answered):
            asked.told.refuse(group, f"group {group}", error, f"its coordinator, broker {node}: {message}")

    def _by_node(self, groups: Groups, told: Sequence[Round[str, Any]]) -> dict[int, Groups]:
        self._find([group for group in groups if group not in self._nodes], told)
        by_node: dict[int, Groups] = defaultdict(list)
        for group in groups:
            if group in self._nodes:
                by_node[self._nodes[group]].append(group)
        return by_node

    def _find(self, groups: Groups, told: Sequence[Round[str, Any]]) -> None:
        for chunk in in_chunks(groups, KEYS_PER_REQUEST):
            coordinators = self._ask_for(chunk)
            for group in chunk:
                for each in told:
                    self._take(group, coordinators.get(group), each)
        if any(group in self._nodes and self._nodes[group] not in self._brokers.nodes for group in groups):
            self._refresh()

    def _ask_for(self, groups: Groups) -> dict[str, Any]:
        """Finds the coordinators; with one request for each group if the broker does not support batches."""
        answer = self._brokers.ask_any(FIND_COORDINATOR, key_type=GROUP_KEY, key=groups[0], coordinator_keys=groups)
        if answer.version >= BATCHED_SINCE:
            return {each.key: each for each in answer.response.coordinators}
        others = {
            group: self._brokers.ask_any(FIND_COORDINATOR, key_type=GROUP_KEY, key=group, coordinator_keys=[group])
            for group in groups[1:]
        }
        return {groups[0]: answer.response} | {group: each.response for group, each in others.items()}

    def _take(self, group: str, coordinator: Any | None, told: Round[str, Any]) -> None:
        if coordinator is None:
            told.refuse(group, f"group {group}", ErrorCode.coordinator_not_available, "no coordinator is told of it")
        elif coordinator.error_code is not ErrorCode.none:
            told.refuse(group, f"group {group}", coordinator.error_code, coordinator.error_message)
        else:
            self._nodes[group] = coordinator.node_id

    def _forget_wrong(self, *told: Round[str, Any]) -> None:
        wrong = {group for each in told for group, refusal in each.refused.items() if refusal.error in PASSING}
        for group in wrong:
            self._nodes.pop(group, None)
        if wrong:
            self._refresh()

    def _refresh(self) -> None:
        with suppress(ConnectionError):  # other answers remain valid; unreachable coordinators are named
            self._brokers.refresh()
