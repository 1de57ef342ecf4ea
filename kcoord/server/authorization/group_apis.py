"""Guards of the group APIs, with the checks of KafkaApis.

| API                   | needs                               | otherwise                                            |
|-----------------------|-------------------------------------|------------------------------------------------------|
| JoinGroup, SyncGroup, | read group                          | GROUP_AUTHORIZATION_FAILED                           |
| Heartbeat, LeaveGroup |                                     |                                                      |
| OffsetCommit          | read group                          | the same on every partition                          |
|                       | read topic                          | TOPIC_AUTHORIZATION_FAILED on its partitions         |
| OffsetFetch           | describe group                      | GROUP_AUTHORIZATION_FAILED on the group              |
|                       | describe topic                      | TOPIC_AUTHORIZATION_FAILED on its partitions; if all |
|                       |                                     | topics are requested, only those it may describe     |
| OffsetDelete          | delete group                        | GROUP_AUTHORIZATION_FAILED                           |
|                       | read topic                          | TOPIC_AUTHORIZATION_FAILED on its partitions         |
| DescribeGroups        | describe group                      | GROUP_AUTHORIZATION_FAILED on the group              |
| ListGroups            | describe cluster, or describe group | only the groups that it may describe                 |
| DeleteGroups          | delete group                        | GROUP_AUTHORIZATION_FAILED on the group              |

The checks do not depend on whether the group or topic exists, so a denial does not reveal it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.broker.cluster import Cluster
from kcoord.errors import ErrorCode
from kcoord.groups.offsets import fetching
from kcoord.groups.offsets.partition_results import PartitionResults, results_for, to_topics
from kcoord.groups.replies import (
    OPERATIONS_NOT_ASKED_FOR,
    CommitReply,
    DeletedGroup,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribedGroup,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListGroupsReply,
    OffsetGroup,
    Reply,
    SyncReply,
    TopicErrors,
)
from kcoord.groups.requests import (
    Commit,
    CommittedTopic,
    DeleteGroups,
    DeleteOffsets,
    FetchOffsets,
    ListGroups,
    RequestedGroup,
    Sync,
    TopicPartitions,
)
from kcoord.security.rules import Kind, Operation
from kcoord.server.authorization.item_guard import ItemGuard, on_group, refused_first
from kcoord.server.authorization.permissions import Decide, Guard, Permissions, may_topic_or_id, split_allowed

_GROUP_DENIED: Final = ErrorCode.group_authorization_failed
_TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed


def members_guard(refused: Reply) -> Guard:
    """Returns a guard, which authorizes requests of group members: they need READ on their group, or get the reply
    `refused`.
    """

    def guard(request: Any, permissions: Permissions, cluster: Cluster, decide: Decide[Any, Any]) -> Any:
        return decide(request) if permissions.may_group(Operation.READ, request.group_id) else refused

    return guard


def sync(request: Sync, permissions: Permissions, cluster: Cluster, decide: Decide[Sync, SyncReply]) -> SyncReply:
    """Authorizes SyncGroup requests, which need READ on the group. A missing protocol is an error that comes before the
    check.
    """
    if request.lacks_protocol or permissions.may_group(Operation.READ, request.group_id):
        return decide(request)
    return SyncReply(error_code=_GROUP_DENIED)


def commit(
    request: Commit, permissions: Permissions, cluster: Cluster, decide: Decide[Commit, CommitReply]
) -> CommitReply:
    """Authorizes OffsetCommit requests, which need READ on the group and on each topic. `decide` gets the allowed
    topics, the others get an error.
    """
    if not permissions.may_group(Operation.READ, request.group_id):
        return CommitReply(topics=_refused(request.topics, _GROUP_DENIED))
    pairs = request.by_topic()
    allowed, denied = split_allowed(pairs, lambda pair: _may_topic(permissions, cluster, pair[0], Operation.READ))
    if not denied:  # the identical request object, so that its commit template still matches
        return decide(request)
    topics, offsets = [topic for topic, _ in allowed], chain.from_iterable(committed for _, committed in allowed)
    reply = decide(request._replace(topics=tuple(topics), offsets=tuple(offsets)))
    return reply._replace(topics=_merged([topic for topic, _ in denied], _TOPIC_DENIED) + reply.topics)


def fetch_offsets(
    request: FetchOffsets, permissions: Permissions, cluster: Cluster, decide: Decide[FetchOffsets, FetchOffsetsReply]
) -> FetchOffsetsReply:
    """Authorizes OffsetFetch requests, which need DESCRIBE on the group and on each topic. `decide` gets the allowed
    part, the rest gets an error.
    """
    split = [_split_topics(asked, permissions, cluster) for asked in request.groups]
    visible = [part.asked for part in split if part.is_visible]
    reply = decide(replace(request, groups=tuple(visible)))
    decided = iter(reply.groups)
    groups = [
        _visible_offsets(next(decided), part, permissions)
        if part.is_visible
        else fetching.refuse(part.asked, _GROUP_DENIED)
        for part in split
    ]
    return replace(reply, groups=tuple(groups))


def delete_offsets(
    request: DeleteOffsets,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[DeleteOffsets, DeleteOffsetsReply],
) -> DeleteOffsetsReply:
    """Authorizes OffsetDelete requests, which need DELETE on the group and READ on each topic. `decide` gets the
    allowed topics, the others get an error.
    """
    if not permissions.may_group(Operation.DELETE, request.group_id):
        return DeleteOffsetsReply(error_code=_GROUP_DENIED)
    allowed, denied = split_allowed(
        request.topics, lambda topic: _may_topic(permissions, cluster, topic, Operation.READ)
    )
    reply = decide(replace(request, topics=allowed))
    return reply if reply.error_code else replace(reply, topics=_merged(denied, _TOPIC_DENIED) + reply.topics)


def list_groups(
    request: ListGroups, permissions: Permissions, cluster: Cluster, decide: Decide[ListGroups, ListGroupsReply]
) -> ListGroupsReply:
    """Authorizes ListGroups requests: without DESCRIBE on the cluster, only groups that the principal may describe are
    listed.
    """
    reply = decide(request)
    if permissions.may_silently(Operation.DESCRIBE, Kind.CLUSTER):
        return reply
    seen = [group for group in reply.groups if permissions.may_silently(Operation.DESCRIBE, Kind.GROUP, group.group_id)]
    return replace(reply, groups=tuple(seen))


def delete_groups(
    request: DeleteGroups, permissions: Permissions, cluster: Cluster, decide: Decide[DeleteGroups, DeleteGroupsReply]
) -> DeleteGroupsReply:
    """Authorizes DeleteGroups requests, which need DELETE on each group. `decide` gets the allowed groups, the others
    get an error.
    """
    asked = tuple(dict.fromkeys(request.group_ids))
    allowed, denied = split_allowed(asked, lambda name: permissions.may_group(Operation.DELETE, name))
    reply = decide(replace(request, group_ids=allowed))
    refused = [DeletedGroup(group_id=name, error_code=_GROUP_DENIED) for name in denied]
    return replace(reply, results=(*reply.results, *refused))


def _may_topic(
    permissions: Permissions, cluster: Cluster, topic: CommittedTopic | TopicPartitions, operation: Operation
) -> bool:
    return may_topic_or_id(permissions, cluster, operation, topic.name, topic.topic_id)


class _SplitGroup(NamedTuple):
    """A requested group: whether it may be described, the allowed part of the request, and the hidden topics."""

    is_visible: bool
    asked: RequestedGroup
    hidden: tuple[TopicPartitions, ...]


def _split_topics(asked: RequestedGroup, permissions: Permissions, cluster: Cluster) -> _SplitGroup:
    if not permissions.may_group(Operation.DESCRIBE, asked.group_id):
        return _SplitGroup(False, asked, ())
    if asked.topics is None:
        return _SplitGroup(True, asked, ())
    seen, hidden = split_allowed(
        asked.topics, lambda topic: _may_topic(permissions, cluster, topic, Operation.DESCRIBE)
    )
    return _SplitGroup(True, replace(asked, topics=seen), hidden)


def _visible_offsets(group: OffsetGroup, part: _SplitGroup, permissions: Permissions) -> OffsetGroup:
    """Returns the offsets of a group, with an error instead of those of hidden topics."""
    if group.error_code:
        return group
    if part.asked.topics is None:
        seen = [
            topic
            for topic in group.topics
            if permissions.may_silently(Operation.DESCRIBE, Kind.TOPIC, topic.name or "")
        ]
        return replace(group, topics=tuple(seen))
    refused = fetching.refuse(replace(part.asked, topics=part.hidden), _TOPIC_DENIED)
    return replace(group, topics=group.topics + refused.topics)


def _with_operations(group: DescribedGroup, permissions: Permissions) -> DescribedGroup:
    if group.authorized_operations == OPERATIONS_NOT_ASKED_FOR:
        return group
    return replace(group, authorized_operations=permissions.operations(Kind.GROUP, group.group_id))


def _refused(topics: tuple[CommittedTopic, ...], error: ErrorCode) -> tuple[TopicErrors, ...]:
    return tuple(
        TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=results_for(topic.partitions, error))
        for topic in topics
    )


def _merged(topics: Iterable[CommittedTopic | TopicPartitions], error: ErrorCode) -> tuple[TopicErrors, ...]:
    """Returns one error for all partitions, with each topic once."""
    return to_topics(
        [
            PartitionResults(name=topic.name, topic_id=topic.topic_id, missing=results_for(topic.partitions, error))
            for topic in topics
        ]
    )


GUARDS: Final[Mapping[int, Guard]] = {
    ApiKey.OFFSET_COMMIT: commit,
    ApiKey.OFFSET_FETCH: fetch_offsets,
    ApiKey.JOIN_GROUP: members_guard(JoinReply(member_id="", error_code=_GROUP_DENIED)),
    ApiKey.HEARTBEAT: members_guard(HeartbeatReply(error_code=_GROUP_DENIED)),
    ApiKey.LEAVE_GROUP: members_guard(LeaveReply(error_code=_GROUP_DENIED)),
    ApiKey.SYNC_GROUP: sync,
    ApiKey.DESCRIBE_GROUPS: ItemGuard(
        items="group_ids",
        needs=on_group(Operation.DESCRIBE),
        results="groups",
        refused=lambda denied: [DescribedGroup(group_id=group_id, error_code=_GROUP_DENIED) for group_id in denied],
        shown=_with_operations,
        order=refused_first,
    ),
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.OFFSET_DELETE: delete_offsets,
}
"""By API key."""
