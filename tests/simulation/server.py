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
from kcoord.broker.log.storage import EphemeralStorage, MemoryStore
from kcoord.broker.offsets_topic import make_offsets_topic
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.prevalidated import PrevalidatedCommit, PrevalidatedJoin, PrevalidatedSync
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.groups.replies import Reply
from kcoord.groups.requests import Commit, DeleteGroups, Join, Sync
from kcoord.offsets_log.decoding import FactReader, Unreadable
from kcoord.offsets_log.group_log import CommitAppender, GroupLog
from kcoord.server.groups.cluster_topics import ClusterTopics
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.settings import Settings
from kcoord.storage import cleaner
from kcoord.storage.cleaner import CompactionResult, compact
from kcoord.tickets import WAITS, Ticket
from tests.simulation.environment import Environment
from tests.simulation.ledger import Ledger
from tests.simulation.link import Call, Link

TOPICS: Final = {"orders": 4, "payments": 3}
PREVALIDATE: Final[dict[Any, Any]] = {
    Coordinator.heartbeat: Coordinator.prevalidate_heartbeat,
    Coordinator.commit: Coordinator.prevalidate_commit,
    Coordinator.join: Coordinator.prevalidate_join,
    Coordinator.sync: Coordinator.prevalidate_sync,
}


class FlakyStore(MemoryStore):
    """A store that survives every crash; sometimes an append fails."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self._environment = environment

    def append(self, content: bytearray) -> None:
        if self._environment.goes_wrong(0.015):
            self._environment.note("disk", "takes nothing")
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

    def appender(self, partitions: CommitPartitions) -> CommitAppender:
        plain = super().appender(partitions)
        return _Noted(self, plain)

    def note(self, record: Record) -> None:
        self._waiting.append(record)

    def flush(self, now_ms: int) -> dict[int, str]:
        waiting, self._waiting = self._waiting, []
        failed = super().flush(now_ms)
        self._ledger.append([record for record in waiting if self.partition_of(record.group_id) not in failed])
        return failed


class _Noted(CommitAppender):
    def __init__(self, log: WatchedLog, plain: CommitAppender) -> None:
        super().__init__(plain._pending, plain._partition, plain._encoder)
        self._log = log

    def append(self, record: RepeatedCommit, now_ms: int) -> None:
        super().append(record, now_ms)
        self._log.note(record)


class Server:
    """A server process with all nodes of a cluster."""

    def __init__(self, environment: Environment, settings: Settings, nodes: int) -> None:
        self._environment = environment
        self._topics_made = count(1)
        self.cluster = Cluster(
            cluster_id="simulated",
            nodes=[embedded.Node(node_id=NodeId(number), host="host", port=number) for number in range(1, nodes + 1)],
            settings=settings,
            fresh_id=lambda: UUID(int=next(self._topics_made)),
            storage=EphemeralStorage(lambda: FlakyStore(environment)),
        )
        for name in TOPICS:
            self._create_topic(name)
        replayed = Coordinator(settings=settings, topics=ClusterTopics(self.cluster), fresh_id=str)
        self.ledger = Ledger(self._group, replayed)
        make_offsets_topic(self.cluster, environment.instant().wall_ms)
        self._ids = count(1)
        self._tickets = count(1)
        self._links: list[Link] = []
        self._parked: dict[Ticket, tuple[Link, Call]] = {}
        self._is_draining = False
        self._compaction: Generator[None, None, CompactionResult] | None = None
        self._lateness = 0.0
        self._start()

    # Interface of clients.

    def node_of(self, group_id: str) -> NodeId:
        return coordinator_of(self.cluster, group_id).node_id

    def connect(self, node_id: int, on_closed: Callable[[Link], None]) -> Link:
        link = Link(self._environment, self, node_id, on_closed)
        self._links = [each for each in self._links if each.is_open] + [link]
        return link

    def decide(self, link: Link, call: Call) -> Reply | None:
        ticket = Ticket(next(self._tickets))
        self.ledger.ask(ticket, call)
        self._parked[ticket] = (link, call)
        reply = self._again(link, call) or self._anew(link, call, ticket)
        self._environment.note(call.who, call.request, reply)
        if reply is None:
            self._drain_parked()
        elif self._flush([(ticket, reply)]):
            del self._parked[ticket]
        else:
            reply = None
        return reply

    def _again(self, link: Link, call: Call) -> Reply | None:
        """Returns the reply to a prevalidated heartbeat or commit, as connections do, or None."""
        at, (prevalidated, reply) = self._environment.instant(), link.prevalidated.get(_words(call), (None, None))
        if isinstance(prevalidated, PrevalidatedJoin | PrevalidatedSync):
            return None  # handled by the node in `_anew`
        if isinstance(prevalidated, PrevalidatedCommit):
            record = prevalidated.commit(call.request.offsets, at)
            if record is not None:
                self._runtime.commit_appender(record.partitions).append(record, at)
            return None if record is None else reply
        return reply if prevalidated is not None and prevalidated.heartbeat(at.now) else None

    def _anew(self, link: Link, call: Call, ticket: Ticket) -> Reply | None:
        node_id, prevalidate, at = NodeId(link.node_id), PREVALIDATE.get(call.decide), self._environment.instant()
        phase, _ = link.prevalidated.get(_words(call), (None, None))
        phase_reply = (
            phase.apply(_varying(call), ticket) if isinstance(phase, PrevalidatedJoin | PrevalidatedSync) else None
        )
        if phase_reply is not None:
            return None if phase_reply is WAITS else phase_reply
        reply = self._runtime.decide(node_id, call.decide, call.request, ticket, at)
        prevalidated = self._runtime.prevalidate(node_id, prevalidate, call.request, reply) if prevalidate else None
        link.prevalidated[_words(call)] = (prevalidated, reply)
        return reply

    # Time.

    def tick_at(self) -> float | None:
        """Returns when the tick runs, which is late in a busy process."""
        deadline = self._runtime.deadline()
        return None if deadline is None else deadline + self._lateness

    def tick(self) -> None:
        at = self.tick_at()
        assert at is not None
        self._environment.now = max(self._environment.now, at)
        self._lateness = self._environment.rng.uniform(0, 3) if self._environment.goes_wrong(0.1) else 0.0
        self._runtime.tick(self._environment.instant())
        deadline = self._runtime.deadline()
        assert deadline is None or deadline > self._environment.now, "after a tick, the next deadline is in the future"
        self._drain_parked()

    # Events from outside.

    def crash(self) -> None:
        """Loses everything in memory: parked requests get no reply, and clients look up the coordinator again."""
        self._environment.note("server", "crashes")
        self._end_compaction()
        links, self._links = self._links, []
        for link in links:
            link.forget()
            self._environment.later(
                self._environment.rng.uniform(0, 0.1), link.drop
            )  # answers that were sent may arrive before
        self._parked.clear()
        self.ledger.forget_waiting()
        if self._environment.goes_wrong(0.3):
            self.cluster.settings = replace(
                self.cluster.settings, group_max_size=self._environment.rng.choice([3, 1000])
            )
        self._start()

    def begin_compaction(self) -> None:
        """Begins to compact one log, in steps; the coordinators go on meanwhile."""
        partitions = [partition for partition in self.cluster.topics[OFFSETS_TOPIC].partitions if partition.log.size]
        if partitions and self._compaction is None:
            retention_ms = self._environment.rng.choice([0, 60_000])
            at = self._environment.instant()
            compacted = self._environment.rng.choice(partitions)
            overtaken = self._runtime.superseded_in(compacted.index)
            self._compaction = compact(compacted.log, overtaken, now_ms=at.wall_ms, delete_retention_ms=retention_ms)
            lookup_cost = self._environment.rng.choice([1, 1 << 14])  # logs are small here
            with patch.object(cleaner, "_LOOKUP_COST_BYTES", lookup_cost):
                self._go_on_compacting()

    def _go_on_compacting(self) -> None:
        if self._compaction is None:
            return
        try:
            next(self._compaction)
        except (StopIteration, OSError) as end:
            self._environment.note("compaction", "failed" if isinstance(end, OSError) else end.value)
            self._compaction = None
            self.check_log()
        else:
            self._environment.later(self._environment.rng.expovariate(1), self._go_on_compacting)

    def _end_compaction(self) -> None:
        if self._compaction is not None:
            self._compaction.close()
        self._compaction = None

    def drop_some_link(self) -> None:
        links = [link for link in self._links if link.is_open]
        if links:
            self._environment.rng.choice(links).drop()

    def make_topic_anew(self, name: str) -> None:
        """Deletes the topic and creates it again under the same name, as an operator does to empty it."""
        topic = self.cluster.topics[name]
        self.cluster.delete_topic(topic)
        self._runtime.topic_deleted(name, topic.topic_id, self._environment.instant())
        self._create_topic(name)
        self._drain_parked()

    def expire_offsets(self) -> None:
        self._runtime.expire_offsets(self._environment.instant())
        self._drain_parked()

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
            self.decide(Link(self._environment, self, node_id, lambda link: None), call)

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
        for _ in self._runtime.load(self._environment.instant):
            pass
        self._drain_parked()

    def _drain_parked(self) -> None:
        """Sends the replies to parked requests. One of them may unblock its connection, which calls this again."""
        if self._is_draining:
            return
        self._is_draining = True
        self._flush([])
        self._is_draining = False

    def _flush(self, immediate: list[tuple[Ticket, Reply]]) -> bool:
        """Flushes, then sends all replies; if the flush fails, breaks the links that they would have gone to."""
        replies = self._runtime.take_replies()
        is_flushed = self._runtime.flush(self._environment.instant())
        for ticket, reply in immediate + replies:
            if is_flushed:
                self.ledger.answer(ticket, reply)
            else:
                self.ledger.forget(ticket)
        for ticket, reply in replies:
            link, call = self._parked.pop(ticket)
            if is_flushed:
                self._environment.note(call.who, call.request, reply)
                link.answer(call, reply)
            else:
                link.break_off()
        if not is_flushed:
            for ticket, _ in immediate:
                self._parked.pop(ticket)[0].break_off()
            self._read()
        if self._runtime.outbox:
            self._flush([])
        return is_flushed

    def _create_topic(self, name: str) -> None:
        self.cluster.create_topic(
            name, self.cluster.assign_replicas(0, TOPICS[name], 1), {}, self._environment.instant().wall_ms
        )


def _words(call: Call) -> object:
    """Returns the key of a request on its connection: all its fields except the variable ones."""
    match call.request:
        case Commit() as commit:
            return commit._replace(offsets=())
        case Join() as join:
            return join._replace(protocols=tuple((name, len(subscription)) for name, subscription in join.protocols))  # type: ignore[misc]
        case Sync() as sync:
            return repr(sync._replace(generation=0))
        case other:
            return repr(other)


def _varying(call: Call) -> Any:
    request = call.request
    return (
        tuple(subscription for _, subscription in request.protocols)
        if isinstance(request, Join)
        else (request.generation,)
    )
