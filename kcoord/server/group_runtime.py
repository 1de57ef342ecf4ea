"""The coordinators of a cluster's nodes, driven: records go to the journal before any reply that rests on them (D4).

The asker has its reply at once; those to requests that were parked leave in the order in which they were decided.

No asyncio and no clock here, so that a simulation can drive it as the server does. What could not be journalled was
not decided: its replies are not sent, the coordinator lets go of its groups and reads them again from the journal (D5).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Cluster, NodeId
from kcoord.broker.describing import coordinator_of
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects, Event, Happening
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinReply, Reply, SyncReply
from kcoord.journal.journal import CannotAppend, Journal, NoJournal
from kcoord.tickets import Ticket

log = logging.getLogger("kcoord.groups")

Decide = Callable[[Coordinator, object, Ticket, Instant], Effects | Reply]

_LONGEST_SHOWN: Final = 200
_ORDINARY: Final = frozenset({Happening.MADE, Happening.ID_GIVEN, Happening.JOINED, Happening.GENERATION})


class GroupRuntime:
    def __init__(
        self,
        cluster: Cluster,
        fresh_id: Callable[[], str],
        journal_of: Callable[[NodeId], Journal] = lambda node_id: NoJournal(),
    ) -> None:
        self._cluster = cluster
        self._fresh_id = fresh_id
        self._journals = {node_id: journal_of(node_id) for node_id in cluster.nodes}
        self._coordinators = {node_id: self._coordinator(self._owner(node_id)) for node_id in cluster.nodes}
        self.outbox: list[tuple[Ticket, Reply]] = []  # for `take_replies`

    def decide(self, node_id: NodeId, decide: Decide, request: object, ticket: Ticket, at: Instant) -> Reply | None:
        """The reply to this request; None if it is parked. Replies to others wait in the outbox."""
        effects = decide(self._coordinators[node_id], request, ticket, at)
        if not isinstance(effects, Effects):
            return effects
        if not self._append(node_id, effects, at):
            # The coordinator knows none of its groups now, and says so in the words of this request.
            effects = decide(self._coordinator(lambda group_id: False), request, ticket, at)
            assert isinstance(effects, Effects)
            self.outbox = [(to, reply) for to, reply in self.outbox if to != ticket]
            self._recover(node_id, at)
        own = None
        for to, reply in effects.replies:
            if to == ticket:
                own = reply
            else:
                self.outbox.append((to, reply))
        return own

    def take_replies(self) -> list[tuple[Ticket, Reply]]:
        """Replies to requests that were parked, in the order in which they were decided."""
        replies, self.outbox = self.outbox, []
        return replies

    def deadline(self) -> float | None:
        """When to call `tick`."""
        deadlines = [coordinator.deadline() for coordinator in self._coordinators.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, at: Instant) -> None:
        self._for_each(lambda coordinator: coordinator.tick(at), at)

    def expire_offsets(self, at: Instant) -> None:
        self._for_each(lambda coordinator: coordinator.expire_offsets(at), at)

    def topic_deleted(self, name: str, topic_id: UUID, at: Instant) -> None:
        self._for_each(lambda coordinator: coordinator.topic_deleted(name, topic_id), at)

    def recover(self, at: Instant) -> None:
        """Begin with what the journals hold."""
        for node_id in self._coordinators:
            self._recover(node_id, at)

    def _for_each(self, happen: Callable[[Coordinator], Effects], at: Instant) -> None:
        for node_id, coordinator in list(self._coordinators.items()):
            effects = happen(coordinator)
            if self._append(node_id, effects, at):
                self.outbox += effects.replies
            else:
                self._recover(node_id, at)

    def _append(self, node_id: NodeId, effects: Effects, at: Instant) -> bool:
        """Whether the records are kept; if not, whoever waits for a reply that rests on them hears of it."""
        if effects.records:
            try:
                self._journals[node_id].append(effects.records)
            except CannotAppend as error:
                log.error("unloaded node=%s why=%r", node_id, str(error))
                self.outbox += _not_coordinator(effects.replies)
                self.outbox += self._coordinators[node_id].unload(at).replies
                return False
        if effects.events:
            _log(effects.events)
        return True

    def _recover(self, node_id: NodeId, at: Instant) -> None:
        coordinator = self._coordinators[node_id] = self._coordinator(self._owner(node_id))
        for record in self._journals[node_id].recover():
            coordinator.replay(record)
        effects = coordinator.resume(at)
        assert not effects.records
        assert not effects.replies
        _log(effects.events)

    def _owner(self, node_id: NodeId) -> Callable[[str], bool]:
        """Which groups are those of the node."""
        if len(self._cluster.nodes) == 1:
            return lambda group_id: True
        return lambda group_id: coordinator_of(self._cluster, group_id).node_id == node_id

    def _coordinator(self, owns: Callable[[str], bool]) -> Coordinator:
        return Coordinator(
            settings=self._cluster.settings, topics=ClusterTopics(self._cluster), fresh_id=self._fresh_id, owns=owns
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
