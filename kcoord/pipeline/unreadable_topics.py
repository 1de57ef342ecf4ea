"""Warns of what a stream of a live cluster skips because the cluster refuses it for good: topics that the user may not
read.

The stream cannot warn: Spark plans it in a process whose output nobody sees. So this process asks the cluster too,
when the stream begins and in intervals, and reports each refusal once.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.retry import RETRIABLE
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.pipeline.sources.live_log import GONE
from kcoord.pipeline.sources.live_plan import NothingToRead, TopicSelection, find_topics

_INTERVAL: Final = 300.0
_JOIN_TIMEOUT: Final = 5.0  # seconds for a request that is in flight when the stream ends

Warn = Callable[[str], None]
"""Called with what is not read, and why."""


class UnreadableTopics:
    """Asks a live cluster which topics it does not let a stream read (ACLs, missing topics), and remembers what was
    reported."""

    def __init__(self, connection: Connection, choice: TopicSelection) -> None:
        self._connection = connection
        self._choice = choice
        self._reported: set[str] = set()

    def new_refusals(self) -> list[str]:
        """Asks the cluster, and returns a text for each topic that cannot be read and was not reported before. Returns
        none while the cluster does not answer: the stream retries or fails by itself."""
        try:
            refused = self._refused()
        except NothingToRead as error:
            refused = [str(error)]
        except Exception:  # only a warning: nothing depends on it
            return []
        new = [each for each in dict.fromkeys(refused) if each not in self._reported]
        self._reported.update(new)
        return new

    def _refused(self) -> list[str]:
        with closing(LogFetcher(self._connection)) as fetching:
            topics, refused = find_topics(self._connection, fetching, self._choice)
            ends = fetching.stable_ends([tp for topic in topics for tp in topic.partitions])
        # A missing topic is reported only if the user named it; the reader reports other topics as gaps.
        lasting = [
            each for each in refused if each.error not in RETRIABLE and (self._choice.topics or each.error not in GONE)
        ]
        return [
            str(each) for each in (*lasting, *(each for each in ends.refused if each.error not in RETRIABLE | GONE))
        ]


@contextmanager
def unreadable_reported(
    connection: Connection, choice: TopicSelection, warn: Warn, *, interval: float = _INTERVAL
) -> Iterator[None]:
    """Calls `warn` for each topic that the cluster does not let a stream read, at the beginning of the `with` block and
    every `interval` seconds."""
    unread = UnreadableTopics(connection, choice)
    is_over = threading.Event()

    def warn_of_new() -> None:
        for each in unread.new_refusals():
            warn(each)

    def poll() -> None:
        while not is_over.wait(interval):
            warn_of_new()

    warn_of_new()
    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield
    finally:
        is_over.set()
        poller.join(_JOIN_TIMEOUT)
