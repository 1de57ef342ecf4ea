"""Changes of groups: their offsets, their members, their deletion.

After a broken connection or a request timeout nothing is retried: the change may have been made. After other retriable
errors it is retried, although the change may have been made even then: so a repeated change must do no harm, and a
caller that needs to know what was done reads the state again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from kcoord.admin.model import (
    Answers,
    Committed,
    GroupType,
    MemberToRemove,
    Refusal,
    Resource,
    TopicPartition,
    by_topic,
)
from kcoord.admin.retry import NO_ERROR_TIMEOUTS, RETRIABLE, Attempt, retry_until_resolved
from kcoord.admin.wire.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    Api,
)
from kcoord.admin.wire.brokers import ApiResponse, chunked
from kcoord.admin.wire.coordinators import Coordinators, GroupQuery, Groups
from kcoord.errors import ErrorCode

GROUPS_PER_REQUEST: Final = 100
PARTITIONS_PER_COMMIT: Final = 5000
NO_GENERATION: Final = -1
LEAVE_EPOCH: Final = -1  # the epoch of a heartbeat that leaves the group (KIP-848)

_SAFE_TO_RETRY: Final = RETRIABLE - {ErrorCode.network_exception, ErrorCode.request_timed_out}
_HEARTBEATS: Final = {
    GroupType.CONSUMER: CONSUMER_GROUP_HEARTBEAT,
    GroupType.SHARE: SHARE_GROUP_HEARTBEAT,
    GroupType.STREAMS: STREAMS_GROUP_HEARTBEAT,
}
# Fields of a streams heartbeat that must be null: empty lists have a meaning, and a broker refuses some of them.
_STREAMS_FIELDS: Final = (
    *("active_tasks", "standby_tasks", "warmup_tasks"),
    *("client_tags", "task_offsets", "task_end_offsets"),
)
_NULL_STREAMS_FIELDS: Final = dict.fromkeys(_STREAMS_FIELDS)


def commit(
    coordinators: Coordinators, group: str, offsets: Mapping[TopicPartition, Committed], *, timeout: float
) -> Answers[TopicPartition, ErrorCode]:
    """Commits offsets for a group (OffsetCommit) without a member and a generation, which a coordinator accepts only
    for groups without members. Returns the error code of each partition.

    After a refusal no more requests are sent: the remaining partitions get OPERATION_NOT_ATTEMPTED.
    """
    errors: dict[TopicPartition, ErrorCode] = {}
    refused: list[Refusal] = []
    for chunk in chunked(offsets, PARTITIONS_PER_COMMIT):
        if refused:
            errors |= dict.fromkeys(chunk, ErrorCode.operation_not_attempted)
            continue
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": NO_GENERATION,
            "member_id": "",
            "topics": [
                {"name": topic, "partitions": [_commit_fields(tp, offsets[tp]) for tp in tps]}
                for topic, tps in by_topic(chunk).items()
            ],
        }
        answers = _change(coordinators, group, OFFSET_COMMIT, fields, chunk, _partition_errors, timeout)
        errors |= answers.found
        refused += answers.refused
    return Answers(found=errors, refused=tuple(refused))


def _commit_fields(tp: TopicPartition, offset: Committed) -> dict[str, Any]:
    return {
        "partition_index": tp.partition,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "committed_metadata": offset.metadata,
    }


def delete_offsets(
    coordinators: Coordinators, group: str, partitions: Collection[TopicPartition], *, timeout: float
) -> Answers[TopicPartition, ErrorCode]:
    """Deletes committed offsets of a group (OffsetDelete), and returns the error code of each partition."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": tp.partition} for tp in tps]}
        for topic, tps in by_topic(partitions).items()
    ]
    fields = {"group_id": group, "topics": topics}
    return _change(coordinators, group, OFFSET_DELETE, fields, partitions, _partition_errors, timeout)


def remove_members(
    coordinators: Coordinators, group: str, members: Collection[MemberToRemove], *, reason: str, timeout: float
) -> Answers[MemberToRemove, ErrorCode]:
    """Removes members from a classic group (LeaveGroup), and returns the error code of each."""
    identities = [
        {"member_id": member.member_id, "group_instance_id": member.instance_id, "reason": reason} for member in members
    ]

    def read(response: Any) -> Iterable[tuple[MemberToRemove, ErrorCode]]:
        for member, removed in zip(
            members, response.members, strict=False
        ):  # members without an answer count as refused
            yield member, removed.error_code

    fields = {"group_id": group, "members": identities}
    return _change(coordinators, group, LEAVE_GROUP, fields, members, read, timeout)


def remove_modern_members(
    coordinators: Coordinators, group: str, kind: GroupType, members: Collection[MemberToRemove], *, timeout: float
) -> Answers[MemberToRemove, ErrorCode]:
    """Removes members by a last heartbeat in their name, as members of KIP-848, share and streams groups leave. Returns
    the error code of each."""
    errors: dict[MemberToRemove, ErrorCode] = {}
    refused: list[Refusal] = []
    for member in members:
        fields = {
            "group_id": group,
            "member_id": member.member_id,
            "member_epoch": LEAVE_EPOCH,
            "instance_id": member.instance_id,
            **_NULL_STREAMS_FIELDS,
        }
        answers = _change(coordinators, group, _HEARTBEATS[kind], fields, [member], partial(_removed, member), timeout)
        errors |= answers.found
        refused += answers.refused
    return Answers(found=errors, refused=tuple(refused))


