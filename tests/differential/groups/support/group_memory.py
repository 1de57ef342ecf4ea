"""The state of a sequence's actors on one cluster, and its answers translated to names that both clusters share.

| what                             | becomes                                                                      |
|----------------------------------|------------------------------------------------------------------------------|
| a member id given to an actor    | `actor 3's id #2`: the second that this actor was given                      |
| one that no actor knows          | its beginning and `<new>`: the member is parked, or has hung up              |
| the ids of the sequence's groups | `group 0`                                                                    |
| groups of other sequences        | left out of lists                                                            |
| topic ids, texts, throttling     | as in plain                                                                  |
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum, auto
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.differential.groups.support.group_requests import (
    VERSIONS,
    Ask,
    ChosenProtocol,
    Generation,
    Grids,
    Group,
    MemberId,
    Plan,
    Profile,
    TopicId,
)
from tests.support.differential.difference import in_any_order
from tests.support.differential.pair import unknown_id
from tests.support.differential.plain import Naming, Plain, learn_topics, plain

# Kafka collects these in hash maps.
_unordered: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.OFFSET_COMMIT: ("topics", "partitions"),
    ApiKey.OFFSET_FETCH: ("topics", "partitions"),
    ApiKey.FIND_COORDINATOR: ("coordinators",),
    ApiKey.JOIN_GROUP: ("members",),
    ApiKey.DESCRIBE_GROUPS: ("groups", "members"),
    ApiKey.LIST_GROUPS: ("groups",),
    ApiKey.DELETE_GROUPS: ("results",),
    ApiKey.OFFSET_DELETE: ("topics", "partitions"),
}
_uuid: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Phase(StrEnum):
    """The progress of an actor, according to the responses that it got."""

    OUT = auto()
    INVITED = auto()  # got a member id, and must join with it
    JOINED = auto()
    SYNCED = auto()
    RECALLED = auto()  # must rejoin


_phase_after: Final = {
    ErrorCode.member_id_required: Phase.INVITED,
    ErrorCode.rebalance_in_progress: Phase.RECALLED,
    ErrorCode.illegal_generation: Phase.RECALLED,
    ErrorCode.unknown_member_id: Phase.OUT,
    ErrorCode.fenced_instance_id: Phase.OUT,
}


@dataclass(slots=True)
class ActorState:
    """The state of one actor, as its responses imply it."""

    phase: Phase = Phase.OUT
    ids: list[str] = field(default_factory=list)
    generation: int = -1
    protocol: str | None = None
    led: Sequence[Any] = ()  # the members that it leads


@dataclass(slots=True, kw_only=True)
class Memory:
    naming: Naming
    prefix: str  # of the group ids of the sequence
    grid: float = 1.0
    actors: dict[int, ActorState] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def state_of(self, actor: int) -> ActorState:
        return self.actors.setdefault(actor, ActorState())

    def learn(self, ask: Ask, answer: Any) -> None:
        """Takes over an answer to the state of its actor. All answers that came together are learned before any is
        translated."""
        learn_topics(answer, self.naming)
        state = self.state_of(ask.actor)
        if ask.api_key == ApiKey.JOIN_GROUP:
            self._learn_joined(ask.actor, answer)
        elif ask.api_key == ApiKey.SYNC_GROUP and not answer.error_code:
            state.phase = Phase.SYNCED
        elif ask.api_key in (ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT):
            state.phase = _phase_after.get(answer.error_code, state.phase)
        elif ask.api_key == ApiKey.LEAVE_GROUP and not answer.error_code:
            state.phase = Phase.OUT

    def _learn_joined(self, actor: int, answer: Any) -> None:
        state = self.state_of(actor)
        if answer.error_code not in (ErrorCode.none, ErrorCode.member_id_required):
            state.phase = _phase_after.get(answer.error_code, state.phase)
            return
        if answer.member_id not in state.ids:
            state.ids.append(answer.member_id)
            self._names.setdefault(answer.member_id, f"actor {actor}'s id #{len(state.ids)}")
        state.phase = Phase.JOINED if not answer.error_code else Phase.INVITED
        if not answer.error_code:
            state.generation, state.protocol = answer.generation_id, answer.protocol_name
            state.led = answer.members

    def words(self, api_key: int, answer: Any) -> Plain:
        """Translates an answer to the names that both clusters share."""
        if api_key == ApiKey.LIST_GROUPS:
            listed = tuple(line for line in answer.groups if line.group_id.startswith(self.prefix))
            answer = replace(answer, groups=listed)
        return in_any_order(self._renamed(plain(answer, self.naming)), *_unordered.get(api_key, ()))

    def _renamed(self, value: Plain, field_name: str = "") -> Plain:
        if isinstance(value, dict):
            return {name: self._renamed(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self._renamed(part, field_name) for part in value]
        if field_name in ("member_id", "leader") and value:
            return self.name(value)
        return value.replace(self.prefix, "group ") if isinstance(value, str) else value

    def name(self, member_id: str) -> str:
        return self._names.get(member_id) or _uuid.sub("<new>", member_id)

    def resolved(self, value: Any) -> Any:
        """Replaces the names in a request by the values of this cluster."""
        match value:
            case Group(number, more):
                return f"{self.prefix}{number}{more}"
            case MemberId(actor, back):
                ids = self.state_of(actor).ids
                return ids[-1 - back] if back < len(ids) else ""
            case Generation(actor, plus):
                return self.state_of(actor).generation + plus
            case ChosenProtocol(actor):
                return self.state_of(actor).protocol
            case TopicId(topic):
                name = f"topic {topic}"
                return self.naming.value(name) if self.naming.knows(name) else unknown_id
            case Grids(count):
                return timedelta(seconds=count * self.grid)
            case Plan():
                return self._plan(value)
            case Mapping():
                return {name: self.resolved(part) for name, part in value.items()}
            case list() | tuple():
                return [self.resolved(part) for part in value]
        return value

    def _plan(self, plan: Plan) -> list[dict[str, Any]]:
        state = self.state_of(plan.actor)
        ids = {self.name(member.member_id): member.member_id for member in state.led}
        ids |= {f"stranger {number}": f"stranger {number}" for number in range(plan.strangers)}
        return [
            {"member_id": ids[name], "assignment": f"for {name} in generation {state.generation}".encode()}
            for name in sorted(ids)[plan.leave_out :]
        ]


def next_request(actor: int, profile: Profile, state: ActorState, dial: int) -> Ask:
    """Returns the request that a real client in this state would send."""
    match state.phase:
        case Phase.OUT:
            api_key, values = ApiKey.JOIN_GROUP, profile.join()
        case Phase.INVITED | Phase.RECALLED:
            api_key, values = ApiKey.JOIN_GROUP, profile.join(MemberId(actor))
        case Phase.JOINED:
            described = {"protocol_type": profile.protocol_type, "protocol_name": ChosenProtocol(actor)}
            api_key, values = ApiKey.SYNC_GROUP, profile.as_member(actor, assignments=Plan(actor), **described)
        case Phase.SYNCED:
            api_key, values = ApiKey.HEARTBEAT, profile.as_member(actor)
    served = profile.join_versions if api_key == ApiKey.JOIN_GROUP else VERSIONS[api_key]
    return Ask(actor=actor, api_key=api_key, version=served[dial % len(served)], values=values)
