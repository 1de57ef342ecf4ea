"""Holds answers back until the records that they depend on are committed (D4).

An asynchronous journal commits rounds, one after the other: a round is everything decided between two flushes. An
answer made while rounds are in flight waits for the last of them, even if it has no records itself: it may depend on
what the others have decided.
"""

from collections import deque
from typing import Protocol


class Rounds(Protocol):
    """The journal's progress."""

    @property
    def begun(self) -> int:
        """The number of the last round that was submitted."""

    @property
    def kept(self) -> int:
        """The number of the last round that is committed, with all before it."""


class Waiting(Protocol):
    """An answer that is held back."""

    def send(self) -> None: ...

    def ask_again(self) -> None:
        """Decides the request again: the records that the answer depends on are lost."""


class WaitingAnswers:
    """A queue of answers by the round that they wait for."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._waiting: deque[tuple[int, Waiting]] = deque()

    def send_when_kept(self, waiting: Waiting) -> None:
        if self._rounds.kept >= self._rounds.begun:
            waiting.send()
        else:
            self._waiting.append((self._rounds.begun, waiting))

    def kept(self) -> None:
        """Sends the answers whose round is now committed, in order."""
        while self._waiting and self._waiting[0][0] <= self._rounds.kept:
            _, waiting = self._waiting.popleft()
            waiting.send()

    def lost(self) -> None:
        """Discards all held answers and retries their requests. Groups are unloaded by now, so retries are refused."""
        lost, self._waiting = self._waiting, deque()
        for _, waiting in lost:
            waiting.ask_again()

    def __len__(self) -> int:
        return len(self._waiting)
