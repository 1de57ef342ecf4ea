"""Retries of requests with a retriable error: a coordinator that loads, a leader that moved, a broker that restarts.

Most such errors are over in a moment and worth waiting for. Some may last for days, such as a partition whose only
replica is on a broker that is gone. Readers retry those for as long as an election takes, and go on without an answer.
"""

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kcoord.admin.model import Answers, Refusal
from kcoord.admin.waiting import Waits
from kcoord.errors import ErrorCode

Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

PASSING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
    }
)
"""Errors that may be gone at the next attempt (RetriableException in Kafka's clients)."""

MAY_LAST: Final[Mapping[ErrorCode, float]] = {
    ErrorCode.leader_not_available: 2.0,
    ErrorCode.network_exception: 5.0,
    ErrorCode.coordinator_not_available: 5.0,
    ErrorCode.replica_not_available: 5.0,
    ErrorCode.kafka_storage_error: 5.0,
    ErrorCode.broker_not_available: 0.0,  # each attempt already waited for a long time
    ErrorCode.request_timed_out: 0.0,
}
"""How many seconds a reader retries after errors that may last as long as a broker is down."""
PATIENT: Final[Mapping[ErrorCode, float]] = {}
"""The `error_timeouts` of callers that would rather wait for the whole timeout than go on without an answer."""


@dataclass(slots=True)
class Round(Generic[Item, Value]):
    """The result of one attempt: values, and refusals by item."""

    found: dict[Item, Value] = field(default_factory=dict)
    refused: dict[Item, Refusal] = field(default_factory=dict)

    def refuse(self, item: Item, what: str, error: ErrorCode, message: str | None = None) -> None:
        self.refused[item] = Refusal(what=what, error=error, message=message or "")

    def take(self, asked: Collection[Item], answered: "Round[Item, Value]") -> list[Item]:
        """Merges the answers for the items that were asked for, ignores all others, and returns the items without an
        answer."""
        unanswered = []
        for item in asked:
            if item in answered.refused:
                self.refused[item] = answered.refused[item]
            elif item in answered.found:
                self.found[item] = answered.found[item]
            else:
                unanswered.append(item)
        return unanswered


def settle(
    items: Collection[Item],
    ask: Callable[[list[Item], Round[Item, Value]], None],
    *,
    patience: float,
    passing: frozenset[ErrorCode] = PASSING,
    may_last: Mapping[ErrorCode, float] = MAY_LAST,
    waits: Waits | None = None,
) -> Answers[Item, Value]:
    """Asks for all items, and retries those with a retriable error, with exponential backoff, until all are resolved or
    the timeout is over.

    An error in `error_timeouts` is retried for its own, shorter time. During the retries `waits` names what they are
    for.
    """
    found: dict[Item, Value] = {}
    refused: dict[Item, Refusal] = {}
    pending = list(dict.fromkeys(items))
    start = time.monotonic()
    pause = FIRST_PAUSE
    with ExitStack() as waiting:
        while pending:
            told: Round[Item, Value] = Round()
            ask(pending, told)
            found |= told.found
            refused |= told.refused
            asked_again_at = time.monotonic() + pause - start
            pending = [
                item
                for item, refusal in told.refused.items()
                if refusal.error in passing and asked_again_at <= min(patience, may_last.get(refusal.error, patience))
            ]
            if not pending:
                break
            if waits is not None and pause == FIRST_PAUSE:
                waiting.enter_context(waits.on(_format_pending(pending, told)))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            for item in pending:
                del refused[item]
    return Answers(found=found, refused=tuple(dict.fromkeys(refused.values())))


def _format_pending(pending: Collection[Item], told: Round[Item, Value]) -> str:
    """Formats the first refusal that is retried, and how many more there are."""
    first = next(iter(pending))
    others = f" and {len(pending) - 1:,} more" if len(pending) > 1 else ""
    return f"{told.refused[first]}{others}"
