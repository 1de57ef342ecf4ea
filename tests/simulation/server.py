"""The real runtime on simulated links, with journals that fail and a process that crashes."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

from kcoord.broker import cluster as embedded
from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId
from kcoord.broker.describe_cluster import coordinator_of
from kcoord.broker.log.storage import MemoryStore, PassingStorage
from kcoord.broker.offsets_topic import make_offsets_topic
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.prevalidated import StandingCommit, StandingJoin, StandingSync
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.records import Record, StoredAgain, UsualPlaces
from kcoord.groups.replies import Reply
from kcoord.groups.requests import Commit, DeleteGroups, Join, Sync
from kcoord.offsets_log.decoding import FactReader, Unreadable
from kcoord.offsets_log.group_log import Appending, GroupLog
from kcoord.server.groups.cluster_topics import ClusterTopics
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.settings import Settings
from kcoord.storage import cleaner
from kcoord.storage.cleaner import Compacted, compact
from kcoord.tickets import WAITS, Ticket
from tests.simulation.ledger import Ledger
from tests.simulation.link import Call, Link
from tests.simulation.world import World

TOPICS: Final = {"orders": 4, "payments": 3}
STAND: Final[dict[Any, Any]] = {
    Coordinator.heartbeat: Coordinator.stand_heartbeat,
    Coordinator.commit: Coordinator.stand_commit,
    Coordinator.join: Coordinator.stand_join,
    Coordinator.sync: Coordinator.stand_sync,
}


class FlakyStore(MemoryStore):
    """A store that survives every crash; sometimes an append fails."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def append(self, content: bytearray) -> None:
        if self._world.goes_wrong(0.015):
            self._world.note("disk", "takes nothing")
            raise OSError(28, "no space left on this imagined device")
        super().append(content)


