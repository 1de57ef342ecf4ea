"""A witness: it records everything that the coordinator of a scene does, and checks each step against it."""

from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.state import MAY_FOLLOW, State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Event, EventType
from kcoord.groups.replies import CommitReply
from kcoord.tickets import Ticket
from tests.support.groups import invariants
from tests.support.groups.scene import Asking, Scene, T

MOVES: Final = {
    EventType.REBALANCING: State.PREPARING_REBALANCE,
    EventType.GENERATION: State.COMPLETING_REBALANCE,
    EventType.STABLE: State.STABLE,
    EventType.EMPTY: State.EMPTY,
}


class Witness:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._waiting: set[Ticket] = set()
        self._states: dict[str, State] = {}
        self._generations: dict[str, int] = {}
        self._members: dict[str, set[str]] = {}
        self._gone: set[tuple[str, str]] = set()
        self._events = 0
        self._records = 0
        self.offsets: dict[tuple[str, str, int], int] = {}  # as acknowledged, by group, topic and partition
        self.replayed = Coordinator(settings=scene.settings, topics=scene.topics, fresh_id=str)

    # Input.

    def asked(self, asking: Asking[T]) -> Asking[T]:
        self._waiting.add(asking.ticket)
        return asking

    def committed(self, group_id: str, reply: CommitReply, offset: int) -> bool:
        """Records a commit; returns whether any of its partitions was acknowledged."""
        good = [
            (group_id, topic.name or "", line.partition_index)
            for topic in reply.topics
            for line in topic.partitions
            if line.error_code is ErrorCode.none
        ]
        self.offsets.update(dict.fromkeys(good, offset))
        return bool(good)

    def offsets_are_gone(self, group_id: str) -> None:
        self.offsets = {key: offset for key, offset in self.offsets.items() if key[0] != group_id}

    def crashed(self) -> None:
        """Drops all parked requests: their connections are lost."""
        self._waiting.clear()

    def started_again(self) -> None:
        """Resets to the replayed state: rebalances that were under way are gone."""
        groups = self._scene.coordinator.groups
        self._states = {group_id: State.STABLE if group.members else State.EMPTY for group_id, group in groups.items()}
        self._generations = {group_id: group.generation for group_id, group in groups.items()}
        self._members = {group_id: set(group.members) for group_id, group in groups.items()}
        self._gone -= {(group_id, member_id) for group_id, members in self._members.items() for member_id in members}

    # Invariants.

    def check(self) -> None:
        coordinator = self._scene.coordinator
        for group in coordinator.groups.values():
            invariants.check_group(group)
        invariants.check_deadlines(coordinator, coordinator.groups.values())
        invariants.check_memory(coordinator)
        self.check_tickets()
        self._check_path()
        self._check_who_is_gone()
        self._check_offsets()
        self._check_log()

    def check_tickets(self) -> None:
        """Every request is answered once, which the scene checks, or is parked on a member."""
        self._waiting -= self._scene.answers.keys()
        assert sorted(invariants.parked_tickets(self._scene.coordinator)) == sorted(self._waiting)

    def _check_path(self) -> None:
        """Transitions are allowed ones, each with its event, and generations only grow."""
        events, self._events = self._scene.events[self._events :], len(self._scene.events)
        for event in events:
            self._follow(event)
        for group_id, group in self._scene.coordinator.groups.items():
            assert group.state is self._states.get(group_id, State.EMPTY), "no change of state without its event"
            assert group.generation == self._generations.get(group_id, 0), "a generation begins with its event"

    def _follow(self, event: Event) -> None:
        if event.what is EventType.DELETED:
            self._states.pop(event.group_id, None)
            self._generations.pop(event.group_id, None)
        elif event.what in MOVES:
            before = self._states.get(event.group_id, State.EMPTY)
            assert MOVES[event.what] in MAY_FOLLOW[before], f"{event.what} in {before}"
            self._states[event.group_id] = MOVES[event.what]
        if event.what in (EventType.GENERATION, EventType.EMPTY):
            before_it = self._generations.get(event.group_id, 0)
            assert event.generation == before_it + 1, "a join phase that ends adds one to the generation"
            self._generations[event.group_id] = event.generation

    def _check_who_is_gone(self) -> None:
        """A member id that was removed from the group never becomes a member again."""
        groups = self._scene.coordinator.groups
        for group_id in groups.keys() | self._members.keys():
            members = set(groups[group_id].members) if group_id in groups else set()
            self._gone |= {(group_id, member_id) for member_id in self._members.get(group_id, set()) - members}
            assert not self._gone & {(group_id, member_id) for member_id in members}
            self._members[group_id] = members

    def _check_offsets(self) -> None:
        stored = {
            (group_id, topic, partition): offset
            for group_id, group in self._scene.coordinator.groups.items()
            for topic, partitions in group.offsets.items()
            for partition, (offset, *_) in partitions.items()
        }
        assert stored == self.offsets, "offsets are those that were acknowledged"

    def _check_log(self) -> None:
        for record in self._scene.records[self._records :]:
            self.replayed.replay(record)
        self._records = len(self._scene.records)
        invariants.check_replayed(self._scene.coordinator.groups, self.replayed.groups)
