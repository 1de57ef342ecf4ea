"""Parses groups of each type from the response of that type's API."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcoord.admin.model import Group, GroupType, Member, Node, TopicPartition
from kcoord.protocol.consumer_protocol import read_assignment, read_subscription
from kcoord.protocol.frames import CorruptMessage

CONSUMER: Final = "consumer"  # the protocol type whose subscriptions and assignments can be parsed
_CLASSIC_MEMBER: Final = 0  # ConsumerGroupDescribe's member type, -1 if it is not known
_ROLES: Final = ("active", "standby", "warmup")

Partitions = tuple[TopicPartition, ...]


def classic_group(told: Any, coordinator: Node) -> Group:
    is_consumers = told.protocol_type == CONSUMER
    return Group(
        name=told.group_id,
        type=GroupType.CLASSIC,
        state=told.group_state,
        protocol_type=told.protocol_type,
        protocol=told.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, is_consumers) for member in told.members),
    )


def _classic_member(told: Any, is_consumers: bool) -> Member:
    return Member(
        member_id=told.member_id,
        instance_id=told.group_instance_id,
        client_id=told.client_id,
        host=told.client_host,
        assignment=_assignment(told.member_assignment) if is_consumers else None,
        subscription=_subscription(told.member_metadata) if is_consumers else None,
    )


def _assignment(content: bytes) -> Partitions | None:
    try:
        return _sorted(read_assignment(content))
    except CorruptMessage:
        return None


def _subscription(content: bytes) -> tuple[str, ...] | None:
    """Parses a subscription. It is None before the group is Stable: a broker sends no subscription then."""
    try:
        return tuple(sorted(read_subscription(content))) if content else None
    except CorruptMessage:
        return None


def _sorted(partitions: Mapping[str, Iterable[int]]) -> Partitions:
    return tuple(TopicPartition(topic, number) for topic in sorted(partitions) for number in sorted(partitions[topic]))


# KIP-848, share and streams groups: the coordinator plans, so that responses contain the whole plan.


def consumer_group(told: Any, coordinator: Node) -> Group:
    return _planned_group(
        told, coordinator, GroupType.CONSUMER, told.assignor_name, tuple(map(_consumer_member, told.members))
    )


def share_group(told: Any, coordinator: Node) -> Group:
    return _planned_group(
        told, coordinator, GroupType.SHARE, told.assignor_name, tuple(map(_share_member, told.members))
    )


def streams_group(told: Any, coordinator: Node) -> Group:
    sources = _sources(told.topology)
    return _planned_group(
        told, coordinator, GroupType.STREAMS, "", tuple(_streams_member(member, sources) for member in told.members)
    )


def _planned_group(told: Any, coordinator: Node, kind: GroupType, protocol: str, members: tuple[Member, ...]) -> Group:
    return Group(
        name=told.group_id,
        type=kind,
        state=told.group_state,
        protocol_type=CONSUMER if kind is GroupType.CONSUMER else kind.value,
        protocol=protocol,
        coordinator=coordinator,
        members=members,
        epoch=told.group_epoch,
        assignment_epoch=told.assignment_epoch,
    )


def _consumer_member(told: Any) -> Member:
    kind = told.member_type
    return Member(
        member_id=told.member_id,
        instance_id=told.instance_id,
        client_id=told.client_id,
        host=told.client_host,
        assignment=_planned(told.assignment),
        subscription=tuple(sorted(told.subscribed_topic_names)),
        subscribed_regex=told.subscribed_topic_regex or None,
        rack=told.rack_id,
        epoch=told.member_epoch,
        target=_planned(told.target_assignment),
        is_classic=None if kind < 0 else kind == _CLASSIC_MEMBER,
    )


def _share_member(told: Any) -> Member:
    return Member(
        member_id=told.member_id,
        instance_id=None,
        client_id=told.client_id,
        host=told.client_host,
        assignment=_planned(told.assignment),
        subscription=tuple(sorted(told.subscribed_topic_names)),
        rack=told.rack_id,
        epoch=told.member_epoch,
    )


def _planned(assignment: Any) -> Partitions:
    return _sorted({line.topic_name: line.partitions for line in assignment.topic_partitions})


# Streams: tasks are planned, and a task's partitions are those of its subtopology's sources.


def _sources(topology: Any) -> dict[str, tuple[str, ...]]:
    subtopologies = (topology.subtopologies or ()) if topology else ()
    return {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }


def _streams_member(told: Any, sources: Mapping[str, tuple[str, ...]]) -> Member:
    return Member(
        member_id=told.member_id,
        instance_id=told.instance_id,
        client_id=told.client_id,
        host=told.client_host,
        assignment=_read_by(told.assignment, sources),
        subscription=tuple(sorted({topic for topics in sources.values() for topic in topics})),
        rack=told.rack_id,
        epoch=told.member_epoch,
        target=_read_by(told.target_assignment, sources),
        is_classic=told.is_classic,
        tasks={role: _tasks(getattr(told.assignment, f"{role}_tasks")) for role in _ROLES},
    )


def _read_by(assignment: Any, sources: Mapping[str, tuple[str, ...]]) -> Partitions:
    return tuple(
        sorted(
            TopicPartition(topic, number)
            for task in assignment.active_tasks
            for topic in sources.get(task.subtopology_id, ())
            for number in task.partitions
        )
    )


def _tasks(told: Any) -> dict[str, tuple[int, ...]]:
    return {task.subtopology_id: tuple(sorted(task.partitions)) for task in told}
