"""Holds answers back until the records that they depend on are committed (D4).

An asynchronous journal commits rounds, one after the other: a round is everything decided between two flushes. An
answer made while rounds are in flight waits for the last of them, even if it has no records itself: it may depend on
what the others have decided.
"""

from collections import deque
from typing import Protocol


class CommitSequence(Protocol):
    """The journal's progress."""

    @property
    def submitted(self) -> int:
        """The number of the last round that was submitted."""

    @property
    def committed(self) -> int:
        """The number of the last round that is committed, with all before it."""


class HeldResponse(Protocol):
    """An answer that is held back."""

    def send(self) -> None: ...

    def retry(self) -> None:
        """Decides the request again: the records that the answer depends on are lost."""


class HeldResponses:
    """A queue of answers by the round that they wait for."""

    def __init__(self, sequence: CommitSequence) -> None:
        self._sequence = sequence
        self._held: deque[tuple[int, HeldResponse]] = deque()

    def send_when_committed(self, response: HeldResponse) -> None:
        if self._sequence.committed >= self._sequence.submitted:
            response.send()
        else:
            self._held.append((self._sequence.submitted, response))

    def on_committed(self) -> None:
        """Sends the answers whose round is now committed, in order."""
        while self._held and self._held[0][0] <= self._sequence.committed:
            _, response = self._held.popleft()
            response.send()

    def on_lost(self) -> None:
        """Discards all held answers and retries their requests. Groups are unloaded by now, so retries are refused."""
        lost, self._held = self._held, deque()
        for _, response in lost:
            response.retry()

    def __len__(self) -> int:
        return len(self._held)
