"""Waits for members of a group, and for their commits, between the tour's command lines."""

import time
from collections.abc import Callable
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client

from .step import TourFailed

_TIMEOUT = 60.0


class TourGroup:
    """The consumer group of the tour, polled at its coordinator: the tour (`kcoord demo`) waits by it for members and
    commits."""

    def __init__(self, address: str, group: str) -> None:
        self._group = group
        host, _, port = address.rpartition(":")
        self._client = Client(host, int(port), client_id="tour")

    def close(self) -> None:
        """Closes the connection to the coordinator."""
        self._client.close()

    def wait_until_stable(self, members: int) -> None:
        """Waits until the group is stable with so many members."""

        def is_stable() -> bool:
            described = self._described()
            return bool(described.group_state == "Stable" and len(described.members) == members)

        self._wait(is_stable, f"{members} members in a stable group")

    def wait_until_empty(self) -> None:
        """Waits until the last member has left."""
        self._wait(lambda: bool(self._described().group_state == "Empty"), "the members to leave")

    def wait_until_committed(self, topic: str, partitions: int, records: int) -> None:
        """Waits until the offsets committed for the topic add up to so many records."""
        asked = {"group_id": self._group, "topics": [{"name": topic, "partition_indexes": list(range(partitions))}]}

        def is_committed() -> bool:
            answer = self._client.ask(ApiKey.OFFSET_FETCH, 8, groups=[asked]).groups[0]
            return bool(sum(line.committed_offset for line in answer.topics[0].partitions) == records)

        self._wait(is_committed, f"the members to commit {records:,} records")

    def _described(self) -> Any:
        return self._client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[self._group]).groups[0]

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not is_so():
            if time.monotonic() > deadline:
                raise TourFailed(f"waited {_TIMEOUT:.0f} s for {what}")
            time.sleep(0.05)
