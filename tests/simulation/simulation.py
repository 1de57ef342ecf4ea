"""A cluster and its consumers from their first request to the last, all of it from one seed.

First everything goes wrong that can: connections break, processes crash, journals fail, consumers sleep, operators and
intruders interfere. Then calm comes, and within a bounded time every group must be Stable with all live consumers. At
last all consumers die, and nothing may be left of them. After each step the ledger checks all replies against the
records.
"""

from collections.abc import Iterable
from typing import Final

from kcoord.groups.classic.state import State
from kcoord.settings import Settings
from tests.simulation.crowd import Crowd
from tests.simulation.environment import Environment
from tests.simulation.server import Server
from tests.simulation.trouble import Trouble

TIME_TO_STABILIZE: Final = 200.0
TIME_TO_FORGET: Final = 2000.0


class SimulationFailed(AssertionError):
    """An invariant does not hold; the message has the command that reproduces it."""


class Simulation:
    def __init__(self, seed: int, steps: int) -> None:
        self._seed = seed
        self._steps = steps
        self.environment = Environment(seed)
        rng = self.environment.rng
        settings = Settings(
            group_initial_rebalance_delay_ms=rng.choice([0, 0, 3000]),
            group_max_size=rng.choice([3, 1000, 1000, 1000]),
            offsets_retention_minutes=1,
        )
        self.server = Server(self.environment, settings, nodes=rng.choice([1, 1, 2, 3]))
        self.crowd = Crowd(self.environment, self.server, rng.choice([["g"], ["g"], ["g", "h"]]))
        Trouble(self.environment, self.server, self.crowd)

    def run(self) -> None:
        """Raises SimulationFailed."""
        try:
            for _ in range(self._steps):
                self._step()
            self.server.check_log()
            self._stabilize()
            self.server.check_log()
            self._end()
            self.server.check_log()
        except Exception as error:
            raise SimulationFailed(
                f"seed {self._seed} at {self.environment.now:.3f}: {type(error).__name__}: {error}\n"
                f"{self.environment.format_diary(30)}\n"
                f"all of it: KCOORD_SIMULATION_STEPS={self._steps} .venv/bin/python -m tests.simulation {self._seed}"
            ) from error

    def _step(self) -> None:
        tick_at, next_at = self.server.tick_at(), self.environment.next_at()
        if next_at is None or (tick_at is not None and tick_at <= next_at):
            self.server.tick()
        else:
            self.environment.run_next()
        self.server.check()

    def _stabilize(self) -> None:
        self.environment.is_calm = True
        self.environment.note("world", "is calm")
        self.crowd.calm_down()
        limit = self.environment.now + TIME_TO_STABILIZE
        while not self.crowd.is_stable():
            self._step()
            assert self.environment.now < limit, (
                f"not Stable with all members, {TIME_TO_STABILIZE} s after the last trouble"
            )

    def _end(self) -> None:
        self.environment.note("world", "ends")
        self.crowd.end()
        while self.environment.next_at() is not None or self._has_members():
            self._step()
        groups = self.server.groups()
        assert all(group.state is State.EMPTY for group in groups.values())
        self.server.delete_groups()
        self.server.check()
        self.environment.now += TIME_TO_FORGET
        if self.server.tick_at() is not None:
            self.server.tick()
        assert self.server.tick_at() is None, "of groups that are gone nothing is remembered"
        assert not self.server.groups()

    def _has_members(self) -> bool:
        return any(group.members or group.pending for group in self.server.groups().values())


def run_all(seeds: Iterable[int], steps: int) -> None:
    for seed in seeds:
        Simulation(seed, steps).run()
