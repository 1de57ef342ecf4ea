"""A group of real clients, its coordinator and its records: the vocabulary of the rebalance scenarios."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tests.clients.group_members.member import Join
from tests.clients.group_members.programs import Programs
from tests.integration.support import group_ledger as ledger
from tests.integration.support.group_coordinator import CoordinatorView
from tests.integration.support.group_ledger import Plan
from tests.integration.support.group_member import Member
from tests.integration.support.group_writer import Writer

T = TypeVar("T")

WAIT = 120.0  # a deadline, not a duration: three clients start on two cores that others may take, too
WATCH_INTERVAL = 0.03
# Longer than any wait of a test: a member that is removed earlier was not removed because its session expired.
LONG = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StableGeneration:
    """A generation in which the coordinator and all members agree."""

    generation: int
    owned: Plan
    """The plan, by the members' names in the scenario; partitions as topic-0."""
    at: float = field(compare=False)

    def shares(self) -> dict[str, int]:
        return {name: len(partitions) for name, partitions in self.owned.items()}


class GroupScene:
    """One group and its topics on a shared cluster."""

    def __init__(self, bootstrap: str, programs: Programs, *, name: str) -> None:
        self.bootstrap, self.group = bootstrap, name
        self.members: list[Member] = []
        self._programs = programs
        self._partitions: dict[str, int] = {}
        self.coordinator = CoordinatorView(bootstrap)
        self.wait_for(lambda: self.coordinator.is_ready(name), "the coordinator")
        self._writer = Writer(bootstrap)
        self._watch = Watch(bootstrap, name)

    @property
    def partitions(self) -> frozenset[str]:
        return frozenset(f"{topic}-{index}" for topic, count in self._partitions.items() for index in range(count))

    def topic(self, suffix: str = "records", *, partitions: int = 4) -> str:
        """Creates a topic that is written to from now on."""
        topic = f"{self.group}-{suffix}"
        self.coordinator.create_topic(topic, partitions)
        self._serve(topic, partitions)
        return topic

    def add_partitions(self, topic: str, *, count: int) -> None:
        self.coordinator.add_partitions(topic, count)
        self._serve(topic, count)

    def start(self, client: str, *names: str, **changes: Any) -> list[Member]:
        """Starts the processes of members in parallel; they join on command."""
        return [self._start(client, name, **changes) for name in names]

    def wait_until_stable(self, *members: Member) -> StableGeneration:
        """Waits until the coordinator and exactly these members report the same complete plan of a generation."""
        return self.wait_for(lambda: self._stable_generation(members), "the group to settle")

    def wait_for(self, find: Callable[[], T | None], what: str, *, timeout: float = WAIT) -> T:
        """Polls until something is found; fails if a member dies before, or after the timeout."""
        deadline = time.monotonic() + timeout
        while not (found := find()):
            for member in self.members:
                assert member.is_running or member.is_killed or member.events("left"), (
                    f"{member} ended by itself\n{self}"
                )
            assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}\n{self}"
            time.sleep(0.02)
        return found

    def wait_for_reads(self, member: Member, *, of: frozenset[str] | None = None) -> None:
        """Waits until the member has read again from each of these partitions, or from each that it owns."""
        wanted = member.owned if of is None else of
        event_count = len(member.events())

        def has_read() -> bool:
            return wanted <= {event.partition for event in member.events()[event_count:] if event.kind == "read"}

        self.wait_for(has_read, f"{member} to read")

    def conclude(self) -> None:
        """Ends a scenario: no record is lost, no partition owned twice, and coordinator and members agree."""
        ends = self._writer.finish()
        self.wait_for(lambda: not ledger.unread(self.members, ends), "every record to be read")
        for member in self.members:
            if member.has_joined and member.is_running:
                member.commit()
        self.wait_for(lambda: self.coordinator.committed(self.group) == ends, f"everything to be committed: {ends}")
        ledger.assert_nobody_owned_twice(self.members)
        ledger.assert_generations_grew(self.members)
        ledger.assert_read_by_owners(self.members)
        ledger.assert_given_back_before_given_on(self.members)
        ledger.assert_the_coordinator_agrees(self.members, self._watch.finish())

    def close(self) -> None:
        self._watch.finish()
        self._writer.close()
        self.coordinator.close()
        for member in self.members:
            member.stop()

    def __str__(self) -> str:
        """Formats the scenario for the report of a failure."""
        seen = self.coordinator.describe(self.group)
        committed = self.coordinator.committed(self.group)
        lines = [f"the coordinator: {seen.state} {dict(seen.assignments)}, committed {committed}"]
        for member in self.members:
            events = [event for event in member.events() if event.kind not in ("read", "committed")]
            lines += [
                f"{member}: {'runs' if member.is_running else 'has ended'}",
                *(f"    {event}" for event in events),
            ]
            lines += [f"    stderr: {member.last_output().partition('stderr:')[2][-2000:]}"]
        return "\n".join(lines)

    def _start(self, client: str, name: str, **changes: Any) -> Member:
        config = Join(
            bootstrap=self.bootstrap,
            group=self.group,
            topics=list(self._partitions),
            client_id=name,
            assignor="range",
            instance_id=None,
            session_timeout_ms=LONG,
            heartbeat_interval_ms=200,
            max_poll_interval_ms=LONG,
            metadata_max_age_ms=LONG,
            commits="each-poll",
        )
        member = Member(self._programs, client=client, name=name, config=replace(config, **changes))
        self.members.append(member)
        return member

    def _serve(self, topic: str, partitions: int) -> None:
        self.wait_for(lambda: self.coordinator.has_partitions(topic, partitions), f"{topic} to be there")
        self._partitions[topic] = partitions
        self._writer.write_to(topic, partitions)

    def _stable_generation(self, members: Sequence[Member]) -> StableGeneration | None:
        described = self.coordinator.describe(self.group)
        if described.state != "Stable":
            return None
        reported = {member.member_id: member.owned for member in members}
        generations = {member.generation for member in members}
        if reported != described.assignments or len(generations) != 1 or _union(reported.values()) != self.partitions:
            return None
        (generation,) = generations
        one = members[0]
        if not self.coordinator.is_at(self.group, generation, one.member_id, one.config.instance_id):
            return None
        return StableGeneration(
            generation=generation, owned={member.name: reported[member.member_id] for member in members}, at=time.time()
        )


class Watch:
    """Polls the coordinator all the time, and records every plan that it shows of a Stable group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._view, self._group = CoordinatorView(bootstrap), group
        self._seen: list[Plan] = []
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def finish(self) -> list[Plan]:
        self._is_done.set()
        self._thread.join()
        self._view.close()
        return self._seen

    def _ask(self) -> None:
        while not self._is_done.wait(WATCH_INTERVAL):
            described = self._view.describe(self._group)
            plan = dict(described.assignments)
            if described.state == "Stable" and self._seen[-1:] != [plan]:
                self._seen.append(plan)


def _union(parts: Any) -> frozenset[str]:
    return frozenset().union(*parts)
