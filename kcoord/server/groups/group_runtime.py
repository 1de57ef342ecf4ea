"""Drives the coordinators of a cluster's nodes: no reply leaves before the records that it depends on are durable (D4).

    decide, tick, … ─► records are appended, replies queued ─► flush ─► records are durable ─► replies may leave

`decide` returns the requester's reply at once, but it must not be sent before the flush. Replies to parked requests are
queued in the outbox in the order of their decisions.

A decision whose records could not be written counts as not made: no reply since the last flush is sent, and the groups
of the failed partitions are unloaded and loaded again from the log (D5), as they are at the start (group_loader.py).

A journal that is not a log of this cluster may make records durable later, and may be readable later. Its driver then
holds replies back, and reports when the journal is lost, ready, or owned by another process.

No asyncio and no clock here, so that a simulation can drive it as the server does.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from kcoord.broker.cluster import Cluster, NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects, Event
from kcoord.groups.instant import Instant
from kcoord.groups.records import CommitPartitions, OffsetsStored, Record, RepeatedCommit
from kcoord.groups.replies import JoinReply, Reply, SyncReply
from kcoord.groups.topics import RecreatedTopic, Topics
from kcoord.metrics.counts import JournalCounts
from kcoord.offsets_log.group_log import GroupLog
from kcoord.server.groups.cluster_topics import ClusterTopics
from kcoord.server.groups.group_event_log import log_events
from kcoord.server.groups.group_journal import Journal, JournalAppender
from kcoord.server.groups.group_loader import GroupLoader
from kcoord.server.metrics.group_stats import GroupStats, collect_stats
from kcoord.storage.superseded import SupersededBatches
from kcoord.tickets import Ticket

log = logging.getLogger("kcoord.groups")

Decide = Callable[[Coordinator, object, Ticket, Instant], Effects | Reply]
Prevalidate = Callable[[Coordinator, object, object], Any]


class GroupRuntime:
    """Drives the pure group coordinators of a cluster's nodes: appends the records of their decisions to the journal
    (the log of __consumer_offsets), queues their replies, and loads groups. It must be loaded first: see `to_load` and
    `load`."""

    def __init__(
        self,
        cluster: Cluster,
        fresh_id: Callable[[], str],
        make_log: Callable[[Cluster], Journal] = GroupLog,
        topics: Topics | None = None,
    ) -> None:
        """`topics` defaults to the topics of the cluster."""
        self._cluster = cluster
        self._fresh_id = fresh_id
        self._topics = topics or ClusterTopics(cluster)
        self._log = make_log(cluster)
        self._leaders = self._log.leaders
        self._coordinators = {node_id: self._coordinator(node_id) for node_id in cluster.nodes}
        self._has_one_node = len(cluster.nodes) == 1
        self.outbox: deque[tuple[Ticket, Reply]] = deque()  # replies to parked requests, in order
        self.counts = JournalCounts()
        self.on_events: Callable[[Iterable[Event]], None] = lambda events: None
        self.on_partition_loaded: Callable[[], None] = lambda: None  # called when a partition was loaded (again)
        self._loader = GroupLoader(self._log, self)

    def decide(self, node_id: NodeId, decide: Decide, request: object, ticket: Ticket, at: Instant) -> Reply | None:
        """Has a node's coordinator decide a request: returns the reply, or None if the request is parked under its
        ticket. Replies to other requests go to the outbox."""
        effects = decide(self._coordinators[node_id], request, ticket, at)
        if not isinstance(effects, Effects):
            return effects
        self.append_effects(effects, at)
        this_reply = None
        for to, reply in effects.replies:
            if to == ticket:
                this_reply = reply
            else:
                self.outbox.append((to, reply))
        return this_reply

    def prevalidate(self, node_id: NodeId, prevalidate: Prevalidate, request: object, reply: object) -> Any:
        """Returns the prevalidated form of a request that was just answered with `reply`, for the fast path; None if it
        has none."""
        return prevalidate(self._coordinators[node_id], request, reply)

    def commit_appender(self, partitions: CommitPartitions) -> "RepeatedCommitAppender":
        """Returns what appends the records of a member that commits the same partitions again and again: what their
        records have in common is encoded once. A failed append unloads the groups, as in `decide`."""
        return RepeatedCommitAppender(self._log.appender(partitions), self._could_not_append)

    def take_replies(self) -> list[tuple[Ticket, Reply]]:
        """Takes all replies to parked requests out of the outbox, each with its ticket."""
        replies, self.outbox = self.outbox, deque()
        return list(replies)

    def flush(self, at: Instant) -> bool:
        """Makes all appended records durable; returns False on failure: then no reply since the last flush
        may be sent.
        """
        failed = self._log.flush(at.wall_ms)
        if failed:
            self._unload(failed, at)
        return not failed

    def on_flush_lost(self, why: str, at: Instant) -> None:
        """Unloads the groups whose records the last flush wrote, because these may be lost (a failed fsync)."""
        self._unload(dict.fromkeys(self._log.flushed, why), at)

    def on_journal_ready(self) -> None:
        """Called when the journal (the log of groups' records) can be read, for the first time or again: its groups can
        then be loaded."""
        self._loader.on_journal_ready()

    def resign(self, at: Instant) -> None:
        """Stops coordinating all groups, because another process owns the journal (the log of groups' records); parked
        requests get NOT_COORDINATOR."""
        self._loader.resign()
        self.outbox = deque(_not_coordinator(self.outbox))
        for coordinator in self._coordinators.values():
            self.outbox += coordinator.unload(at).replies

    def has_group(self, group_id: str) -> bool:
        """Returns whether a group of any kind exists; False for one that is not loaded yet."""
        coordinator = self.coordinator_of(self._log.partition_of(group_id))
        return group_id in coordinator.groups or group_id in coordinator.foreign_groups

    def topics_of_offsets(self) -> set[tuple[str, UUID]]:
        """Returns name and topic id of each topic with committed offsets whose id was known at the commit."""
        return {
            (name, stamp.topic_id)
            for coordinator in self._coordinators.values()
            for group in coordinator.groups.values()
            for name, partitions in group.offsets.items()
            for *_, stamp in partitions.values()
            if stamp.topic_id is not None
        }

    def is_available(self, group_id: str) -> bool:
        """Returns whether requests for this group are served: its partition is loaded, and all its records could be
        decoded."""
        return self._loader.refusal(group_id) is None

    def refusal_until_loaded(self, group_id: str) -> ErrorCode | None:
        """Returns the error that requests for this group get while it is still to be loaded; None if it is loaded, or
        never will be."""
        return self._loader.refusal_until_loaded(group_id)

    def import_offsets(self, offsets: Sequence[OffsetsStored], at: Instant) -> None:
        """Adds offsets that a group has committed on another cluster, as if they had been committed here."""
        if offsets:
            self.coordinator_of(self._log.partition_of(offsets[0].group_id)).replay_all(offsets)
            self.append_effects(Effects((), tuple(offsets)), at)

    def _unload(self, failed: Mapping[int, str], at: Instant) -> None:
        """Unloads the groups of these partitions, answers their parked requests, and marks them to be loaded again."""
        self.counts.failed_writes += len(failed)
        for why in dict.fromkeys(failed.values()):
            same_cause = [str(index) for index in failed if failed[index] == why]
            log.error("unloaded partitions=%s why=%r", ",".join(same_cause), why)
        for index in failed:
            self._loader.mark_to_load(index)
        self.outbox = deque(_not_coordinator(self.outbox))
        for coordinator in self._coordinators.values():
            self.outbox += coordinator.unload(at, self._loader.in_partitions(failed.keys())).replies

    def deadline(self) -> float | None:
        """Returns the earliest deadline of all groups, when `tick` is to be called; None if there is none."""
        deadlines = [coordinator.deadline() for coordinator in self._coordinators.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def has_due(self, now: float) -> bool:
        """Returns whether the deadline of a session or a rebalance phase of any group has passed."""
        due = [coordinator.has_due(now) for coordinator in self._coordinators.values()]
        return any(due)

    def tick(self, at: Instant, *, passed_by: float | None = None) -> None:
        """Expires the sessions and rebalance phases whose deadlines have passed by now, or by the earlier `passed_by`
        if it is given."""
        self._for_each(lambda coordinator: coordinator.tick(at, passed_by=passed_by), at)

    def expire_offsets(self, at: Instant) -> None:
        """Deletes offsets whose retention is over (offsets.retention.minutes), unless groups are being loaded."""
        if not self.is_loading:  # the state of a group that is loaded in part may be outdated
            self._for_each(lambda coordinator: coordinator.expire_offsets(at), at)

    def topic_deleted(self, name: str, topic_id: UUID, at: Instant, *, recreated: RecreatedTopic | None = None) -> None:
        """Deletes the committed offsets of a deleted topic, or moves them to the topic that was recreated under its
        name."""
        self._loader.topic_deleted(name, topic_id, recreated)
        is_read = self._loader.is_loaded
        self._for_each(lambda coordinator: coordinator.topic_deleted(name, topic_id, is_read, recreated=recreated), at)

    def stats(self) -> GroupStats:
        """Returns counts of all groups and their members, for metrics."""
        loader = self._loader
        return collect_stats(
            self._coordinators.values(), loader.quarantined, len(self._leaders), loader.unavailable.values()
        )

    # Loading.

    @property
    def is_loading(self) -> bool:
        """Whether groups are still to be loaded."""
        return self._loader.is_loading

    @property
    def to_load(self) -> Sequence[int]:
        """The partitions of __consumer_offsets that can be loaded now."""
        return self._loader.to_load

    def load(self, now: Callable[[], Instant]) -> Iterator[None]:
        """Loads the groups of all partitions of __consumer_offsets that are due. A generator whose steps are short, so
        that others are served in between."""
        return self._loader.load(now)

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns the batches of a partition of __consumer_offsets that compaction need not read, because later records
        supersede all of theirs."""
        return self._log.superseded_in(index)

    def coordinator_of(self, index: int) -> Coordinator:
        """Returns the coordinator of the groups in this partition of __consumer_offsets."""
        return self._coordinators[self._leaders[index]]

    def on_loaded(self) -> None:
        """Called by the loader when the groups of a partition were loaded."""
        self.on_partition_loaded()

    def _for_each(self, action: Callable[[Coordinator], Effects], at: Instant) -> None:
        for coordinator in self._coordinators.values():
            effects = action(coordinator)
            self.append_effects(effects, at)
            self.outbox += effects.replies

    def append_effects(self, effects: Effects, at: Instant) -> None:
        """Appends the records of a coordinator's decision (effects) for the next flush, and emits its events."""
        if effects.records:
            try:
                self._log.append(effects.records, at.wall_ms)
            except Exception as bug:
                self._could_not_append(effects.records, bug, at)
                raise
        if effects.events:
            log_events(effects.events)
            self.on_events(effects.events)

    def _could_not_append(self, records: Sequence[Record], bug: Exception, at: Instant) -> None:
        """Unloads the groups whose records could not be appended, so that memory does not differ from the log."""
        self._unload({self._log.partition_of(record.group_id): repr(bug) for record in records}, at)

    def _refusal(self, node_id: NodeId, group_id: str) -> ErrorCode | None:
        """Returns the error of a group that is unavailable on this node, or None."""
        loader = self._loader
        if self._has_one_node and not loader.unavailable and not loader.quarantined:
            return None
        if self._leaders[self._log.partition_of(group_id)] != node_id:
            return ErrorCode.not_coordinator
        return loader.refusal(group_id)

    def _coordinator(self, node_id: NodeId) -> Coordinator:
        return Coordinator(
            settings=self._cluster.settings,
            topics=self._topics,
            fresh_id=self._fresh_id,
            refusal=partial(self._refusal, node_id),
            list_refusal=lambda: self._loader.list_refusal(node_id),
        )


class RepeatedCommitAppender:
    """Appends commits that a client repeats for the same partitions to the log of groups' records; a failure unloads
    the group."""

    __slots__ = ("_appender", "_on_failure")

    def __init__(
        self, appender: JournalAppender, on_failure: Callable[[Sequence[Record], Exception, Instant], None]
    ) -> None:
        self._appender = appender
        self._on_failure = on_failure

    def append(self, record: RepeatedCommit, at: Instant) -> None:
        """Appends one commit; the next flush makes it durable."""
        try:
            self._appender.append(record, at.wall_ms)
        except Exception as bug:
            self._on_failure((record,), bug, at)
            raise


def _not_coordinator(replies: Iterable[tuple[Ticket, Reply]]) -> list[tuple[Ticket, Reply]]:
    """Replaces replies that could not be made durable by NOT_COORDINATOR. Only joins and syncs are parked."""
    error = ErrorCode.not_coordinator
    refused: list[tuple[Ticket, Reply]] = []
    for ticket, reply in replies:
        if isinstance(reply, JoinReply):
            refused.append((ticket, JoinReply(member_id=reply.member_id, error_code=error)))
        elif isinstance(reply, SyncReply):
            refused.append((ticket, SyncReply(error_code=error)))
    return refused
