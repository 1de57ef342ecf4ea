"""Effects: what must happen because of a request, or because time has passed.

Records are appended to the journal first; replies leave in order, and only once the records before them are durable
(D4). Events are for people: the log and the trace show them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from kcoord.groups.records import Record
from kcoord.groups.replies import Reply
from kcoord.tickets import Ticket


class EventType(StrEnum):
    """The kinds of events in the life of a group that the log and the metrics report."""

    MADE = "made"
    ID_GIVEN = "id-given"
    JOINED = "joined"
    REPLACED = "replaced"
    LEFT = "left"
    EXPIRED = "expired"
    DROPPED = "dropped"
    REBALANCING = "rebalancing"
    GENERATION = "generation"
    STABLE = "stable"
    EMPTY = "empty"
    DELETED = "deleted"


class Cause(StrEnum):
    """The causes of a rebalance, as logs and metrics name them."""

    JOINED = "joined"
    STATIC_RETURNED = "static-returned"
    NEW_SUBSCRIPTION = "new-subscription"
    LEADER_REJOINED = "leader-rejoined"  # it has seen partitions or topics change
    LEFT = "left"
    SESSION_EXPIRED = "session-expired"
    NOT_SYNCED = "not-synced"
    PLAN_TOO_LARGE = "plan-too-large"
    GROUP_TOO_LARGE = "group-too-large"


class Reason(NamedTuple):
    """Why a rebalance begins: one of a few causes, and a text that names the member or setting."""

    cause: Cause
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a group, such as a member that joined or a rebalance that began, for the log and the
    metrics. `what` is its kind, `why` a text for people."""

    what: EventType
    group_id: str
    generation: int
    member_id: str = ""
    why: str = ""
    cause: Cause | None = None  # set for REBALANCING


class Effects(NamedTuple):
    """What a request, or the passing of time, causes: `replies` to send, each with the ticket of the request that it
    answers, `records` to append to `__consumer_offsets` before they are sent, and `events` to log. Effects are added in
    order."""

    replies: tuple[tuple[Ticket, Reply], ...] = ()
    records: tuple[Record, ...] = ()
    events: tuple[Event, ...] = ()

    def __add__(self, later: "Effects") -> "Effects":  # type: ignore[override]  # not as tuples are added
        if self is NO_EFFECTS:
            return later
        if later is NO_EFFECTS:
            return self
        return Effects(self.replies + later.replies, self.records + later.records, self.events + later.events)


NO_EFFECTS = Effects()


def merge(many: Iterable[Effects]) -> Effects:
    """Merges many effects into one, in order. Adding them one by one would take quadratic time."""
    effects = list(many)
    return Effects(
        tuple(chain.from_iterable(each.replies for each in effects)),
        tuple(chain.from_iterable(each.records for each in effects)),
        tuple(chain.from_iterable(each.events for each in effects)),
    )


def answer(ticket: Ticket, reply: Reply) -> Effects:
    """Returns effects that answer the ticket's request with this reply."""
    return Effects(((ticket, reply),))


def emit(*events: Event) -> Effects:
    """Returns effects that have only these events."""
    return Effects((), (), events)
