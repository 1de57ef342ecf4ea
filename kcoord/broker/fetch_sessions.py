"""Fetch sessions (KIP-227): a client lists its partitions once, then only those that change.

| session id | epoch | means                                                       |
|------------|-------|-------------------------------------------------------------|
| 0          | -1    | a full fetch, no session                                    |
| any        | 0     | a full fetch that opens a session (and closes that of the id) |
| id         | -1    | a full fetch that closes the session                        |
| id         | n > 0 | an incremental fetch, the n-th after the session was opened |

A session whose last partition is forgotten is closed: that fetch is a full one, without a session.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kcoord.errors import ErrorCode

NO_SESSION: Final = 0
OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_MOST_PARTITIONS: Final = 50_000  # In all sessions together.
_EVICTABLE_AFTER_MS: Final = 120_000  # min.incremental.fetch.session.eviction.ms

PartitionKey = tuple[str | UUID, int]
"""A topic, by name or by id as the request's version has it, and a partition's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPartition:
    """The fields of one partition in a Fetch request; an epoch of -1 is none."""

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int = -1
    max_bytes: int


@dataclass(slots=True, kw_only=True)
class LastSent:
    """The high watermark and log start offset of a partition in the last response of its fetch session; -1 before the
    first response.
    """

    high_watermark: int = -1
    start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class Session:
    """A fetch session (KIP-227): the partitions that one client fetches, and the epoch of its next request."""

    session_id: int
    is_by_id: bool
    used_at_ms: int
    epoch: int = 1
    partitions: dict[PartitionKey, RequestedPartition] = field(default_factory=dict)
    last_sent: dict[PartitionKey, LastSent] = field(default_factory=dict)
    # The names of topics that are requested by id, once they were found.
    names: dict[PartitionKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """The partitions that one Fetch request reads, and its fetch session, or None (Kafka's FetchContext)."""

    session: Session | None
    is_incremental: bool
    partitions: dict[PartitionKey, RequestedPartition]
    names: dict[PartitionKey, str] = field(default_factory=dict)  # The session's names, if there is a session.

    @property
    def session_id(self) -> int:
        """The session id for the response: 0 without a session."""
        return self.session.session_id if self.session else NO_SESSION


class FetchSessions:
    """The fetch sessions of one node (KIP-227). No active session is evicted for a new one: its client fetches in full
    instead.

    Session ids are random, so that no client gets into another's session by counting.
    """

    def __init__(self, slots: int, fresh_id: Callable[[], int]) -> None:
        self._slots = slots
        self._fresh_id = fresh_id
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def full(
        self,
        session_id: int,
        epoch: int,
        partitions: dict[PartitionKey, RequestedPartition],
        *,
        is_by_id: bool,
        now_ms: int,
    ) -> FetchContext:
        """Begins a full fetch, whose request lists all its partitions. It opens a session if the client wants one and
        there is room.
        """
        self._sessions.pop(session_id, None)
        session = None
        if epoch == OPENING_EPOCH and self._has_slot(now_ms) and self._has_room(len(partitions)):
            session = self._open(dict(partitions), is_by_id, now_ms)
        names = session.names if session else {}
        return FetchContext(session=session, is_incremental=False, partitions=partitions, names=names)

    def incremental(
        self,
        session_id: int,
        epoch: int,
        changed: dict[PartitionKey, RequestedPartition],
        forgotten: Iterable[PartitionKey],
        *,
        is_by_id: bool,
        now_ms: int,
    ) -> FetchContext | ErrorCode:
        """Begins an incremental fetch, whose request lists only the partitions that have changed. Returns the error if
        the session is unknown or its epoch is wrong.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.is_by_id != is_by_id:
            return ErrorCode.fetch_session_topic_id_error
        if not self._has_room(len(changed)):
            del self._sessions[session_id]
            return ErrorCode.fetch_session_id_not_found
        session.partitions.update(changed)
        for key in forgotten:
            session.partitions.pop(key, None)
            session.last_sent.pop(key, None)
            session.names.pop(key, None)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchContext(session=None, is_incremental=False, partitions=changed)
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        session.used_at_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)  # The least recently used session comes first.
        return FetchContext(session=session, is_incremental=True, partitions=session.partitions, names=session.names)

    def _open(self, partitions: dict[PartitionKey, RequestedPartition], is_by_id: bool, now_ms: int) -> Session:
        session_id = self._fresh_id()
        while session_id in self._sessions:
            session_id = self._fresh_id()
        session = Session(session_id=session_id, is_by_id=is_by_id, used_at_ms=now_ms, partitions=partitions)
        self._sessions[session_id] = session
        return session

    def _has_room(self, more: int) -> bool:
        """Returns whether so many more partitions can be stored: requested partitions need not exist."""
        return more == 0 or sum(len(s.partitions) for s in self._sessions.values()) + more <= _MOST_PARTITIONS

    def _has_slot(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_at_ms < _EVICTABLE_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True
