"""The coordinators of a cluster's nodes, driven: no reply leaves before the records that it rests on are kept (D4).

    decide, tick, … ─► replies and records are put aside ─► flush ─► the records are kept ─► the replies may leave

The asker has its reply at once, but it is for nobody's eyes until the flush; those to requests that were parked are put
aside in the order in which they were decided.

What could not be kept was not decided: no reply since the last flush is sent, the groups of the partitions that failed
are let go of, and read again from the log (D5). That is how they are read at the start, too: partition by partition,
step by step, so that others are served meanwhile.

No asyncio and no clock here, so that a simulation can drive it as the server does.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects, Event, Happening
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinReply, Reply, SyncReply
from kcoord.journal.decoding import FactReader, Unreadable
from kcoord.journal.group_log import GroupLog, Unsound
from kcoord.tickets import Ticket

log = logging.getLogger("kcoord.groups")

Decide = Callable[[Coordinator, object, Ticket, Instant], Effects | Reply]

_OFFSETS_TOPIC_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
_LONGEST_SHOWN: Final = 200
_ORDINARY: Final = frozenset({Happening.MADE, Happening.ID_GIVEN, Happening.JOINED, Happening.GENERATION})


def make_offsets_topic(cluster: Cluster, now_ms: int) -> None:
    """As a broker does when the first group is asked for. Raises OSError."""
    if OFFSETS_TOPIC not in cluster.topics:
        replicas = cluster.spread(0, cluster.settings.offsets_topic_num_partitions, 1)
        cluster.create_topic(OFFSETS_TOPIC, replicas, dict(_OFFSETS_TOPIC_SETTINGS), now_ms)


class GroupRuntime:
    """The cluster has its offsets topic. What is in it is to be read first: see `unread` and `read`."""

    def __init__(
        self,
        cluster: Cluster,
        fresh_id: Callable[[], str],
        make_log: Callable[[Cluster], GroupLog] = GroupLog,
    ) -> None:
        self._cluster = cluster
        self._fresh_id = fresh_id
        self._log = make_log(cluster)
        self._coordinators = {node_id: self._coordinator(node_id) for node_id in cluster.nodes}
        self._closed: dict[int, ErrorCode] = {}  # partitions whose groups cannot be asked for, and what is said instead
        self._quarantined: dict[str, str] = {}  # groups that cannot be read, and why
        self._is_alone = len(cluster.nodes) == 1
        self.outbox: deque[tuple[Ticket, Reply]] = deque()  # for `next_reply` and `take_replies`
        self.unread: list[int] = []  # partitions that are to be read
        for partition in self._log.partitions:
            if partition.log.size or partition.log.is_failed:
                self._close(partition.index)

    def decide(self, node_id: NodeId, decide: Decide, request: object, ticket: Ticket, at: Instant) -> Reply | None:
        """The reply to this request; None if it is parked. Replies to others wait in the outbox."""
        effects = decide(self._coordinators[node_id], request, ticket, at)
        if not isinstance(effects, Effects):
            return effects
        self._take(effects, at)
        own = None
        for to, reply in effects.replies:
            if to == ticket:
                own = reply
            else:
                self.outbox.append((to, reply))
        return own

    def next_reply(self) -> tuple[Ticket, Reply] | None:
        """The reply to a request that was parked, in the order in which they were decided.

        One at a time where what is done with one may flush: if that fails, the next ones are others.
        """
        return self.outbox.popleft() if self.outbox else None

    def take_replies(self) -> list[tuple[Ticket, Reply]]:
        """All of them."""
        replies, self.outbox = self.outbox, deque()
        return list(replies)

    def flush(self, at: Instant) -> bool:
        """Whether all that was decided is kept. If not, no reply that was taken since the last flush may be sent."""
        failed = self._log.flush(at.wall_ms)
        if failed:
            self._unload(failed, at)
        return not failed

    def flush_was_lost(self, why: str, at: Instant) -> None:
        """What the last flush wrote may not be there."""
        self._unload(dict.fromkeys(self._log.flushed, why), at)

    def _unload(self, failed: Mapping[int, str], at: Instant) -> None:
        """Let go of the groups of these partitions. Whoever waits hears of it; they are to be read again."""
        for index, why in failed.items():
            log.error("unloaded partition=%s why=%r", index, why)
            self._close(index)
        self.outbox = deque(_not_coordinator(self.outbox))
        for coordinator in self._coordinators.values():
            self.outbox += coordinator.unload(at, self._is_in(failed.keys())).replies

    def deadline(self) -> float | None:
        """When to call `tick`."""
        deadlines = [coordinator.deadline() for coordinator in self._coordinators.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, at: Instant) -> None:
        self._for_each(lambda coordinator: coordinator.tick(at), at)

    def expire_offsets(self, at: Instant) -> None:
        if not self.is_reading:  # of a group that is half read, what is known so far may be old
            self._for_each(lambda coordinator: coordinator.expire_offsets(at), at)

    def topic_deleted(self, name: str, topic_id: UUID, at: Instant) -> None:
        self._for_each(lambda coordinator: coordinator.topic_deleted(name, topic_id), at)

    # Reading what was kept.

    @property
    def is_reading(self) -> bool:
        return ErrorCode.coordinator_load_in_progress in self._closed.values()

    def _is_reading_of(self, node_id: NodeId) -> bool:
        return any(
            error is ErrorCode.coordinator_load_in_progress and self._log.partitions[index].leader == node_id
            for index, error in self._closed.items()
        )

    def read(self, now: Callable[[], Instant]) -> Iterator[None]:
        """Read the partitions that are to be read, a step at a time; others are served in between."""
        while self.unread:
            index = self.unread.pop(0)
            try:
                yield from self._read(index, now)
            except Unsound as error:
                log.error("partition=%s: its groups are not served, as it cannot be read why=%r", index, str(error))
                self._coordinator_of(index).unload(now(), self._is_in({index}))
                self._closed[index] = ErrorCode.coordinator_not_available

    def _read(self, index: int, now: Callable[[], Instant]) -> Iterator[None]:
        coordinator, reader, count = self._coordinator_of(index), FactReader(), 0
        for facts in self._log.read(index, reader):
            for fact in facts:
                if isinstance(fact, Unreadable):
                    self._quarantine(fact)
                else:
                    coordinator.replay(fact)
            count += len(facts)
            yield
        is_in = self._is_in({index})
        coordinator.unload(now(), self._quarantined.__contains__)
        effects = coordinator.resume(now(), is_in)
        assert not effects.records
        assert not effects.replies
        _log(effects.events)
        del self._closed[index]
        groups = [group_id for group_id in coordinator.groups if is_in(group_id)]
        log.info("read partition=%s facts=%s groups=%s skipped=%s", index, count, len(groups), reader.skipped)
        if reader.open_transactions:
            log.warning("partition=%s: offsets of open transactions=%s are not served", index, reader.open_transactions)

    def _quarantine(self, fact: Unreadable) -> None:
        if fact.group_id not in self._quarantined:
            log.error("quarantined group=%s: it is neither served nor changed why=%r", _plain(fact.group_id), fact.why)
        self._quarantined[fact.group_id] = fact.why

    def _close(self, index: int) -> None:
        self._closed[index] = ErrorCode.coordinator_load_in_progress
        if index not in self.unread:
            self.unread.append(index)

    def _coordinator_of(self, index: int) -> Coordinator:
        return self._coordinators[self._log.partitions[index].leader]

    def _is_in(self, partitions: Collection[int]) -> Callable[[str], bool]:
        return lambda group_id: self._log.partition_of(group_id) in partitions

    def _for_each(self, happen: Callable[[Coordinator], Effects], at: Instant) -> None:
        for coordinator in self._coordinators.values():
            effects = happen(coordinator)
            self._take(effects, at)
            self.outbox += effects.replies

    def _take(self, effects: Effects, at: Instant) -> None:
        if effects.records:
            try:
                self._log.append(effects.records, at.wall_ms)
            except Exception as bug:  # what was decided must not stay in memory alone
                self._unload({self._log.partition_of(record.group_id): repr(bug) for record in effects.records}, at)
                raise
        if effects.events:
            _log(effects.events)

    def _refusal(self, node_id: NodeId, group_id: str) -> ErrorCode | None:
        """Why this node cannot be asked for the group."""
        if self._is_alone and not self._closed and not self._quarantined:
            return None
        index = self._log.partition_of(group_id)
        if self._log.partitions[index].leader != node_id:
            return ErrorCode.not_coordinator
        if group_id in self._quarantined:
            return ErrorCode.unknown_server_error
        return self._closed.get(index)

    def _coordinator(self, node_id: NodeId) -> Coordinator:
        return Coordinator(
            settings=self._cluster.settings,
            topics=ClusterTopics(self._cluster),
            fresh_id=self._fresh_id,
            refusal=lambda group_id: self._refusal(node_id, group_id),
            is_reading=lambda: self._is_reading_of(node_id),
        )


class ClusterTopics:
    """The cluster's topics as the coordinator asks for them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def topic_id(self, name: str) -> UUID | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        topic = self._cluster.topics.get(name)
        if topic is None or (topic.topic_id is not topic_id and topic.topic_id != topic_id):
            return False
        return partition < len(topic.partitions)

    def partitions_of(self, name: str) -> int:
        topic = self._cluster.topics.get(name)
        return 0 if topic is None else len(topic.partitions)


