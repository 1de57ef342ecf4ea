"""The coordinators of a cluster's nodes, driven: no reply leaves before the records that it rests on are kept (D4).

    decide, tick, … ─► replies and records are put aside ─► flush ─► the records are kept ─► the replies may leave

The asker has its reply at once, but it is for nobody's eyes until the flush; those to requests that were parked are put
aside in the order in which they were decided.

What could not be kept was not decided: no reply since the last flush is sent, the groups of the partitions that failed
are let go of, and read again from the log (D5). That is how they are read at the start, too: partition by partition,
step by step, so that others are served meanwhile.

| a partition that  | its groups get               | and                                                               |
|-------------------|------------------------------|-------------------------------------------------------------------|
| is to be read     | COORDINATOR_LOAD_IN_PROGRESS | is read in its turn                                               |
| could not be read | COORDINATOR_NOT_AVAILABLE    | is read again after a pause, each time a longer one               |
| is damaged        | COORDINATOR_NOT_AVAILABLE    | stays so: to read it again would change nothing                   |

A topic that is deleted meanwhile takes the offsets of such groups with it once they are read.

Where the journal is not a log of this cluster's own, it may keep what it was given only later, and be ready to
be read only later. Whoever drives it then holds replies back, and says when it is lost, ready, or another's.

No asyncio and no clock here, so that a simulation can drive it as the server does.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import NOTHING, Effects, Event
from kcoord.groups.instant import Instant
from kcoord.groups.records import OffsetsStored, Record, StoredAgain, UsualPlaces
from kcoord.groups.replies import JoinReply, Reply, SyncReply
from kcoord.groups.topics import Heir, Topics
from kcoord.journal.decoding import FactReader, Unreadable
from kcoord.journal.group_log import GroupLog, Unsound
from kcoord.metrics.counts import JournalCounts
from kcoord.server.census import Census, census
from kcoord.server.cluster_topics import ClusterTopics
from kcoord.server.group_journal import Appending, Journal, JournalLost
from kcoord.server.group_lines import log_events
from kcoord.server.log_text import plain
from kcoord.tickets import Ticket

log = logging.getLogger("kcoord.groups")

Decide = Callable[[Coordinator, object, Ticket, Instant], Effects | Reply]
Stand = Callable[[Coordinator, object, object], Any]

_OFFSETS_TOPIC_SETTINGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


def make_offsets_topic(cluster: Cluster, now_ms: int) -> None:
    """As a broker does when the first group is asked for. Raises OSError."""
    if OFFSETS_TOPIC not in cluster.topics:
        replicas = cluster.spread(0, cluster.settings.offsets_topic_num_partitions, 1)
        cluster.create_topic(OFFSETS_TOPIC, replicas, dict(_OFFSETS_TOPIC_SETTINGS), now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retry:
    """When a partition is read again that could not be read, and how long it rests until then."""

    deadline: float
    pause: float


class _DeletedTopic(NamedTuple):
    name: str
    topic_id: UUID
    heir: Heir | None


class GroupRuntime:
    """The cluster has its offsets topic. What is in it is to be read first: see `unread` and `read`."""

    def __init__(
        self,
        cluster: Cluster,
        fresh_id: Callable[[], str],
        make_log: Callable[[Cluster], Journal] = GroupLog,
        topics: Topics | None = None,
    ) -> None:
        """`topics` are the cluster's own, unless others are told."""
        self._cluster = cluster
        self._fresh_id = fresh_id
        self._topics = topics or ClusterTopics(cluster)
        self._log = make_log(cluster)
        self._leaders = self._log.leaders
        self._coordinators = {node_id: self._coordinator(node_id) for node_id in cluster.nodes}
        self._closed: dict[int, ErrorCode] = {}  # partitions whose groups cannot be asked for, and what is said instead
        self._quarantined: dict[str, str] = {}  # groups that cannot be read, and why
        self._is_alone = len(cluster.nodes) == 1
        self.outbox: deque[tuple[Ticket, Reply]] = deque()  # for `next_reply` and `take_replies`
        self.unread: list[int] = []  # partitions that are to be read
        self.counts = JournalCounts()
        self.on_events: Callable[[Iterable[Event]], None] = lambda events: None
        self._retries: dict[int, _Retry] = {}  # of those that could not be read the last time
        self._deleted: dict[int, list[_DeletedTopic]] = {}  # by unread partition, those that its groups may know
        self.on_read: Callable[[], None] = lambda: None  # a partition was read, for the first time or again
        for index in self._log.unread():
            self._close(index)

    def decide(self, node_id: NodeId, decide: Decide, request: object, ticket: Ticket, at: Instant) -> Reply | None:
        """The reply to this request; None if it is parked. Replies to others wait in the outbox."""
        effects = decide(self._coordinators[node_id], request, ticket, at)
        return self.take(effects, ticket, at) if isinstance(effects, Effects) else effects

    def take(self, effects: Effects, ticket: Ticket, at: Instant) -> Reply | None:
        """The reply to this request among what came of it, as `decide` gives it."""
        if effects is NOTHING:  # as most often when a group is rebalanced
            return None
        if effects.records or effects.events:
            self._take(effects, at)
        own = None
        for to, reply in effects.replies:
            if to == ticket:
                own = reply
            else:
                self.outbox.append((to, reply))
        return own

    def standing(self, node_id: NodeId, stand: Stand, request: object, reply: object) -> Any:
        """How to ask the same again in fewer steps, of the kind that `stand` makes; None if it does not stand."""
        return stand(self._coordinators[node_id], request, reply)

    def keeping(self, places: UsualPlaces) -> "Keeping":
        """How to have kept what becomes of a standing commit to these places, as `decide` has what it decides."""
        return Keeping(self._log.appending(places), self._could_not_append)

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

    def journal_is_ready(self) -> None:
        """The journal can be read, again or for the first time. What a bug kept from being read rests as it did."""
        for index in self._closed:
            self._close(index)

    def stand_down(self, at: Instant) -> None:
        """Another has the journal now: no group is coordinated here from now on. Whoever waits hears of it."""
        self._closed = dict.fromkeys(range(len(self._leaders)), ErrorCode.not_coordinator)
        self.unread.clear()
        self.outbox = deque(_not_coordinator(self.outbox))
        for coordinator in self._coordinators.values():
            self.outbox += coordinator.unload(at).replies

    def knows(self, group_id: str) -> bool:
        """Whether there is such a group, of whatever kind. False of one that is not read yet."""
        coordinator = self._coordinator_of(self._log.partition_of(group_id))
        return group_id in coordinator.groups or group_id in coordinator.others

    def topics_of_offsets(self) -> set[tuple[str, UUID]]:
        """Names and ids of the topics that offsets were committed for, as far as ids were known then."""
        return {
            (name, stamp.topic_id)
            for coordinator in self._coordinators.values()
            for group in coordinator.groups.values()
            for name, partitions in group.offsets.items()
            for *_, stamp in partitions.values()
            if stamp.topic_id is not None
        }

    def can_be_asked_for(self, group_id: str) -> bool:
        return self._is_open(group_id) and group_id not in self._quarantined

    def refusal_until_read(self, group_id: str) -> ErrorCode | None:
        """What is said of a group that is still to be read; None if it is read, or never will be."""
        index = self._log.partition_of(group_id)
        return self._closed[index] if self._is_to_be_read(index) else None

    def take_over(self, offsets: Sequence[OffsetsStored], at: Instant) -> None:
        """Offsets that a group has elsewhere, kept with the next flush as if they had been committed here."""
        if offsets:
            self._coordinator_of(self._log.partition_of(offsets[0].group_id)).replay_all(offsets)
            self._take(Effects((), tuple(offsets)), at)

    def _unload(self, failed: Mapping[int, str], at: Instant) -> None:
        """Let go of the groups of these partitions. Whoever waits hears of it; they are to be read again."""
        self.counts.failed_writes += len(failed)
        for why in dict.fromkeys(failed.values()):
            alike = [str(index) for index in failed if failed[index] == why]
            log.error("unloaded partitions=%s why=%r", ",".join(alike), why)
        for index in failed:
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

    def topic_deleted(self, name: str, topic_id: UUID, at: Instant, *, heir: Heir | None = None) -> None:
        """`heir`: the topic that has the name now, where there is one."""
        for index in filter(self._is_to_be_read, self._closed):
            self._deleted.setdefault(index, []).append(_DeletedTopic(name, topic_id, heir))
        self._for_each(lambda coordinator: coordinator.topic_deleted(name, topic_id, self._is_open, heir=heir), at)

    def census(self) -> Census:
        closed = self._closed.values()
        return census(self._coordinators.values(), self._quarantined, len(self._leaders), closed)

    # Reading what was kept.

    @property
    def is_reading(self) -> bool:
        return ErrorCode.coordinator_load_in_progress in self._closed.values()

    def _list_refusal(self, node_id: NodeId) -> ErrorCode | None:
        """Why this node cannot say which groups there are; of what cannot be read for good it says nothing."""
        errors = {error for index, error in self._closed.items() if self._leaders[index] == node_id}
        if ErrorCode.not_coordinator in errors:  # since it stood down
            return ErrorCode.coordinator_not_available
        is_reading = ErrorCode.coordinator_load_in_progress in errors
        return ErrorCode.coordinator_load_in_progress if is_reading else None

    def read(self, now: Callable[[], Instant]) -> Iterator[None]:
        """Read the partitions that are to be read by now, a step at a time; others are served in between."""
        for index in self._due(now()):
            if index not in self.unread:  # the journal was lost meanwhile
                continue
            self.unread.remove(index)
            self._closed[index] = ErrorCode.coordinator_load_in_progress
            try:
                yield from self._read(index, now)
            except JournalLost:
                self._coordinator_of(index).unload(now(), self._is_in({index}))
            except Unsound as error:
                log.error("partition=%s: its groups are not served, as it cannot be read why=%r", index, str(error))
                self._give_up(index, now())
            except Exception as error:  # a disk's fault or ours; one partition is not to stop the others
                self._give_up(index, now())
                self._read_later(index, error, now())

    def _read(self, index: int, now: Callable[[], Instant]) -> Iterator[None]:
        coordinator, reader, count, began = self._coordinator_of(index), FactReader(), 0, now().now
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
        self._tell(effects.events)
        del self._closed[index]
        self.counts.facts_read += count
        self.counts.seconds_read += now().now - began
        self._retries.pop(index, None)
        for name, topic_id, heir in self._deleted.pop(index, ()):
            self._take(coordinator.topic_deleted(name, topic_id, is_in, heir=heir), now())
        self.on_read()
        groups = [group_id for group_id in coordinator.groups if is_in(group_id)]
        level = logging.INFO if count else logging.DEBUG
        log.log(level, "read partition=%s facts=%s groups=%s skipped=%s", index, count, len(groups), reader.skipped)
        if reader.open_transactions:
            log.warning("partition=%s: offsets of open transactions=%s are not served", index, reader.open_transactions)

    def _due(self, at: Instant) -> list[int]:
        resting = {index for index, retry in self._retries.items() if retry.deadline > at.now}
        return [index for index in self.unread if index not in resting]

    def _give_up(self, index: int, at: Instant) -> None:
        """What is known so far of its groups is not known."""
        self._coordinator_of(index).unload(at, self._is_in({index}))
        self._closed[index] = ErrorCode.coordinator_not_available

    def _read_later(self, index: int, error: Exception, at: Instant) -> None:
        """Others are not to wait for it, nor to hear of it all the time."""
        last = self._retries.get(index)
        pause = min(last.pause * 2, _LONGEST_PAUSE) if last else _FIRST_PAUSE
        self._retries[index] = _Retry(deadline=at.now + pause, pause=pause)
        if index not in self.unread:
            self.unread.append(index)
        if isinstance(error, OSError):
            log.error("partition=%s: its groups cannot be read now retry_in=%gs why=%r", index, pause, str(error))
        else:
            log.error("bug partition=%s: its groups are not read retry_in=%gs", index, pause, exc_info=error)

    def _quarantine(self, fact: Unreadable) -> None:
        if fact.group_id not in self._quarantined:
            log.error("quarantined group=%s: it is neither served nor changed why=%r", plain(fact.group_id), fact.why)
        self._quarantined[fact.group_id] = fact.why

    def _close(self, index: int) -> None:
        self._closed[index] = ErrorCode.coordinator_load_in_progress
        if index in self.unread:
            self.unread.remove(index)
        if self._log.is_ready:
            self.unread.append(index)

    def _coordinator_of(self, index: int) -> Coordinator:
        return self._coordinators[self._leaders[index]]

    def _is_in(self, partitions: Collection[int]) -> Callable[[str], bool]:
        return lambda group_id: self._log.partition_of(group_id) in partitions

    def _is_to_be_read(self, index: int) -> bool:
        """Not so of a partition that is damaged, or another's."""
        return self._closed.get(index) is ErrorCode.coordinator_load_in_progress or index in self.unread

    def _is_open(self, group_id: str) -> bool:
        return self._log.partition_of(group_id) not in self._closed

    def _for_each(self, happen: Callable[[Coordinator], Effects], at: Instant) -> None:
        for coordinator in self._coordinators.values():
            effects = happen(coordinator)
            self._take(effects, at)
            self.outbox += effects.replies

    def _take(self, effects: Effects, at: Instant) -> None:
        if effects.records:
            try:
                self._log.append(effects.records, at.wall_ms)
            except Exception as bug:
                self._could_not_append(effects.records, bug, at)
                raise
        if effects.events:
            self._tell(effects.events)

    def _could_not_append(self, records: Sequence[Record], bug: Exception, at: Instant) -> None:
        """What was decided must not stay in memory alone."""
        self._unload({self._log.partition_of(record.group_id): repr(bug) for record in records}, at)

    def _tell(self, events: Collection[Event]) -> None:
        log_events(events)
        self.on_events(events)

    def _refusal(self, node_id: NodeId, group_id: str) -> ErrorCode | None:
        """Why this node cannot be asked for the group."""
        if self._is_alone and not self._closed and not self._quarantined:
            return None
        index = self._log.partition_of(group_id)
        if self._leaders[index] != node_id:
            return ErrorCode.not_coordinator
        if group_id in self._quarantined:
            return ErrorCode.unknown_server_error
        return self._closed.get(index)

    def _coordinator(self, node_id: NodeId) -> Coordinator:
        return Coordinator(
            settings=self._cluster.settings,
            topics=self._topics,
            fresh_id=self._fresh_id,
            refusal=partial(self._refusal, node_id),
            list_refusal=lambda: self._list_refusal(node_id),
        )


class Keeping:
    """Of commits to the same places."""

    __slots__ = ("_appending", "_could_not")

    def __init__(self, appending: Appending, could_not: Callable[[Sequence[Record], Exception, Instant], None]) -> None:
        self._appending = appending
        self._could_not = could_not

    def keep(self, record: StoredAgain, at: Instant) -> None:
        try:
            self._appending.append(record, at.wall_ms)
        except Exception as bug:
            self._could_not((record,), bug, at)
            raise


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
