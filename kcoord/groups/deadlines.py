"""Deadlines of sessions and phases, ordered by a heap of alarms.

A deadline moves often (every heartbeat moves one) and passes seldom. So the heap holds alarms that may ring early,
never late: a deadline that moves on leaves its alarm in the heap, and an alarm that rings too early is set again. The
cost of a heartbeat does not depend on the number of members, and the cost of a tick only on the number of alarms that
ring.
"""

import heapq
from collections.abc import Iterator
from enum import StrEnum
from math import inf


class Purpose(StrEnum):
    """The kinds of deadlines that the coordinator waits for."""

    SESSION = "session"  # of a member, or of a member id that was issued and not used yet
    JOIN = "join"  # the join phase of a group
    SYNC = "sync"  # the sync phase of a group


class Deadline:
    """The deadline of one member's session or of one phase of a group's rebalance, which may move. `at` is in monotonic
    seconds, None while the deadline is not set."""

    __slots__ = ("alarm_at", "at", "group_id", "member_id", "purpose")

    def __init__(self, purpose: Purpose, group_id: str, member_id: str = "") -> None:
        self.purpose = purpose
        self.group_id = group_id
        self.member_id = member_id
        self.at: float | None = None
        self.alarm_at = inf  # time of its valid alarm in the heap; never later than `at`


class Deadlines:
    """The deadlines of all sessions and rebalance phases of a coordinator, the next one first: a heap that is cheap
    when deadlines are moved and not reached."""

    def __init__(self) -> None:
        self._alarms: list[tuple[float, int, Deadline]] = []
        self._set = 0  # breaks ties, so that deadlines are never compared
        self._cleared = 0

    def __len__(self) -> int:
        return len(self._alarms)

    def set(self, deadline: Deadline, at: float) -> None:
        """Sets or moves a deadline to the monotonic instant `at`, in seconds."""
        deadline.at = at
        if at < deadline.alarm_at:
            self._set_alarm(deadline, at)

    def clear(self, deadline: Deadline) -> None:
        """Unsets a deadline, so that it never becomes due."""
        deadline.at = None
        self._cleared += 1
        if self._cleared > 64 and self._cleared * 2 > len(self._alarms):
            self._drop_idle_alarms()

    def next(self) -> float | None:
        """Returns the monotonic instant, in seconds, at which to call `has_due` or `take_due`, or None if no deadline
        is set. It may be earlier than the next deadline, never later."""
        return self._alarms[0][0] if self._alarms else None

    def has_due(self, now: float) -> bool:
        """Returns whether a deadline has passed by `now`. Sets alarms again that rang early."""
        while self._alarms and self._alarms[0][0] <= now:
            rang_at, _, deadline = self._alarms[0]
            if rang_at == deadline.alarm_at and deadline.at is not None and deadline.at <= now:
                return True
            heapq.heappop(self._alarms)
            if rang_at == deadline.alarm_at:
                deadline.alarm_at = inf
                if deadline.at is not None:
                    self._set_alarm(deadline, deadline.at)
        return False

    def take_due(self, now: float) -> Iterator[Deadline]:
        """Yields the deadlines that have passed by `now`, in monotonic seconds, the earliest first, and unsets each.

        The iterator is lazy: handling one deadline may move or clear the next.
        """
        while self._alarms and self._alarms[0][0] <= now:
            rang_at, _, deadline = heapq.heappop(self._alarms)
            if rang_at != deadline.alarm_at:
                continue  # another alarm is valid for this deadline
            deadline.alarm_at = inf
            if deadline.at is None:
                continue
            if deadline.at > rang_at:
                self._set_alarm(deadline, deadline.at)
                continue
            deadline.at = None
            yield deadline

    def _set_alarm(self, deadline: Deadline, at: float) -> None:
        deadline.alarm_at = at
        self._set += 1
        heapq.heappush(self._alarms, (at, self._set, deadline))

    def _drop_idle_alarms(self) -> None:
        """Removes the alarms of cleared deadlines: members that left must not stay in memory until their session's
        end."""
        idle = [alarm[2] for alarm in self._alarms if alarm[2].at is None]
        for deadline in idle:
            deadline.alarm_at = inf
        self._alarms = [alarm for alarm in self._alarms if alarm[2].alarm_at == alarm[0]]
        heapq.heapify(self._alarms)
        self._cleared = 0
