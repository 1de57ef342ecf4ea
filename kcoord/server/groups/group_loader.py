"""Loads groups from the journal, one partition at a time and in steps, so that others are served meanwhile.

It corresponds to Kafka's CoordinatorLoader.

| a partition that  | its groups get               | and                                                               |
|-------------------|------------------------------|-------------------------------------------------------------------|
| is to be loaded   | COORDINATOR_LOAD_IN_PROGRESS | is loaded in its turn                                             |
| failed to load    | COORDINATOR_NOT_AVAILABLE    | is loaded again after a backoff that grows with each failure      |
| is corrupt        | COORDINATOR_NOT_AVAILABLE    | stays so: loading it again would change nothing                   |
| was resigned      | NOT_COORDINATOR              | stays so                                                          |

A group with a record that cannot be decoded is quarantined: it is neither served nor changed, while the others are.
The offsets of a topic that is deleted meanwhile are deleted once their groups are loaded.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kcoord.broker.cluster import NodeId
from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects
from kcoord.groups.instant import Instant
from kcoord.groups.topics import RecreatedTopic
from kcoord.metrics.counts import JournalCounts
from kcoord.offsets_log.decoding import FactReader, Unreadable
from kcoord.offsets_log.group_log import CorruptPartition
from kcoord.server.groups.group_journal import Journal, JournalLost
from kcoord.server.log_text import escape_name

log = logging.getLogger("kcoord.groups")

_FIRST_BACKOFF: Final = 1.0
_MAX_BACKOFF: Final = 60.0


class LoadTarget(Protocol):
    """The group runtime whose coordinators a GroupLoader fills."""

    @property
    def counts(self) -> JournalCounts:
        """The counters of what was written to and read from the log of groups' records, for metrics."""

    def coordinator_of(self, index: int) -> Coordinator:
        """Returns the coordinator of the groups in this partition of __consumer_offsets."""

    def append_effects(self, effects: Effects, at: Instant) -> None:
        """Appends the records and emits the events of effects that follow from a load; these have no replies."""

    def on_loaded(self) -> None:
        """Called when a partition of __consumer_offsets was loaded, for the first time or again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retry:
    """When a partition that failed to load is loaded again, and the backoff until then."""

    deadline: float
    backoff: float


class _DeletedTopic(NamedTuple):
    name: str
    topic_id: UUID
    recreated: RecreatedTopic | None


class GroupLoader:
    """Loads groups from the partitions of __consumer_offsets into their coordinators (Kafka's CoordinatorLoader), and
    tracks which are available.
    """

    def __init__(self, journal: Journal, target: LoadTarget) -> None:
        self._journal = journal
        self._target = target
        self.unavailable: dict[int, ErrorCode] = {}  # the error of each partition whose groups are unavailable
        self.quarantined: dict[str, str] = {}  # why each of these groups cannot be decoded
        self.to_load: list[int] = []  # partitions that can be loaded now
        self._retries: dict[int, _Retry] = {}  # of partitions that failed to load the last time
        self._deleted: dict[int, list[_DeletedTopic]] = {}  # by partition to load: topics deleted since
        for index in journal.partitions_to_load():
            self.mark_to_load(index)

    @property
    def is_loading(self) -> bool:
        """Whether groups are still to be loaded."""
        return ErrorCode.coordinator_load_in_progress in self.unavailable.values()

    def in_partitions(self, partitions: Collection[int]) -> Callable[[str], bool]:
        """Returns a predicate: whether a group id belongs to one of these partitions of __consumer_offsets."""
        return lambda group_id: self._journal.partition_of(group_id) in partitions

    def is_loaded(self, group_id: str) -> bool:
        """Returns whether the partition with the group's records is loaded."""
        return self._journal.partition_of(group_id) not in self.unavailable

    def refusal(self, group_id: str) -> ErrorCode | None:
        """Returns the error that requests for this group get while it is unavailable, or None if it is available."""
        if group_id in self.quarantined:
            return ErrorCode.unknown_server_error
        return self.unavailable.get(self._journal.partition_of(group_id))

    def refusal_until_loaded(self, group_id: str) -> ErrorCode | None:
        """Returns the error that requests for this group get while it is still to be loaded; None if it is loaded, or
        never will be.
        """
        index = self._journal.partition_of(group_id)
        return self.unavailable[index] if self._is_pending(index) else None

    def list_refusal(self, node_id: NodeId) -> ErrorCode | None:
        """Returns the error that ListGroups gets from this node while its groups are loading, or None. Groups of
        corrupt partitions are left out instead.
        """
        errors = {error for index, error in self.unavailable.items() if self._journal.leaders[index] == node_id}
        if ErrorCode.not_coordinator in errors:  # after resign
            return ErrorCode.coordinator_not_available
        is_reading = ErrorCode.coordinator_load_in_progress in errors
        return ErrorCode.coordinator_load_in_progress if is_reading else None

    def mark_to_load(self, index: int) -> None:
        """Makes the groups of a partition of __consumer_offsets unavailable, to be loaded (again) once that can be
        read.
        """
        self.unavailable[index] = ErrorCode.coordinator_load_in_progress
        if index in self.to_load:
            self.to_load.remove(index)
        if self._journal.is_ready:
            self.to_load.append(index)

    def on_journal_ready(self) -> None:
        """Makes all partitions whose groups are unavailable loadable, when the journal (the log of groups' records) can
        be read again. The backoff of a failed load goes on.
        """
        for index in self.unavailable:
            self.mark_to_load(index)

    def resign(self) -> None:
        """Gives up all groups for good, because another process owns the journal (the log of groups' records)."""
        self.unavailable = dict.fromkeys(range(len(self._journal.leaders)), ErrorCode.not_coordinator)
        self.to_load.clear()

    def topic_deleted(self, name: str, topic_id: UUID, recreated: RecreatedTopic | None) -> None:
        """Notes a deleted topic, whose offsets will be deleted from groups that are not loaded yet."""
        for index in filter(self._is_pending, self.unavailable):
            self._deleted.setdefault(index, []).append(_DeletedTopic(name, topic_id, recreated))

    def load(self, now: Callable[[], Instant]) -> Iterator[None]:
        """Loads the groups of all partitions of __consumer_offsets that are due. A generator whose steps are short, so
        that others are served in between.
        """
        for index in self._due(now()):
            if index not in self.to_load:  # meanwhile the journal was lost
                continue
            self.to_load.remove(index)
            self.unavailable[index] = ErrorCode.coordinator_load_in_progress
            try:
                yield from self._load(index, now)
            except JournalLost:
                self._unload(index, now())
            except CorruptPartition as error:
                log.error("partition=%s: its groups are not served, as it cannot be read why=%r", index, str(error))
                self._mark_unavailable(index, now())
            except Exception as error:  # a failing disk or a bug; one partition must not stop the others
                self._mark_unavailable(index, now())
                self._retry_later(index, error, now())

    def _load(self, index: int, now: Callable[[], Instant]) -> Iterator[None]:
        coordinator, reader, count, began = self._target.coordinator_of(index), FactReader(), 0, now().now
        for facts in self._journal.read(index, reader):
            for fact in facts:
                if isinstance(fact, Unreadable):
                    self._quarantine(fact)
                else:
                    coordinator.replay(fact)
            count += len(facts)
            yield
        is_in = self.in_partitions({index})
        coordinator.unload(now(), self.quarantined.__contains__)
        effects = coordinator.resume(now(), is_in)
        assert not effects.records
        assert not effects.replies
        self._target.append_effects(effects, now())
        del self.unavailable[index]
        self._target.counts.facts_read += count
        self._target.counts.seconds_read += now().now - began
        self._retries.pop(index, None)
        for name, topic_id, recreated in self._deleted.pop(index, ()):
            self._target.append_effects(coordinator.topic_deleted(name, topic_id, is_in, recreated=recreated), now())
        self._target.on_loaded()
        groups = [group_id for group_id in coordinator.groups if is_in(group_id)]
        level = logging.INFO if count else logging.DEBUG
        log.log(level, "read partition=%s facts=%s groups=%s skipped=%s", index, count, len(groups), reader.skipped)
        if reader.open_transactions:
            log.warning("partition=%s: offsets of open transactions=%s are not served", index, reader.open_transactions)

    def _due(self, at: Instant) -> list[int]:
        backing_off = {index for index, retry in self._retries.items() if retry.deadline > at.now}
        return [index for index in self.to_load if index not in backing_off]

    def _unload(self, index: int, at: Instant) -> None:
        """Drops the groups of a partition that was loaded in part."""
        self._target.coordinator_of(index).unload(at, self.in_partitions({index}))

    def _mark_unavailable(self, index: int, at: Instant) -> None:
        self._unload(index, at)
        self.unavailable[index] = ErrorCode.coordinator_not_available

    def _retry_later(self, index: int, error: Exception, at: Instant) -> None:
        """Schedules another load with a longer backoff, which also limits the log lines."""
        last = self._retries.get(index)
        backoff = min(last.backoff * 2, _MAX_BACKOFF) if last else _FIRST_BACKOFF
        self._retries[index] = _Retry(deadline=at.now + backoff, backoff=backoff)
        if index not in self.to_load:
            self.to_load.append(index)
        if isinstance(error, OSError):
            log.error("partition=%s: its groups cannot be read now retry_in=%gs why=%r", index, backoff, str(error))
        else:
            log.error("bug partition=%s: its groups are not read retry_in=%gs", index, backoff, exc_info=error)

    def _quarantine(self, fact: Unreadable) -> None:
        if fact.group_id not in self.quarantined:
            log.error(
                "quarantined group=%s: it is neither served nor changed why=%r", escape_name(fact.group_id), fact.why
            )
        self.quarantined[fact.group_id] = fact.why

    def _is_pending(self, index: int) -> bool:
        """Whether the partition will be loaded, unlike one that is corrupt or resigned."""
        return self.unavailable.get(index) is ErrorCode.coordinator_load_in_progress or index in self.to_load
