"""Asking again for what is not settled yet: a coordinator that loads, a leader that moved, a broker that restarts."""

import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kcoord.admin.model import Answers, Refusal
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
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
    }
)
"""Errors that may be gone when one asks again."""


@dataclass(slots=True)
class Round(Generic[Item, Value]):
    """What one round of asking brought: values, and refusals by item."""

    found: dict[Item, Value] = field(default_factory=dict)
    refused: dict[Item, Refusal] = field(default_factory=dict)

    def refuse(self, item: Item, what: str, error: ErrorCode, message: str | None = None) -> None:
        self.refused[item] = Refusal(what=what, error=error, message=message or "")

    def take(self, asked: Collection[Item], answered: "Round[Item, Value]") -> list[Item]:
        """Take over what was answered to what was asked, and nothing else; what was not answered is returned."""
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
) -> Answers[Item, Value]:
    """Ask for all items, and again for those that were refused for now, until all are settled or patience ends."""
    found: dict[Item, Value] = {}
    refused: dict[Item, Refusal] = {}
    pending = list(dict.fromkeys(items))
    deadline = time.monotonic() + patience
    pause = FIRST_PAUSE
    while pending:
        told: Round[Item, Value] = Round()
        ask(pending, told)
        found |= told.found
        refused |= told.refused
        pending = [item for item, refusal in told.refused.items() if refusal.error in passing]
        if not pending or time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        for item in pending:
            del refused[item]
    return Answers(found=found, refused=tuple(dict.fromkeys(refused.values())))
