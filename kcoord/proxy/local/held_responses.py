"""Answers that wait until what they rest on is kept (D4).

A journal that takes its time keeps rounds, one after the other: all that was decided between two flushes is a round.
An answer that is made while rounds are under way waits for the last of them, even if it rests on none: it may tell of
what the others have decided.
"""

from collections import deque
from typing import Protocol


class Rounds(Protocol):
    """What is asked of the journal."""

    @property
    def begun(self) -> int:
        """How many rounds the journal was given so far."""

    @property
    def kept(self) -> int:
        """Up to which round all is kept."""


class Waiting(Protocol):
    """One who has an answer to send, or none any more."""

    def send(self) -> None: ...

    def ask_again(self) -> None:
        """What the answer rests on is lost: it was never decided."""


class WaitingAnswers:
    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._waiting: deque[tuple[int, Waiting]] = deque()

    def send_when_kept(self, waiting: Waiting) -> None:
        if self._rounds.kept >= self._rounds.begun:
            waiting.send()
        else:
            self._waiting.append((self._rounds.begun, waiting))

    def kept(self) -> None:
        """More is kept than before: the answers that waited for it leave, in their order."""
        while self._waiting and self._waiting[0][0] <= self._rounds.kept:
            _, waiting = self._waiting.popleft()
            waiting.send()

    def lost(self) -> None:
        """Nothing that waits may be said. Groups are closed by now, so that who asks again is told so."""
        lost, self._waiting = self._waiting, deque()
        for _, waiting in lost:
            waiting.ask_again()

    def __len__(self) -> int:
        return len(self._waiting)
