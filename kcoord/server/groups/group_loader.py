"""What was kept of groups, read again: partition by partition, step by step, so that others are served meanwhile.

| a partition that  | its groups get               | and                                                               |
|-------------------|------------------------------|-------------------------------------------------------------------|
| is to be read     | COORDINATOR_LOAD_IN_PROGRESS | is read in its turn                                               |
| could not be read | COORDINATOR_NOT_AVAILABLE    | is read again after a pause, each time a longer one               |
| is damaged        | COORDINATOR_NOT_AVAILABLE    | stays so: to read it again would change nothing                   |
| is another's      | NOT_COORDINATOR              | stays so                                                          |

A group of which a record cannot be understood is in quarantine: neither served nor changed, while the others are.
A topic that is deleted meanwhile takes the offsets of groups with it once they are read.
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
from kcoord.groups.topics import Heir
from kcoord.metrics.counts import JournalCounts
from kcoord.offsets_log.decoding import FactReader, Unreadable
from kcoord.offsets_log.group_log import Unsound
from kcoord.server.groups.group_journal import Journal, JournalLost
from kcoord.server.log_text import plain

log = logging.getLogger("kcoord.groups")

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


class Owner(Protocol):
    """Whose groups are read."""

    @property
    def counts(self) -> JournalCounts: ...

    def coordinator_of(self, index: int) -> Coordinator: ...

    def keep(self, effects: Effects, at: Instant) -> None:
        """Records and events that come of what was read; there are no replies among them."""

    def was_read(self) -> None:
        """A partition, for the first time or again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retry:
    """When a partition is read again that could not be read, and how long it rests until then."""

    deadline: float
    pause: float


class _DeletedTopic(NamedTuple):
    name: str
    topic_id: UUID
    heir: Heir | None


