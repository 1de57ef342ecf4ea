"""Holds answers back until the records that they depend on are committed (D4).

An asynchronous journal commits rounds, one after the other: a round is everything decided between two flushes. An
answer made while rounds are in flight waits for the last of them, even if it has no records itself: it may depend on
what the others have decided.
"""

from collections import deque
from typing import Protocol


class CommitSequence(Protocol):
    """The progress of an asynchronous journal, which commits rounds of records one after the other. A round is
    everything that was decided between two flushes.
    """

    @property
    def submitted(self) -> int:
        """The number of the last round of journal records that was submitted for commit."""

    @property
    def committed(self) -> int:
        """The number of the last round of journal records that is committed; all before it are, too."""


class HeldResponse(Protocol):
    """A response that is held back until the records that it depends on are committed to the journal (the topic with
    groups' records).
    """

    def send(self) -> None:
        """Sends the response to the client."""

    def retry(self) -> None:
        """Has the request decided again, because the records that the response depends on are lost."""


class HeldResponses:
    """The queue of responses that are held back, each until the records that it depends on are committed to the
    journal.
    """

    def __init__(self, sequence: CommitSequence) -> None:
        self._sequence = sequence
        self._held: deque[tuple[int, HeldResponse]] = deque()

    def send_when_committed(self, response: HeldResponse) -> None:
        """Sends the response at once if everything submitted to the journal (the topic with groups' records) is
        committed, else holds it back.
        """
        if self._sequence.committed >= self._sequence.submitted:
            response.send()
        else:
            self._held.append((self._sequence.submitted, response))

    def on_committed(self) -> None:
        """Sends the held responses, in order, whose round of records is now committed to the journal."""
        while self._held and self._held[0][0] <= self._sequence.committed:
            _, response = self._held.popleft()
            response.send()

    def on_lost(self) -> None:
        """Drops all held responses, because the records that they depend on are lost, and retries their requests.
        Groups are unloaded by now, so retries are refused.
        """
        lost, self._held = self._held, deque()
        for _, response in lost:
            response.retry()

    def __len__(self) -> int:
        return len(self._held)
