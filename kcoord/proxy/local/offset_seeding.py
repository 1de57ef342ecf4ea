"""Takes over a group's upstream offsets when a client first uses the group here.

Offsets are not taken over at the start: clients move from the upstream to the proxy one after the other, and what
counts is what a group had committed when its first member moved. A group is taken over by the first JoinGroup,
OffsetFetch, OffsetCommit or OffsetDelete that names it, if the journal does not know it; that request waits. Requests
that only list or describe groups (ListGroups, DescribeGroups) take over nothing.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import Refused
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.groups.committed_offsets import Commits
from kcoord.admin.model import GroupType
from kcoord.admin.offsets.cluster_state import STATES_WITHOUT_MEMBERS
from kcoord.admin.opening import open_cluster
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.groups.instant import Instant
from kcoord.groups.records import OffsetsStored
from kcoord.groups.topics import Topics
from kcoord.protocol.codec import decode_request
from kcoord.proxy.forwarding.interceptors import Request
from kcoord.server.groups.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.groups")

_SEEDING_APIS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.OFFSET_DELETE})
_FIRST_WITH_MANY_GROUPS: Final = 8  # OffsetFetch (KIP-709)


class UpstreamOffsets(NamedTuple):
    """A group on the upstream cluster: its committed offsets, and whether it has members."""

    commits: Commits
    has_members: bool


class OffsetSeeder:
    """Takes over the committed offsets of groups from the upstream cluster when a client first uses them here, for
    groups whose id matches `pattern`. `groups` are the proxy's, `topics` the upstream's.
    """

    def __init__(
        self,
        pattern: re.Pattern[str],
        upstream: Connection,
        groups: GroupRuntime,
        topics: Topics,
        now: Callable[[], Instant],
    ) -> None:
        self._pattern = pattern
        self._upstream = upstream
        self._groups = groups
        self._topics = topics
        self._now = now
        self._under_way: dict[str, asyncio.Task[bool]] = {}

    def groups_to_check(self, request: Request) -> list[str]:
        """Returns the group ids in a request that match the pattern. Raises CorruptMessage."""
        return [group_id for group_id in groups_in(request) if group_id and self._pattern.fullmatch(group_id)]

    def refusal(self, group_ids: Sequence[str]) -> ErrorCode | None:
        """Returns the error if one of these groups is not loaded from the journal yet, so that it is unknown whether to
        take it over; else None.

        The coordinator would return the same error, but decides later. By then the group may be loaded, and would be
        served without its upstream offsets.
        """
        refusals = map(self._groups.refusal_until_loaded, group_ids)
        return next((error for error in refusals if error is not None), None)

    def groups_to_seed(self, group_ids: Sequence[str]) -> list[str]:
        """Returns those of these groups whose offsets have to be taken over."""
        return [group_id for group_id in group_ids if self._must_be_seeded(group_id)]

    async def take_over(self, group_ids: Sequence[str]) -> None:
        """Copies the upstream's committed offsets of these groups. Raises ConnectionError or Refused if they cannot be
        fetched.
        """
        absent: set[str] = set()
        # Repeated if the journal was lost, and with it a group taken over here, while waiting for another.
        while wanted := [group_id for group_id in self.groups_to_seed(group_ids) if group_id not in absent]:
            for group_id in wanted:
                task = self._under_way.get(group_id)
                if task is None:
                    task = self._under_way[group_id] = asyncio.create_task(self._take_over(group_id))
                    task.add_done_callback(partial(self._done, group_id))
                if not await asyncio.shield(task):  # other requests may wait for it, too
                    absent.add(group_id)

    async def end(self) -> None:
        """Cancels what is being taken over, when the proxy stops."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, group_id: str, task: asyncio.Task[bool]) -> None:
        del self._under_way[group_id]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved; those who wait get it from the shield

    def _must_be_seeded(self, group_id: str) -> bool:
        return self._groups.is_available(group_id) and not self._groups.has_group(group_id)

    async def _take_over(self, group_id: str) -> bool:
        """Takes over one group; False if it has no offsets upstream."""
        found = await asyncio.to_thread(_ask, self._upstream, group_id)
        if not self._must_be_seeded(group_id):  # meanwhile it was added, or the journal was lost
            return True
        if found.has_members:
            log.warning("seeding group=%r: it has members upstream, which go on committing there", group_id)
        at = self._now()
        offsets = [
            OffsetsStored(
                group_id,
                each.topic,
                tuple(each.partitions),
                tuple(each.offsets),
                tuple(each.leader_epochs),
                tuple(text or "" for text in each.metadata),
                at.wall_ms,
                None,
                self._topics.topic_id(each.topic),
            )
            for each in found.commits.topics
        ]
        self._groups.import_offsets(offsets, at)
        level = logging.INFO if offsets else logging.DEBUG
        log.log(level, "seeded group=%r topics=%s offsets=%s", group_id, len(offsets), len(found.commits))
        return bool(offsets)


def groups_in(request: Request) -> list[str]:
    """Returns the group ids in a request, for the APIs that take groups over; empty for all others. Raises
    CorruptMessage.
    """
    if request.api_key not in _SEEDING_APIS:
        return []
    _, entity = decode_request(request.frame, request.api_key, request.api_version)
    if request.api_key == ApiKey.OFFSET_FETCH and request.api_version >= _FIRST_WITH_MANY_GROUPS:
        return [str(group.group_id) for group in entity.groups]
    return [str(entity.group_id)]


def _ask(upstream: Connection, group_id: str) -> UpstreamOffsets:
    """Fetches a group's upstream state; blocks. A group that does not exist has no offsets."""
    with open_cluster(upstream) as cluster:
        group = cluster.describe_groups([group_id]).found.get(group_id)
        if group is not None and group.type is GroupType.SHARE:
            return UpstreamOffsets(Commits(), has_members=False)
        committed = cluster.committed([group_id])
        if committed.refused:
            raise Refused(str(committed.refused[0]))
        return UpstreamOffsets(
            committed.found[group_id], has_members=group is not None and group.state not in STATES_WITHOUT_MEMBERS
        )