class GroupReading:
    """Which groups can be asked for, and reading those that cannot."""

    def __init__(self, journal: Journal, owner: Owner) -> None:
        self._journal = journal
        self._owner = owner
        self.closed: dict[int, ErrorCode] = {}  # partitions whose groups cannot be asked for, and what is said instead
        self.quarantined: dict[str, str] = {}  # groups that cannot be read, and why
        self.unread: list[int] = []  # partitions that are to be read
        self._retries: dict[int, _Retry] = {}  # of those that could not be read the last time
        self._deleted: dict[int, list[_DeletedTopic]] = {}  # by unread partition, those that its groups may know
        for index in journal.unread():
            self.close(index)

    @property
    def is_under_way(self) -> bool:
        return ErrorCode.coordinator_load_in_progress in self.closed.values()

    def is_in(self, partitions: Collection[int]) -> Callable[[str], bool]:
        """Whether a group is in one of these."""
        return lambda group_id: self._journal.partition_of(group_id) in partitions

    def is_open(self, group_id: str) -> bool:
        """Whether all that was kept of it is known, or that it cannot be understood."""
        return self._journal.partition_of(group_id) not in self.closed

    def refusal(self, group_id: str) -> ErrorCode | None:
        """Why its coordinator cannot be asked for the group."""
        if group_id in self.quarantined:
            return ErrorCode.unknown_server_error
        return self.closed.get(self._journal.partition_of(group_id))

    def refusal_until_read(self, group_id: str) -> ErrorCode | None:
        """What is said of a group that is still to be read; None if it is read, or never will be."""
        index = self._journal.partition_of(group_id)
        return self.closed[index] if self._is_to_be_read(index) else None

    def list_refusal(self, node_id: NodeId) -> ErrorCode | None:
        """Why this node cannot say which groups there are; of what cannot be read for good it says nothing."""
        errors = {error for index, error in self.closed.items() if self._journal.leaders[index] == node_id}
        if ErrorCode.not_coordinator in errors:  # since it stood down
            return ErrorCode.coordinator_not_available
        is_reading = ErrorCode.coordinator_load_in_progress in errors
        return ErrorCode.coordinator_load_in_progress if is_reading else None

    def close(self, index: int) -> None:
        """It is to be read, again or for the first time, once the journal is ready."""
        self.closed[index] = ErrorCode.coordinator_load_in_progress
        if index in self.unread:
            self.unread.remove(index)
        if self._journal.is_ready:
            self.unread.append(index)

    def journal_is_ready(self) -> None:
        """What a bug kept from being read rests as it did."""
        for index in self.closed:
            self.close(index)

    def stand_down(self) -> None:
        """All partitions are another's."""
        self.closed = dict.fromkeys(range(len(self._journal.leaders)), ErrorCode.not_coordinator)
        self.unread.clear()

    def topic_deleted(self, name: str, topic_id: UUID, heir: Heir | None) -> None:
        """Groups that are not read yet hear of it later."""
        for index in filter(self._is_to_be_read, self.closed):
            self._deleted.setdefault(index, []).append(_DeletedTopic(name, topic_id, heir))

    def read(self, now: Callable[[], Instant]) -> Iterator[None]:
        """Read the partitions that are to be read by now, a step at a time; others are served in between."""
        for index in self._due(now()):
            if index not in self.unread:  # the journal was lost meanwhile
                continue
            self.unread.remove(index)
            self.closed[index] = ErrorCode.coordinator_load_in_progress
            try:
                yield from self._read(index, now)
            except JournalLost:
                self._forget(index, now())
            except Unsound as error:
                log.error("partition=%s: its groups are not served, as it cannot be read why=%r", index, str(error))
                self._give_up(index, now())
            except Exception as error:  # a disk's fault or ours; one partition is not to stop the others
                self._give_up(index, now())
                self._read_later(index, error, now())

    def _read(self, index: int, now: Callable[[], Instant]) -> Iterator[None]:
        coordinator, reader, count, began = self._owner.coordinator_of(index), FactReader(), 0, now().now
        for facts in self._journal.read(index, reader):
            for fact in facts:
                if isinstance(fact, Unreadable):
                    self._quarantine(fact)
                else:
                    coordinator.replay(fact)
            count += len(facts)
            yield
        is_in = self.is_in({index})
        coordinator.unload(now(), self.quarantined.__contains__)
        effects = coordinator.resume(now(), is_in)
        assert not effects.records
        assert not effects.replies
        self._owner.keep(effects, now())
        del self.closed[index]
        self._owner.counts.facts_read += count
        self._owner.counts.seconds_read += now().now - began
        self._retries.pop(index, None)
        for name, topic_id, heir in self._deleted.pop(index, ()):
            self._owner.keep(coordinator.topic_deleted(name, topic_id, is_in, heir=heir), now())
        self._owner.was_read()
        groups = [group_id for group_id in coordinator.groups if is_in(group_id)]
        level = logging.INFO if count else logging.DEBUG
        log.log(level, "read partition=%s facts=%s groups=%s skipped=%s", index, count, len(groups), reader.skipped)
        if reader.open_transactions:
            log.warning("partition=%s: offsets of open transactions=%s are not served", index, reader.open_transactions)

    def _due(self, at: Instant) -> list[int]:
        resting = {index for index, retry in self._retries.items() if retry.deadline > at.now}
        return [index for index in self.unread if index not in resting]

    def _forget(self, index: int, at: Instant) -> None:
        """What is known so far of its groups is not known."""
        self._owner.coordinator_of(index).unload(at, self.is_in({index}))

    def _give_up(self, index: int, at: Instant) -> None:
        self._forget(index, at)
        self.closed[index] = ErrorCode.coordinator_not_available

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
        if fact.group_id not in self.quarantined:
            log.error("quarantined group=%s: it is neither served nor changed why=%r", plain(fact.group_id), fact.why)
        self.quarantined[fact.group_id] = fact.why

    def _is_to_be_read(self, index: int) -> bool:
        """Not so of a partition that is damaged, or another's."""
        return self.closed.get(index) is ErrorCode.coordinator_load_in_progress or index in self.unread
