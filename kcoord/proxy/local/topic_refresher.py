"""Lists the upstream's topics at the start, then periodically, and soon when a refresh is requested."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.opening import open_cluster
from kcoord.errors import ErrorCode
from kcoord.protocol.uuids import parse_uuid
from kcoord.proxy.local.upstream_topics import KnownTopic, MirroredTopics
from kcoord.server.clock import instant, now_ms
from kcoord.server.groups.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.groups")

_DEFAULT_PAUSE: Final = 60.0
_SHORT_PAUSE: Final = 5.0  # while topics are missing
_MIN_PAUSE: Final = 2.0  # however often a refresh is requested


class TopicRefresher:
    """Refreshes `topics`, the proxy's list of upstream topics, in the background. It deletes the offsets of deleted
    topics from `groups`, and then calls `drain_parked`.
    """

    def __init__(
        self, upstream: Connection, topics: MirroredTopics, groups: GroupRuntime, drain_parked: Callable[[], None]
    ) -> None:
        self._upstream = upstream
        self._topics = topics
        self._groups = groups
        self._drain_parked = drain_parked
        self._has_registered_offsets = False
        self._refresh_requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        topics.request_refresh = self._refresh_requested.set
        groups.on_partition_loaded = self._on_groups_loaded

    async def begin(self) -> None:
        """Lists all upstream topics once, then in the background. Raises ConnectionError or Refused."""
        await self._refresh()
        self._task = asyncio.create_task(self._repeat())

    async def end(self) -> None:
        """Stops refreshing, when the proxy stops."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _repeat(self) -> None:
        is_failing = False
        while True:
            pause = _SHORT_PAUSE if self._topics.has_missing else _DEFAULT_PAUSE
            await asyncio.sleep(_MIN_PAUSE)
            try:
                async with asyncio.timeout(pause - _MIN_PAUSE):
                    await self._refresh_requested.wait()
            except TimeoutError:
                pass
            self._refresh_requested.clear()
            try:
                await self._refresh()
                is_failing = False
            except Exception as error:  # any error may be temporary; the known topics stay
                if not is_failing:
                    log.warning("the upstream's topics cannot be listed: those that are known count why=%r", str(error))
                is_failing = True

    def _on_groups_loaded(self) -> None:
        """Requests a refresh after groups were loaded: they may have offsets of topics that have been deleted."""
        self._has_registered_offsets = False
        self._refresh_requested.set()

    async def _refresh(self) -> None:
        """Lists all topics, and asks for missing ones by name; both block, in a thread."""
        if not self._has_registered_offsets and not self._groups.is_loading:
            self._has_registered_offsets = True
            self._topics.expect(self._groups.topics_of_offsets(), now_ms())
        asked_at_ms = now_ms()
        listed = await asyncio.to_thread(_list_topics, self._upstream)
        suspects = self._topics.on_listed(listed, asked_at_ms)
        if not suspects:
            return
        for name in await asyncio.to_thread(_deleted_topics, self._upstream, suspects, listed):
            for topic_id, recreated in self._topics.on_deleted(name):
                log.info("topic deleted upstream: its offsets go topic=%r id=%s", name, topic_id)
                self._groups.topic_deleted(name, topic_id, instant(), recreated=recreated)
        self._drain_parked()


def _list_topics(upstream: Connection) -> dict[str, KnownTopic]:
    with open_cluster(upstream) as cluster:
        return {
            name: KnownTopic(parse_uuid(topic.id), len(topic.leaders))
            for name, topic in cluster.topics().found.items()
            if topic.id is not None and topic.leaders
        }


def _deleted_topics(upstream: Connection, names: Collection[str], listed: Collection[str]) -> list[str]:
    """Returns the names of deleted topics: the upstream has no such topic, or a new one with the name."""
    with open_cluster(upstream) as cluster:
        return [name for name in names if name in listed or _is_unknown(cluster, name)]


def _is_unknown(cluster: ClusterClient, name: str) -> bool:
    answers = cluster.topics([name])
    return any(refusal.error is ErrorCode.unknown_topic_or_partition for refusal in answers.refused)
