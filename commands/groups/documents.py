"""JSON and YAML documents of groups. The names of fields are part of the format: see docs/commands.md."""

from collections.abc import Iterable, Mapping
from typing import Any

from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot
from kcoord.admin.model import Group, Member, Node, Refusal, TopicPartition
from kcoord.admin.times import utc_text


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Returns the JSON document of a snapshot of groups."""
    return {
        "at": utc_text(round(snapshot.at * 1000)),
        "groups": [group_document(seen, snapshot.at) for seen in snapshot.groups.values()],
        "refused": refusal_documents(snapshot.refused),
    }


def group_document(seen: GroupSnapshot, at: float) -> dict[str, Any]:
    """Returns the JSON object of a group in a snapshot at the time `at`, with its members and partitions."""
    group = seen.group
    return {
        **group_fields(group),
        "total_lag": seen.total_lag,
        "lag_seconds": _rounded(seen.worst_seconds(at)),
        "members": [member_document(member) for member in group.members],
        "partitions": [partition_document(each, at) for each in seen.partitions],
    }


def group_fields(group: Group) -> dict[str, Any]:
    """Returns the first fields of a group's JSON object: name, type, state, protocol, coordinator and epochs."""
    return {
        "group": group.name,
        "type": group.type.value,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": node_document(group.coordinator),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
    }


def node_document(node: Node) -> dict[str, Any]:
    """Returns the JSON object of a broker."""
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}


def member_document(member: Member) -> dict[str, Any]:
    """Returns the JSON object of a member of a group."""
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack or None,
        "epoch": member.epoch,
        "is_classic": member.is_classic,
        "subscription": member.subscription,
        "subscribed_regex": member.subscribed_regex,
        "assignment": _by_topic(member.assignment),
        "target_assignment": _by_topic(member.target),
        "tasks": member.tasks,
    }


def partition_document(seen: PartitionLag, at: float) -> dict[str, Any]:
    """Returns the JSON object of a group's committed offset and lag in one partition at the time `at`."""
    committed, bounds, owner = seen.committed, seen.bounds, seen.owner
    return {
        "topic": seen.tp.topic,
        "partition": seen.tp.partition,
        "offset": committed.offset if committed else None,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata if committed else None,
        "log_start": bounds.start if bounds else None,
        "log_end": bounds.end if bounds else None,
        "lag": seen.lag,
        "lag_seconds": _rounded(seen.lag_seconds(at)),
        "next_record_at": utc_text(seen.next_record_at) if seen.next_record_at is not None else None,
        "owner": owner.member_id if owner else None,
    }


def refusal_documents(refused: Iterable[Refusal]) -> list[Mapping[str, str]]:
    """Returns the JSON objects of errors of single groups, topics, partitions or brokers."""
    return [{"what": each.what, "error": each.error.name.upper(), "message": each.message} for each in refused]


def _by_topic(partitions: Iterable[TopicPartition] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return by_topic


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
