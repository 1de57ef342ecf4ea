"""Committed offsets of groups, many groups in one request if the broker supports it."""

from collections.abc import Collection
from itertools import compress
from typing import Any, Final

from kcoord.admin.groups.committed_offsets import Commits, TopicCommits, commits_of
from kcoord.admin.model import Answers, Committed, Resource, TopicPartition
from kcoord.admin.retry import Attempt, retry_until_resolved
from kcoord.admin.wire.apis import DESCRIBE_SHARE_GROUP_OFFSETS, OFFSET_FETCH
from kcoord.admin.wire.brokers import ApiResponse
from kcoord.admin.wire.coordinators import Coordinators, GroupQuery, Groups
from kcoord.errors import ErrorCode
from kcoord.protocol.schema.columns import columns_of

BATCHED_SINCE: Final = 8  # OffsetFetch (KIP-709)
GROUPS_PER_REQUEST: Final = 100
NO_OFFSET: Final = -1


def committed(coordinators: Coordinators, groups: Collection[str], *, timeout: float) -> Answers[str, Commits]:
    """Fetches all committed offsets of the groups (OffsetFetch); none for a group that the cluster does not know.

    A group is refused if the offset of one of its partitions is: otherwise it would look as if nothing were committed
    there.
    """

    def ask(pending: Groups, attempt: Attempt[str, Commits]) -> None:
        coordinators.ask(pending, commits_query(attempt))

    return retry_until_resolved(groups, ask, timeout=timeout, waits=coordinators.waits)


def commits_query(attempt: Attempt[str, Commits]) -> GroupQuery[Commits]:
    """Returns the query (OffsetFetch) for all committed offsets of groups, whose results go to `attempt`."""
    return GroupQuery(attempt, OFFSET_FETCH, _fetch_fields, _read_all_commits, GROUPS_PER_REQUEST, BATCHED_SINCE)


def _read_all_commits(answer: ApiResponse, asked: Groups, attempt: Attempt[str, Commits]) -> None:
    if answer.version < BATCHED_SINCE:
        _read_commits(asked[0], answer.response, attempt)
        return
    for each in answer.response.groups:
        _read_commits(each.group_id, each, attempt)


def _fetch_fields(groups: Groups) -> dict[str, Any]:
    return {
        "group_id": groups[0],
        "topics": None,
        "groups": [{"group_id": group, "topics": None} for group in groups],
        "require_stable": False,
    }


def _read_commits(group: str, response: Any, attempt: Attempt[str, Commits]) -> None:
    if response.error_code is not ErrorCode.none:
        attempt.refuse(group, Resource.GROUP, group, response.error_code)
        return
    topics = []
    for name, partitions in response.topics:
        if not partitions:
            continue
        numbers, offsets, epochs, metadata, errors = columns_of(partitions)
        if errors.count(ErrorCode.none) < len(errors):
            index, error = next(each for each in enumerate(errors) if each[1] is not ErrorCode.none)
            what = f"what it has committed for {TopicPartition(name, numbers[index])} is not told"
            attempt.refuse(group, Resource.GROUP, group, error, what)
            return
        topics.append(TopicCommits(name, numbers, offsets, epochs, metadata))
    attempt.found[group] = Commits([each for each in map(_without_gaps, topics) if each.partitions])


def _without_gaps(commits: TopicCommits) -> TopicCommits:
    """Drops the partitions without a committed offset."""
    if NO_OFFSET not in commits.offsets:
        return commits
    is_there = [offset != NO_OFFSET for offset in commits.offsets]
    columns: list[list[Any]] = [list(compress(column, is_there)) for column in commits[1:]]
    return TopicCommits(commits.topic, *columns)


def share_starts(coordinators: Coordinators, groups: Collection[str], *, timeout: float) -> Answers[str, Commits]:
    """Fetches the start offsets of share groups, and the lag that the broker reports (DescribeShareGroupOffsets)."""

    def ask(pending: Groups, attempt: Attempt[str, Commits]) -> None:
        coordinators.ask(
            pending, GroupQuery(attempt, DESCRIBE_SHARE_GROUP_OFFSETS, _fetch_fields, read, GROUPS_PER_REQUEST)
        )

    def read(answer: ApiResponse, _: Groups, attempt: Attempt[str, Commits]) -> None:
        for group in answer.response.groups:
            if group.error_code is not ErrorCode.none:
                attempt.refuse(group.group_id, Resource.GROUP, group.group_id, group.error_code, group.error_message)
                continue
            attempt.found[group.group_id] = commits_of(
                {
                    TopicPartition(topic.topic_name, each.partition_index): Committed(
                        each.start_offset, each.leader_epoch, reported_lag=_known_lag(each.lag)
                    )
                    for topic in group.topics
                    for each in topic.partitions
                    if each.error_code is ErrorCode.none and each.start_offset != NO_OFFSET
                }
            )

    return retry_until_resolved(groups, ask, timeout=timeout, waits=coordinators.waits)


def _known_lag(lag: int) -> int | None:
    return lag if lag >= 0 else None
