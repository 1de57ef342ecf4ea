"""The actors of one sequence, on a real Kafka and on kcoord, and the comparison of both after each step."""

from collections.abc import Mapping, Sequence
from typing import Any

from kcoord.api_keys import ApiKey
from tests.differential.groups.support.group_choices import Choices, ChoseDifferently, forgotten_by_kafka
from tests.differential.groups.support.group_memory import Phase, next_request
from tests.differential.groups.support.group_requests import (
    Ask,
    ChosenProtocol,
    GoOn,
    Grids,
    Group,
    HangUp,
    MemberId,
    Plan,
    Profile,
    Step,
    Wait,
    leave_of,
)
from tests.differential.groups.support.group_side import GroupSide
from tests.differential.groups.support.group_times import Clock
from tests.support.differential.difference import Differs, explain_answers
from tests.support.differential.plain import Plain

parked = "<parked>"


class GroupPair:
    """`take(step)` raises Differs, or returns what both clusters have answered since the step before."""

    def __init__(self, kafka: GroupSide, kcoord: GroupSide, actors: Sequence[Profile] = (Profile(),) * 9) -> None:
        self.kafka, self.kcoord = kafka, kcoord
        self.actors = actors
        for side in (kafka, kcoord):
            side.watch(max(2, *(profile.group + 1 for profile in actors)))
        self.taken: list[str] = []
        self.came: Mapping[int, Plain] = {}
        self._asks: dict[int, Ask] = {}
        self._choices = Choices()
        self._clock = Clock(kafka.memory.grid)
        self._is_timed = any(isinstance(each.session_timeout, Grids) for each in actors)

    def ask(self, actor: int, api_key: ApiKey, version: int, /, **values: Any) -> Plain:
        """Returns the answer to this request, or `parked`; `came` has all answers of the step."""
        outcome = self.take(Ask(actor=actor, api_key=api_key, version=version, values=values))
        self.came = outcome["answers"]
        return self.came.get(len(self.taken), parked)

    def join(self, actor: int, version: int, member_id: Any = "", /, **changed: Any) -> Plain:
        return self.ask(actor, ApiKey.JOIN_GROUP, version, **self.actors[actor].join(member_id, **changed))

    def sync(self, actor: int, version: int, /, **changed: Any) -> Plain:
        profile = self.actors[actor]
        described = {"protocol_type": profile.protocol_type, "protocol_name": ChosenProtocol(actor)}
        values = {"assignments": Plan(actor), **described, **changed}
        return self.ask(actor, ApiKey.SYNC_GROUP, version, **profile.as_member(actor, **values))

    def heartbeat(self, actor: int, version: int, /, **changed: Any) -> Plain:
        return self.ask(actor, ApiKey.HEARTBEAT, version, **self.actors[actor].as_member(actor, **changed))

    def make_stable(self, *actors: int) -> None:
        """Lets these actors join and sync until a heartbeat of each succeeds."""
        for _ in range(20):
            were_done = [self.kafka.memory.state_of(actor).phase is Phase.SYNCED for actor in actors]
            for actor in actors:
                if not self.kafka.is_waiting(actor):
                    self.take(next_request(actor, self.actors[actor], self.kafka.memory.state_of(actor), dial=-1))
            if all(were_done) and all(self.kafka.memory.state_of(actor).phase is Phase.SYNCED for actor in actors):
                return
        raise AssertionError("the group did not become stable")

    def take(self, step: Step) -> Plain:
        __tracebackhide__ = True
        number = len(self.taken) + 1
        match step:
            case Ask():
                self._ask(number, step)
            case GoOn():
                self._go_on(number, step)
            case HangUp():
                self.taken.append(f"actor {step.actor} hangs up")
                for side in (self.kafka, self.kcoord):
                    side.hang_up(step.actor)
            case Wait():
                self.taken.append("wait")
                self._clock.wait()
        return self._compare_step()

    def wait_for_all(self) -> Mapping[int, Plain]:
        """Returns the answers to all parked requests, once their timers have expired."""
        for side in (self.kafka, self.kcoord):
            side.wait_for_all()
        answers: Mapping[int, Plain] = self._compare_step()["answers"]
        return answers

    def delete_groups(self) -> None:
        for side in (self.kafka, self.kcoord):
            side.delete_groups()

    def _ask(self, number: int, ask: Ask) -> None:
        self.taken.append(str(ask))
        self._asks[number] = ask
        for side in (self.kafka, self.kcoord):
            side.ask(number, ask)

    def _go_on(self, number: int, step: GoOn) -> None:
        idle = [actor for actor in range(len(self.actors)) if not self.kafka.is_waiting(actor)]
        if not idle:
            # Remove a member that will not rejoin: an id that an actor was given and no longer uses.
            actor = step.turn % len(self.actors)
            values = leave_of(Group(self.actors[actor].group), (MemberId(actor, back=step.dial % 3), None))
            self._ask(number, Ask(actor=actor, api_key=ApiKey.LEAVE_GROUP, version=step.dial % 6, values=values))
            return
        actor = idle[step.turn % len(idle)]
        self._ask(number, next_request(actor, self.actors[actor], self.kafka.memory.state_of(actor), step.dial))

    def _compare_step(self) -> Plain:
        __tracebackhide__ = True
        kafka, kcoord = self.kafka.drain(), self.kcoord.drain()
        for number in forgotten_by_kafka(self.kafka, kafka, kcoord):
            del kcoord.answers[number]
            self.kafka.forget(number)
        kafka_outcome, kcoord_outcome = self.kafka.outcome(kafka), self.kcoord.outcome(kcoord)
        if kafka_outcome != kcoord_outcome:
            if self._is_timed:
                self._clock.check()
            if self._choices.explain(kafka_outcome, kcoord_outcome, self._asks, self._asks.get(len(self.taken))):
                raise ChoseDifferently
            raise Differs(self._explained(kafka_outcome, kcoord_outcome))
        self._choices.learn(kcoord_outcome, self._asks)
        for request in self.kafka.parked().values():
            self._choices.learn_parked(request.ask, self.kafka.memory.name(request.member_id))
        return kcoord_outcome

    def _explained(self, kafka: Plain, kcoord: Plain) -> str:
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(self.taken, start=1))
        return (
            f"{steps}\nafter the last step the answers differ:\n{explain_answers(_labelled(kafka), _labelled(kcoord))}"
        )


def _labelled(outcome: Plain) -> Plain:
    answers: Mapping[int, Plain] = outcome["answers"]
    return {**outcome, "answers": {f"to step {number}": answer for number, answer in answers.items()}}