def _removed(member: MemberToRemove, _: Any) -> Iterable[tuple[MemberToRemove, ErrorCode]]:
    """Reads the answer to a heartbeat. It is about one member, so that any error is that of the whole response."""
    return [(member, ErrorCode.none)]


def delete_groups(coordinators: Coordinators, names: Collection[str], *, timeout: float) -> Answers[str, ErrorCode]:
    """Deletes groups (DeleteGroups), and returns the error code of each. One that was deleted by a request whose
    response was an error may get GROUP_ID_NOT_FOUND."""

    def ask(pending: Groups, attempt: Attempt[str, ErrorCode]) -> None:
        coordinators.ask(pending, GroupQuery(attempt, DELETE_GROUPS, fields, read, GROUPS_PER_REQUEST))

    def fields(chunk: Groups) -> dict[str, Any]:
        return {"groups_names": chunk}

    def read(answer: ApiResponse, asked: Groups, attempt: Attempt[str, ErrorCode]) -> None:
        for each in answer.response.results:
            if each.group_id not in asked:
                continue  # otherwise it would be retried, and deleted
            if each.error_code is ErrorCode.none:
                attempt.found[each.group_id] = ErrorCode.none
            else:
                attempt.refuse(each.group_id, Resource.GROUP, each.group_id, each.error_code)

    answers = retry_until_resolved(
        names,
        ask,
        timeout=timeout,
        retriable=_SAFE_TO_RETRY,
        error_timeouts=NO_ERROR_TIMEOUTS,
        waits=coordinators.waits,
    )
    failed = {refusal.name: refusal.error for refusal in answers.refused}
    errors = {
        name: ErrorCode.none if name in answers.found else failed.get(name, ErrorCode.unknown_server_error)
        for name in names
    }
    return Answers(found=errors, refused=answers.refused)


Part = TypeVar("Part", TopicPartition, MemberToRemove)


def _change(
    coordinators: Coordinators,
    group: str,
    api: Api,
    fields: Mapping[str, Any],
    parts: Collection[Part],
    read: Callable[[Any], Iterable[tuple[Part, ErrorCode]]],
    timeout: float,
) -> Answers[Part, ErrorCode]:
    """Asks the group's coordinator for a change; each part gets its error in the last answer.

    If the whole request was refused each part gets that error; a part that is missing in the answer gets
    UNKNOWN_SERVER_ERROR.
    """
    last: dict[Part, ErrorCode] = {}

    def ask(pending: Groups, attempt: Attempt[str, ErrorCode]) -> None:
        last.clear()
        coordinators.ask(pending, GroupQuery(attempt, api, lambda _: fields, read_answer, 1))

    def read_answer(answer: ApiResponse, _: Groups, attempt: Attempt[str, ErrorCode]) -> None:
        whole = getattr(answer.response, "error_code", ErrorCode.none)
        if whole is not ErrorCode.none:
            attempt.refuse(group, Resource.GROUP, group, whole, getattr(answer.response, "error_message", None))
            return
        errors = dict(read(answer.response))
        last.update({part: errors.get(part, ErrorCode.unknown_server_error) for part in parts})
        retriable = [error for error in last.values() if error in _SAFE_TO_RETRY]
        if retriable:
            attempt.refuse(group, Resource.GROUP, group, retriable[0])
        else:
            attempt.found[group] = ErrorCode.none

    answers = retry_until_resolved(
        [group],
        ask,
        timeout=timeout,
        retriable=_SAFE_TO_RETRY,
        error_timeouts=NO_ERROR_TIMEOUTS,
        waits=coordinators.waits,
    )
    if not last:
        whole = answers.refused[0].error if answers.refused else ErrorCode.unknown_server_error
        return Answers(found=dict.fromkeys(parts, whole), refused=answers.refused)
    failed = [(part, error) for part, error in last.items() if error is not ErrorCode.none]
    return Answers(
        found=last,
        refused=tuple(_part_refusal(group, part, error) for part, error in failed),
    )


def _part_refusal(group: str, part: TopicPartition | MemberToRemove, error: ErrorCode) -> Refusal:
    match part:
        case TopicPartition():
            return Refusal(kind=Resource.PARTITION, name=part, group=group, error=error)
        case MemberToRemove(member_id="", instance_id=instance_id):
            return Refusal(kind=Resource.INSTANCE, name=str(instance_id), group=group, error=error)
        case MemberToRemove(member_id=member_id):
            return Refusal(kind=Resource.MEMBER, name=member_id, group=group, error=error)


def _partition_errors(response: Any) -> Iterable[tuple[TopicPartition, ErrorCode]]:
    for topic in response.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each.error_code
