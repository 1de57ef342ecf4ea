"""Retries of requests with a retriable error: a coordinator that loads, a leader that moved, a broker that restarts.

Most such errors are over in a moment and worth waiting for. Some may last for days, such as a partition whose only
replica is on a broker that is gone. Readers retry those for as long as an election takes, and go on without an answer.
"""

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kcoord.admin.model import Answers, Refusal, Resource, TopicPartition
from kcoord.admin.waiting import Waits
from kcoord.errors import ErrorCode

Item = TypeVar("Item", bound=Hashable)
Value = TypeVar("Value")

INITIAL_BACKOFF: Final = 0.05
MAX_BACKOFF: Final = 1.0

RETRIABLE: Final = frozenset(
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

ERROR_TIMEOUTS: Final[Mapping[ErrorCode, float]] = {
    ErrorCode.leader_not_available: 2.0,
    ErrorCode.network_exception: 5.0,
    ErrorCode.coordinator_not_available: 5.0,
    ErrorCode.replica_not_available: 5.0,
    ErrorCode.kafka_storage_error: 5.0,
    ErrorCode.broker_not_available: 0.0,  # each attempt already waited for a long time
    ErrorCode.request_timed_out: 0.0,
}
"""How many seconds a reader retries after errors that may last as long as a broker is down."""
NO_ERROR_TIMEOUTS: Final[Mapping[ErrorCode, float]] = {}
"""The `error_timeouts` of callers that would rather wait for the whole timeout than go on without an answer."""


@dataclass(slots=True)
class Attempt(Generic[Item, Value]):
    """The results of one attempt of a request that may be retried: for each item (a group, a partition …) a value or a
    refusal."""

    found: dict[Item, Value] = field(default_factory=dict)
    refused: dict[Item, Refusal] = field(default_factory=dict)

    def refuse(
        self, item: Item, kind: Resource, name: str | TopicPartition, error: ErrorCode, message: str | None = None
    ) -> None:
        """Records the error of one item as a refusal."""
        self.refused[item] = Refusal(kind=kind, name=name, error=error, message=message or "")

    def merge(self, asked: Collection[Item], answered: "Attempt[Item, Value]") -> list[Item]:
        """Adds the results of another attempt for the items that it was asked for, ignores all others, and returns the
        items without a result."""
        unanswered = []
        for item in asked:
            if item in answered.refused:
                self.refused[item] = answered.refused[item]
            elif item in answered.found:
                self.found[item] = answered.found[item]
            else:
                unanswered.append(item)
        return unanswered


def retry_until_resolved(
    items: Collection[Item],
    ask: Callable[[list[Item], Attempt[Item, Value]], None],
    *,
    timeout: float,
    retriable: frozenset[ErrorCode] = RETRIABLE,
    error_timeouts: Mapping[ErrorCode, float] = ERROR_TIMEOUTS,
    waits: Waits | None = None,
) -> Answers[Item, Value]:
    """Requests all items by `ask`, and retries those with a retriable error, with exponential backoff, until all are
    resolved or the timeout (in seconds) is over.

    An error in `error_timeouts` is retried for its own, shorter time. During the retries `waits` names what they are
    for.
    """
    found: dict[Item, Value] = {}
    refused: dict[Item, Refusal] = {}
    pending = list(dict.fromkeys(items))
    start = time.monotonic()
    backoff = INITIAL_BACKOFF
    with ExitStack() as waiting:
        while pending:
            attempt: Attempt[Item, Value] = Attempt()
            ask(pending, attempt)
            found |= attempt.found
            refused |= attempt.refused
            asked_again_at = time.monotonic() + backoff - start
            pending = [
                item
                for item, refusal in attempt.refused.items()
                if refusal.error in retriable
                and asked_again_at <= min(timeout, error_timeouts.get(refusal.error, timeout))
            ]
            if not pending:
                break
            if waits is not None and backoff == INITIAL_BACKOFF:
                waiting.enter_context(waits.on(_format_pending(pending, attempt)))
            time.sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF)
            for item in pending:
                del refused[item]
    return Answers(found=found, refused=tuple(dict.fromkeys(refused.values())))


def _format_pending(pending: Collection[Item], attempt: Attempt[Item, Value]) -> str:
    """Formats the first refusal that is retried, and how many more there are."""
    first = next(iter(pending))
    others = f" and {len(pending) - 1:,} more" if len(pending) > 1 else ""
    return f"{attempt.refused[first]}{others}"
