"""Which broker coordinates a group, and asking each for its own groups, many in one request."""

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
    """Who coordinates this group, to be asked of the first broker that is met."""
    return Question(-1, FIND_COORDINATOR, {"key": group})


class Asked(NamedTuple, Generic[Value]):
    """What is asked of coordinators about their groups, `read` for what each answers; failures are refused in `told`.

    A broker that does not know the version in which many are asked for at once is asked for one at a time.
    """

    told: Round[str, Value]
    api: Api
    fields: Callable[[Groups], Mapping[str, Any]]
    read: Callable[[Answer, Groups, Round[str, Value]], None]
    groups_per_request: int
    batched_since: int = 0


class Coordinators:
    """The coordinators of groups, asked for once and again after one turned out to be wrong."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._nodes: dict[str, int] = {}

    @property
    def waits(self) -> Waits:
        """Where it is said what is waited for."""
        return self._brokers.waits

    def ask(self, groups: Groups, *asked: Asked[Any]) -> None:
        """Ask the coordinators of these groups, all that is asked at once."""
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
        """Who lists a group coordinates it, or did right now."""
        self._nodes |= nodes

    def learn_early(self, group: str, answer: Answer) -> None:
        """What was said of this group when the cluster was met. Where that is no coordinator it is asked for again."""
        told = answer.response
        if told.error_code is ErrorCode.none and told.node_id in self._brokers.nodes:
            self._nodes[group] = told.node_id

    def of(self, group: str) -> int:
        """The coordinator that answered for this group."""
        return self._nodes[group]

    def _sizes(self, by_node: Mapping[int, Groups], asked: Asked[Any]) -> dict[int, int]:
        """How many groups each broker is asked about in one request."""
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
        """What the cluster says of each, one by one where the broker knows no other way."""
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
        with suppress(ConnectionError):  # what the others told stands; whose coordinator is not to be reached is named
            self._brokers.refresh()