def _not_coordinator(replies: Iterable[tuple[Ticket, Reply]]) -> list[tuple[Ticket, Reply]]:
    """What those get who waited for what could not be kept. Only joins and syncs wait."""
    error = ErrorCode.not_coordinator
    refused: list[tuple[Ticket, Reply]] = []
    for ticket, reply in replies:
        if isinstance(reply, JoinReply):
            refused.append((ticket, JoinReply(member_id=reply.member_id, error_code=error)))
        elif isinstance(reply, SyncReply):
            refused.append((ticket, SyncReply(error_code=error)))
    return refused


def _log(events: Iterable[Event]) -> None:
    for event in events:
        level = logging.DEBUG if event.what in _ORDINARY else logging.INFO
        if log.isEnabledFor(level):
            log.log(
                level,
                "%s group=%s generation=%s%s%s",
                event.what,
                _plain(event.group_id),
                event.generation,
                f" member={_plain(event.member_id)}" if event.member_id else "",
                f" why={_clipped(event.why)!r}" if event.why else "",
            )


def _plain(name: str) -> str:
    """A name from outside, fit for one line of a log."""
    shown = _clipped(name)
    return shown if shown.isprintable() and " " not in shown else repr(shown)


def _clipped(text: str) -> str:
    """What clients say may be as long as they like; a line of a log may not."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
