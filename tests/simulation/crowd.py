"""All consumers of a simulation. A dead consumer is restarted some time later, as by a supervisor."""

from collections.abc import Sequence
from typing import Final

from kcoord.groups.classic.state import State
from tests.simulation.consumer import Consumer, Traits
from tests.simulation.environment import Environment
from tests.simulation.server import Server

SUBSCRIPTIONS: Final = (("orders",), ("payments",), ("orders", "payments"))


class Crowd:
    def __init__(self, environment: Environment, server: Server, groups: Sequence[str]) -> None:
        self._environment = environment
        self._server = server
        self._traits = [self._some_traits(number, groups) for number in range(environment.rng.randint(2, 6))]
        self._consumers: dict[str, Consumer] = {}
        self._zombies: list[Consumer] = []  # a duplicate with the same instance id was started
        self._rests_until = 0.0
        self._is_over = False
        for traits in self._traits:
            self._start(traits)
        self._supervise()

    def somebody(self) -> Consumer:
        return self._environment.rng.choice(list(self._consumers.values()))

    def topics(self) -> tuple[str, ...]:
        return self._environment.rng.choice(SUBSCRIPTIONS)

    def start_duplicate(self, consumer: Consumer) -> None:
        """Starts the same consumer twice: an operator's mistake."""
        self._zombies.append(consumer)
        self._start(consumer.traits)

    def end_all(self, pause: float) -> None:
        """Ends all consumers for a while, as when a service is taken down."""
        self._rests_until = self._environment.now + pause
        for consumer in self._consumers.values():
            consumer.end()

    def calm_down(self) -> None:
        for zombie in self._zombies:
            zombie.end()

    def end(self) -> None:
        self._is_over = True
        self.end_all(0.0)

    def is_stable(self) -> bool:
        """Whether every group is Stable, all live consumers are members, and each has its assignment of the plan."""
        groups = {traits.group_id for traits in self._traits}
        return all(self._is_group_stable(group_id) for group_id in groups)

    def _is_group_stable(self, group_id: str) -> bool:
        group = self._server.groups().get(group_id)
        if group is None or group.state is not State.STABLE or group.pending:
            return False
        alive = [each for each in self._consumers.values() if each.traits.group_id == group_id]
        present = [each for each in alive if each.is_in_group and each.generation == group.generation]
        if len(present) < min(len(alive), self._server.cluster.settings.group_max_size):
            return False
        return {each.member_id: each.assignment for each in present} == {
            member.member_id: member.assignment for member in group.members.values()
        }

    def _supervise(self) -> None:
        if self._is_over:
            return
        for traits in self._traits:
            consumer = self._consumers.get(traits.name)
            is_due = self._environment.is_calm or (
                self._environment.now >= self._rests_until and self._environment.rng.random() < 0.4
            )
            if is_due and (consumer is None or not consumer.is_alive):
                self._start(traits)
        self._environment.later(2.0, self._supervise)

    def _start(self, traits: Traits) -> None:
        self._environment.note(traits.name, "starts")
        self._consumers[traits.name] = Consumer(self._environment, self._server, traits, self.topics())

    def _some_traits(self, number: int, groups: Sequence[str]) -> Traits:
        rng = self._environment.rng
        return Traits(
            name=f"c{number}",
            group_id=groups[number % len(groups)],
            instance_id=f"i{number}" if rng.random() < 0.4 else None,
            session_timeout=rng.choice([6.0, 8.0, 12.0]),
            rebalance_timeout=rng.choice([3.0, 6.0, 10.0, 15.0]),
            prefers_sticky=rng.random() < 0.5,
            is_garbled=rng.random() < 0.08,
            needs_known_id=rng.random() < 0.8,
            can_skip_assignment=rng.random() < 0.5,
            is_two_handed=rng.random() < 0.3,
        )
