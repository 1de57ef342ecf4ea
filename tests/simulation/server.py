"""The real runtime on simulated links, with journals that fail and a process that crashes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final
from uuid import UUID

from kcoord.broker import cluster as embedded
from kcoord.broker.cluster import Cluster, NodeId
from kcoord.broker.describing import coordinator_of
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.group import Group
from kcoord.groups.records import Record
from kcoord.groups.replies import Reply
from kcoord.groups.requests import DeleteGroups
from kcoord.journal.journal import CannotAppend
from kcoord.journal.memory import MemoryJournal
from kcoord.server.group_runtime import ClusterTopics, GroupRuntime
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.simulation.ledger import Ledger
from tests.simulation.link import Call, Link
from tests.simulation.world import World

TOPICS: Final = {"orders": 4, "payments": 3}


class FlakyJournal(MemoryJournal):
    """Keeps all that it took, over every crash; sometimes it takes nothing."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__()
        self._world = world
        self._ledger = ledger

    def append(self, records: Sequence[Record]) -> None:
        if self._world.goes_wrong(0.015):
            self._world.note("journal", "takes nothing")
            raise CannotAppend("no space left on this imagined device")
        super().append(records)
        self._ledger.keep(records)

    def recover(self) -> Iterable[Record]:
        self._ledger.go_back()
        return super().recover()


class Server:
    """All nodes of a cluster, which are one process."""

    def __init__(self, world: World, settings: Settings, nodes: int) -> None:
        self._world = world
        self._topics_made = count(1)
        self.cluster = Cluster(
            cluster_id="simulated",
            nodes=[embedded.Node(node_id=NodeId(number), host="host", port=number) for number in range(1, nodes + 1)],
            settings=settings,
            fresh_id=lambda: UUID(int=next(self._topics_made)),
        )
        for name in TOPICS:
            self._create_topic(name)
        replayed = Coordinator(settings=settings, topics=ClusterTopics(self.cluster), fresh_id=str)
        self.ledger = Ledger(self._group, replayed)
        self._journals = {node_id: FlakyJournal(world, self.ledger) for node_id in self.cluster.nodes}
        self._ids = count(1)
        self._tickets = count(1)
        self._links: list[Link] = []
        self._parked: dict[Ticket, tuple[Link, Call]] = {}
        self._is_settling = False
        self._lateness = 0.0
        self._start()

    # What clients see.

    def node_of(self, group_id: str) -> NodeId:
        return coordinator_of(self.cluster, group_id).node_id

    def connect(self, node_id: int, on_closed: Callable[[Link], None]) -> Link:
        link = Link(self._world, self, node_id, on_closed)
        self._links = [each for each in self._links if each.is_open] + [link]
        return link

    def decide(self, link: Link, call: Call) -> Reply | None:
        ticket = Ticket(next(self._tickets))
        self.ledger.ask(ticket, call)
        self._parked[ticket] = (link, call)
        reply = self._runtime.decide(NodeId(link.node_id), call.decide, call.request, ticket, self._world.instant())
        if reply is not None:
            del self._parked[ticket]
            self.ledger.answer(ticket, reply)
        self._world.note(call.who, call.request, reply)
        self._settle()
        return reply

    # Time.

    def tick_at(self) -> float | None:
        """A busy process is late."""
        deadline = self._runtime.deadline()
        return None if deadline is None else deadline + self._lateness

    def tick(self) -> None:
        at = self.tick_at()
        assert at is not None
        self._world.now = max(self._world.now, at)
        self._lateness = self._world.rng.uniform(0, 3) if self._world.goes_wrong(0.1) else 0.0
        self._runtime.tick(self._world.instant())
        deadline = self._runtime.deadline()
        assert deadline is None or deadline > self._world.now, "after a tick, the next deadline is in the future"
        self._settle()

    # What befalls it.

    def crash(self) -> None:
        """Everything in memory is lost: who waits hears nothing more, and looks for a coordinator again."""
        self._world.note("server", "crashes")
        links, self._links = self._links, []
        for link in links:
            link.forget()
            self._world.later(self._world.rng.uniform(0, 0.1), link.drop)  # answers that were sent may arrive before
        self._parked.clear()
        self.ledger.forget_waiting()
        if self._world.goes_wrong(0.3):
            self.cluster.settings = replace(self.cluster.settings, group_max_size=self._world.rng.choice([3, 1000]))
        self._start()

    def drop_some_link(self) -> None:
        links = [link for link in self._links if link.is_open]
        if links:
            self._world.rng.choice(links).drop()

    def make_topic_anew(self, name: str) -> None:
        """Deleted and created with the same name, as an operator does who wants it empty."""
        topic = self.cluster.topics[name]
        self.cluster.delete_topic(topic)
        self._runtime.topic_deleted(name, topic.topic_id, self._world.instant())
        self._create_topic(name)
        self._settle()

    def expire_offsets(self) -> None:
        self._runtime.expire_offsets(self._world.instant())
        self._settle()

    def delete_groups(self) -> None:
        """All of them, as an operator does."""
        for node_id in self.cluster.nodes:
            group_ids = tuple(self._runtime._coordinators[node_id].groups)
            call = Call(
                who="operator",
                decide=Coordinator.delete_groups,
                request=DeleteGroups(group_ids=group_ids),
                then=lambda reply: None,
            )
            self.decide(Link(self._world, self, node_id, lambda link: None), call)

    # What the simulation sees.

    def coordinators(self) -> Iterable[Coordinator]:
        return self._runtime._coordinators.values()

    def groups(self) -> dict[str, Group]:
        return {group_id: group for each in self.coordinators() for group_id, group in each.groups.items()}

    def check(self) -> None:
        self.ledger.check(self.coordinators())

    def _group(self, group_id: str) -> Group:
        return self._runtime._coordinators[self.node_of(group_id)].groups[group_id]

    def _start(self) -> None:
        self._runtime = GroupRuntime(self.cluster, lambda: f"{next(self._ids):036d}", self._journals.__getitem__)
        self._runtime.recover(self._world.instant())
        self._settle()

    def _settle(self) -> None:
        """Send the replies to what was parked. One of them may let a connection go on, which settles again."""
        if self._is_settling:
            return
        self._is_settling = True
        while replies := self._runtime.take_replies():
            for ticket, reply in replies:
                self.ledger.answer(ticket, reply)
            for ticket, reply in replies:
                link, call = self._parked.pop(ticket)
                self._world.note(call.who, call.request, reply)
                link.answer(call, reply)
        self._is_settling = False

    def _create_topic(self, name: str) -> None:
        self.cluster.create_topic(name, self.cluster.spread(0, TOPICS[name], 1), {}, self._world.instant().wall_ms)