class WatchedLog(GroupLog):
    """A group log that reports stored records to the ledger."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        super().__init__(cluster)
        self._ledger = ledger
        self._waiting: list[Record] = []

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        super().append(records, now_ms)
        self._waiting += records

    def appending(self, places: UsualPlaces) -> Appending:
        plain = super().appending(places)
        return _Noted(self, plain)

    def note(self, record: Record) -> None:
        self._waiting.append(record)

    def flush(self, now_ms: int) -> dict[int, str]:
        waiting, self._waiting = self._waiting, []
        failed = super().flush(now_ms)
        self._ledger.keep([record for record in waiting if self.partition_of(record.group_id) not in failed])
        return failed


class _Noted(Appending):
    def __init__(self, log: WatchedLog, plain: Appending) -> None:
        super().__init__(plain._pending, plain._partition, plain._way)
        self._log = log

    def append(self, record: StoredAgain, now_ms: int) -> None:
        super().append(record, now_ms)
        self._log.note(record)


class Server:
    """A server process with all nodes of a cluster."""

    def __init__(self, world: World, settings: Settings, nodes: int) -> None:
        self._world = world
        self._topics_made = count(1)
        self.cluster = Cluster(
            cluster_id="simulated",
            nodes=[embedded.Node(node_id=NodeId(number), host="host", port=number) for number in range(1, nodes + 1)],
            settings=settings,
            fresh_id=lambda: UUID(int=next(self._topics_made)),
            storage=PassingStorage(lambda: FlakyStore(world)),
        )
        for name in TOPICS:
            self._create_topic(name)
        replayed = Coordinator(settings=settings, topics=ClusterTopics(self.cluster), fresh_id=str)
        self.ledger = Ledger(self._group, replayed)
        make_offsets_topic(self.cluster, world.instant().wall_ms)
        self._ids = count(1)
        self._tickets = count(1)
        self._links: list[Link] = []
        self._parked: dict[Ticket, tuple[Link, Call]] = {}
        self._is_settling = False
        self._compaction: Generator[None, None, Compacted] | None = None
        self._lateness = 0.0
        self._start()

    # Interface of clients.

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
        reply = self._again(link, call) or self._anew(link, call, ticket)
        self._world.note(call.who, call.request, reply)
        if reply is None:
            self._settle()
        elif self._keep([(ticket, reply)]):
            del self._parked[ticket]
        else:
            reply = None
        return reply

    def _again(self, link: Link, call: Call) -> Reply | None:
        """Returns the reply to a prevalidated heartbeat or commit, as connections do, or None."""
        at, (standing, reply) = self._world.instant(), link.standing.get(_words(call), (None, None))
        if isinstance(standing, StandingJoin | StandingSync):
            return None  # handled by the node in `_anew`
        if isinstance(standing, StandingCommit):
            record = standing.commit(call.request.offsets, at)
            if record is not None:
                self._runtime.keeping(record.places).keep(record, at)
            return None if record is None else reply
        return reply if standing is not None and standing.beat(at.now) else None

    def _anew(self, link: Link, call: Call, ticket: Ticket) -> Reply | None:
        node_id, stand, at = NodeId(link.node_id), STAND.get(call.decide), self._world.instant()
        phase, _ = link.standing.get(_words(call), (None, None))
        told = phase.ask(_varying(call), ticket) if isinstance(phase, StandingJoin | StandingSync) else None
        if told is not None:
            return None if told is WAITS else told
        reply = self._runtime.decide(node_id, call.decide, call.request, ticket, at)
        standing = self._runtime.standing(node_id, stand, call.request, reply) if stand else None
        link.standing[_words(call)] = (standing, reply)
        return reply

    # Time.

    def tick_at(self) -> float | None:
        """Returns when the tick runs, which is late in a busy process."""
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

    # Events from outside.

    def crash(self) -> None:
        """Loses everything in memory: parked requests get no reply, and clients look up the coordinator again."""
        self._world.note("server", "crashes")
        self._end_compaction()
        links, self._links = self._links, []
        for link in links:
            link.forget()
            self._world.later(self._world.rng.uniform(0, 0.1), link.drop)  # answers that were sent may arrive before
        self._parked.clear()
        self.ledger.forget_waiting()
        if self._world.goes_wrong(0.3):
            self.cluster.settings = replace(self.cluster.settings, group_max_size=self._world.rng.choice([3, 1000]))
        self._start()

    def begin_compaction(self) -> None:
        """Begins to compact one log, in steps; the coordinators go on meanwhile."""
        partitions = [partition for partition in self.cluster.topics[OFFSETS_TOPIC].partitions if partition.log.size]
        if partitions and self._compaction is None:
            retention_ms = self._world.rng.choice([0, 60_000])
            at = self._world.instant()
            compacted = self._world.rng.choice(partitions)
            overtaken = self._runtime.overtaken_in(compacted.index)
            self._compaction = compact(compacted.log, overtaken, now_ms=at.wall_ms, delete_retention_ms=retention_ms)
            with patch.object(cleaner, "_LOOK_BYTES", self._world.rng.choice([1, 1 << 14])):  # logs are small here
                self._go_on_compacting()

    def _go_on_compacting(self) -> None:
        if self._compaction is None:
            return
        try:
            next(self._compaction)
        except (StopIteration, OSError) as end:
            self._world.note("compaction", "failed" if isinstance(end, OSError) else end.value)
            self._compaction = None
            self.check_log()
        else:
            self._world.later(self._world.rng.expovariate(1), self._go_on_compacting)

    def _end_compaction(self) -> None:
        if self._compaction is not None:
            self._compaction.close()
        self._compaction = None

    def drop_some_link(self) -> None:
        links = [link for link in self._links if link.is_open]
        if links:
            self._world.rng.choice(links).drop()

    def make_topic_anew(self, name: str) -> None:
        """Deletes the topic and creates it again under the same name, as an operator does to empty it."""
        topic = self.cluster.topics[name]
        self.cluster.delete_topic(topic)
        self._runtime.topic_deleted(name, topic.topic_id, self._world.instant())
        self._create_topic(name)
        self._settle()

    def expire_offsets(self) -> None:
        self._runtime.expire_offsets(self._world.instant())
        self._settle()

    def delete_groups(self) -> None:
        """Deletes all groups, as an operator."""
        for node_id in self.cluster.nodes:
            group_ids = tuple(self._runtime._coordinators[node_id].groups)
            call = Call(
                who="operator",
                decide=Coordinator.delete_groups,
                request=DeleteGroups(group_ids=group_ids),
                then=lambda reply: None,
            )
            self.decide(Link(self._world, self, node_id, lambda link: None), call)

    # Interface of the simulation.

    def coordinators(self) -> Iterable[Coordinator]:
        return self._runtime._coordinators.values()

    def groups(self) -> dict[str, Group]:
        return {group_id: group for each in self.coordinators() for group_id, group in each.groups.items()}

    def check(self) -> None:
        self.ledger.check(self.coordinators())

    def check_log(self) -> None:
        """Checks that the logs, compacted or not, give the stored state."""
        reading = Coordinator(settings=self.cluster.settings, topics=ClusterTopics(self.cluster), fresh_id=str)
        log = GroupLog(self.cluster)
        for index in range(len(log.partitions)):
            for facts in log.read(index, FactReader()):
                for fact in facts:
                    assert not isinstance(fact, Unreadable)
                    reading.replay(fact)
        self.ledger.check_log(reading.groups)

    def _group(self, group_id: str) -> Group:
        return self._runtime._coordinators[self.node_of(group_id)].groups[group_id]

    def _start(self) -> None:
        self._runtime = GroupRuntime(
            self.cluster, lambda: f"{next(self._ids):036d}", lambda cluster: WatchedLog(cluster, self.ledger)
        )
        self._read()

    def _read(self) -> None:
        self.ledger.go_back()
        for _ in self._runtime.read(self._world.instant):
            pass
        self._settle()

    def _settle(self) -> None:
        """Sends the replies to parked requests. One of them may unblock its connection, which calls this again."""
        if self._is_settling:
            return
        self._is_settling = True
        self._keep([])
        self._is_settling = False

    def _keep(self, own: list[tuple[Ticket, Reply]]) -> bool:
        """Flushes, then sends all replies; if the flush fails, breaks the links that they would have gone to."""
        replies = self._runtime.take_replies()
        is_kept = self._runtime.flush(self._world.instant())
        for ticket, reply in own + replies:
            if is_kept:
                self.ledger.answer(ticket, reply)
            else:
                self.ledger.forget(ticket)
        for ticket, reply in replies:
            link, call = self._parked.pop(ticket)
            if is_kept:
                self._world.note(call.who, call.request, reply)
                link.answer(call, reply)
            else:
                link.break_off()
        if not is_kept:
            for ticket, _ in own:
                self._parked.pop(ticket)[0].break_off()
            self._read()
        if self._runtime.outbox:
            self._keep([])
        return is_kept

    def _create_topic(self, name: str) -> None:
        self.cluster.create_topic(name, self.cluster.spread(0, TOPICS[name], 1), {}, self._world.instant().wall_ms)


def _words(call: Call) -> object:
    """Returns the key of a request on its connection: all its fields except the variable ones."""
    match call.request:
        case Commit() as commit:
            return commit._replace(offsets=())
        case Join() as join:
            return join._replace(protocols=tuple((name, len(said)) for name, said in join.protocols))  # type: ignore[misc]
        case Sync() as sync:
            return repr(sync._replace(generation=0))
        case other:
            return repr(other)


def _varying(call: Call) -> Any:
    request = call.request
    return tuple(said for _, said in request.protocols) if isinstance(request, Join) else (request.generation,)
