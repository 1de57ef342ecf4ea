"""Differences between two clusters that are both correct.

Kafka leaves two choices to a hash table. After them the two clusters may diverge; such a sequence is replayed, with new
ids, until both choose the same.

| choice                                                | facts               |
|-------------------------------------------------------|---------------------|
| which rejoined member leads, if the leader did not    | J-038, L-023, T-109 |
| which protocol, if several have the most votes        | J-041               |

A protocol is also selected when a static member comes back: only if it is another one, there is a rebalance.

And Kafka never answers some requests, which kcoord does (see docs/deviations.md): a JoinGroup or SyncGroup that is
parked while the same member sends another, and a SyncGroup that is parked while its member is removed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.differential.groups.support.group_requests import Ask, Group
from tests.differential.groups.support.group_side import GroupSide, StepResult
from tests.support.differential.plain import Plain


class ChoseDifferently(Exception):
    """Both clusters were free to choose, and chose differently."""


@dataclass(slots=True)
class Choices:
    """The parts of earlier answers that decide whether a choice was free."""

    _leaders: dict[str, str] = field(default_factory=dict)  # by group
    _offers: dict[str, Sequence[str]] = field(default_factory=dict)  # the protocols of each member
    _members: dict[str, Sequence[Plain]] = field(default_factory=dict)  # by group, as last described

    def learn_parked(self, ask: Ask, member: str) -> None:
        """Learns the protocols of a member whose JoinGroup is parked, and that may hang up before the response. A new
        member has no name yet."""
        if ask.api_key == ApiKey.JOIN_GROUP:
            names = [member] if member else [f"actor-{ask.actor}-<new>", f"{ask.values['group_instance_id']}-<new>"]
            self._offers |= dict.fromkeys(names, _offered(ask))

    def learn(self, outcome: Plain, asks: Mapping[int, Ask]) -> None:
        self._members = {group["group_id"]: group["members"] for group in outcome["groups"]}
        self._learn_joins(outcome, asks)

    def _learn_joins(self, outcome: Plain, asks: Mapping[int, Ask]) -> None:
        for number, answer in _joins(outcome, asks).items():
            self._leaders[_group(asks[number])] = answer["leader"]
            self._offers[answer["member_id"]] = _offered(asks[number])

    def explain(self, kafka: Plain, kcoord: Plain, asks: Mapping[int, Ask], newest: Ask | None) -> bool:
        """Whether the outcomes are equal except for free choices; `newest` is the request of the last step."""
        if newest and newest.api_key == ApiKey.JOIN_GROUP and self._leaves_a_tie(newest):
            return True
        if _without_choices(kafka, asks) != _without_choices(kcoord, asks):
            return False
        before = dict(self._leaders)
        self._learn_joins(kafka, asks)
        joins = _joins(kafka, asks)
        groups = {_group(asks[number]) for number in joins}
        return all(
            self._is_free([_Joined.of(outcome, asks, group) for outcome in (kafka, kcoord)], before.get(group, ""))
            for group in groups
        )

    def _leaves_a_tie(self, join: Ask) -> bool:
        """Whether a static member that returns gives another protocol as many votes as the current one."""
        instance, group = join.values["group_instance_id"], join.values["group_id"]
        if instance is None or join.values["member_id"] or not isinstance(group, Group):
            return False
        members = self._members.get(f"group {group.number}", ())
        others = [member["member_id"] for member in members if member["group_instance_id"] != instance]
        votes = _votes([*(self._offers.get(member, ()) for member in others), _offered(join)])
        return len(others) < len(members) and list(votes.values()).count(max(votes.values(), default=0)) > 1

    def _is_free(self, joined: "list[_Joined]", leader_before: str) -> bool:
        kafka, kcoord = joined
        if kafka.members and kcoord.members and kafka.members != kcoord.members:
            return False
        if kafka.leader != kcoord.leader and leader_before in kafka.came:
            return False
        votes = _votes([self._offers.get(member, ()) for member in kafka.members or kcoord.members])
        return kafka.protocol == kcoord.protocol or votes[kafka.protocol] == votes[kcoord.protocol] > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """The JoinGroup responses of the members of a group."""

    came: frozenset[str]
    leader: str
    protocol: str
    members: Sequence[str]  # empty if the leader has closed its connection

    @classmethod
    def of(cls, outcome: Plain, asks: Mapping[int, Ask], group: str) -> "_Joined":
        answers = [answer for number, answer in _joins(outcome, asks).items() if _group(asks[number]) == group]
        return cls(
            came=frozenset(answer["member_id"] for answer in answers),
            leader=answers[-1]["leader"],
            protocol=answers[-1]["protocol_name"],
            members=sorted(member["member_id"] for answer in answers for member in answer["members"]),
        )


def forgotten_by_kafka(kafka_side: GroupSide, kafka: StepResult, kcoord: StepResult) -> list[int]:
    """Returns the requests that kcoord has answered and that Kafka never will."""
    parked = kafka_side.parked()
    newest = max([*parked, *kafka.answers], default=0)
    newer = parked.get(newest) or (kafka.answers[newest][0] if newest else None)

    def is_forgotten(number: int, error: ErrorCode) -> bool:
        request = parked[number]
        is_superseded = newer is not None and newer.number != number and newer.member_id == request.member_id
        if is_superseded and error == ErrorCode.rebalance_in_progress:
            return True
        is_sync = request.ask.api_key == ApiKey.SYNC_GROUP
        return is_sync and error == ErrorCode.unknown_member_id and not kafka.has_member(request.member_id)

    only_kcoord = [number for number in kcoord.answers if number in parked]
    return [number for number in only_kcoord if is_forgotten(number, kcoord.answers[number][1].error_code)]


def _votes(offers: Sequence[Sequence[str]]) -> Counter[str]:
    """Counts how many members prefer each of the protocols that all of them support."""
    candidates = set.intersection(*map(set, offers)) if offers else set()
    return Counter(next(name for name in offer if name in candidates) for offer in offers if candidates)


def _offered(join: Ask) -> list[str]:
    return [offer["name"] for offer in join.values["protocols"]]


def _joins(outcome: Plain, asks: Mapping[int, Ask]) -> dict[int, Plain]:
    return {
        number: answer
        for number, answer in outcome["answers"].items()
        if asks[number].api_key == ApiKey.JOIN_GROUP and isinstance(answer, dict) and answer["error_code"] == "none"
    }


def _without_choices(outcome: Plain, asks: Mapping[int, Ask]) -> Plain:
    joins = _joins(outcome, asks)
    masked = {number: {**answer, "leader": "", "protocol_name": "", "members": []} for number, answer in joins.items()}
    return {**outcome, "answers": {**outcome["answers"], **masked}}


def _group(ask: Ask) -> str:
    return str(ask.values["group_id"])
