"""Parses groups of each type from the response of that type's API."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcoord.admin.model import Group, GroupType, Member, Node, TopicPartition
from kcoord.protocol.consumer_protocol import parse_subscription, read_assignment
from kcoord.protocol.frames import CorruptMessage

CONSUMER: Final = "consumer"  # the protocol type whose subscriptions and assignments can be parsed
_CLASSIC_MEMBER: Final = 0  # ConsumerGroupDescribe's member type, -1 if it is not known
_ROLES: Final = ("active", "standby", "warmup")

Partitions = tuple[TopicPartition, ...]


def classic_group(described: Any, coordinator: Node) -> Group:
    """Parses a classic group from its part of a DescribeGroups response."""
    is_consumers = described.protocol_type == CONSUMER
    return Group(
        name=described.group_id,
        type=GroupType.CLASSIC,
        state=described.group_state,
        protocol_type=described.protocol_type,
        protocol=described.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, is_consumers) for member in described.members),
    )


def _classic_member(described: Any, is_consumers: bool) -> Member:
    subscription = parse_subscription(described.member_metadata) if is_consumers else None
    return Member(
        member_id=described.member_id,
        instance_id=described.group_instance_id,
        client_id=described.client_id,
        host=described.client_host,
        assignment=_assignment(described.member_assignment) if is_consumers else None,
        subscription=None if subscription is None else tuple(sorted(subscription.topics)),
        rack=None if subscription is None else subscription.rack or None,
    )


def _assignment(content: bytes) -> Partitions | None:
    try:
        return _sorted(read_assignment(content))
    except CorruptMessage:
        return None


def _sorted(partitions: Mapping[str, Iterable[int]]) -> Partitions:
    return tuple(TopicPartition(topic, number) for topic in sorted(partitions) for number in sorted(partitions[topic]))


# KIP-848, share and streams groups: the coordinator plans, so that responses contain the whole plan.


def consumer_group(described: Any, coordinator: Node) -> Group:
    """Parses a KIP-848 consumer group from its part of a ConsumerGroupDescribe response."""
    return _modern_group(
        described,
        coordinator,
        GroupType.CONSUMER,
        described.assignor_name,
        tuple(map(_consumer_member, described.members)),
    )


def share_group(described: Any, coordinator: Node) -> Group:
    """Parses a share group from its part of a ShareGroupDescribe response."""
    return _modern_group(
        described, coordinator, GroupType.SHARE, described.assignor_name, tuple(map(_share_member, described.members))
    )


def streams_group(described: Any, coordinator: Node) -> Group:
    """Parses a streams group from its part of a StreamsGroupDescribe response."""
    sources = _sources(described.topology)
    return _modern_group(
        described,
        coordinator,
        GroupType.STREAMS,
        "",
        tuple(_streams_member(member, sources) for member in described.members),
    )


def _modern_group(
    described: Any, coordinator: Node, kind: GroupType, protocol: str, members: tuple[Member, ...]
) -> Group:
    return Group(
        name=described.group_id,
        type=kind,
        state=described.group_state,
        protocol_type=CONSUMER if kind is GroupType.CONSUMER else kind.value,
        protocol=protocol,
        coordinator=coordinator,
        members=members,
        epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
    )


def _consumer_member(described: Any) -> Member:
    kind = described.member_type
    return Member(
        member_id=described.member_id,
        instance_id=described.instance_id,
        client_id=described.client_id,
        host=described.client_host,
        assignment=_partitions(described.assignment),
        subscription=tuple(sorted(described.subscribed_topic_names)),
        subscribed_regex=described.subscribed_topic_regex or None,
        rack=described.rack_id,
        epoch=described.member_epoch,
        target=_partitions(described.target_assignment),
        is_classic=None if kind < 0 else kind == _CLASSIC_MEMBER,
    )


def _share_member(described: Any) -> Member:
    return Member(
        member_id=described.member_id,
        instance_id=None,
        client_id=described.client_id,
        host=described.client_host,
        assignment=_partitions(described.assignment),
        subscription=tuple(sorted(described.subscribed_topic_names)),
        rack=described.rack_id,
        epoch=described.member_epoch,
    )


def _partitions(assignment: Any) -> Partitions:
    return _sorted({topic.topic_name: topic.partitions for topic in assignment.topic_partitions})


# Streams: tasks are planned, and a task's partitions are those of its subtopology's sources.


def _sources(topology: Any) -> dict[str, tuple[str, ...]]:
    subtopologies = (topology.subtopologies or ()) if topology else ()
    return {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }


def _streams_member(described: Any, sources: Mapping[str, tuple[str, ...]]) -> Member:
    return Member(
        member_id=described.member_id,
        instance_id=described.instance_id,
        client_id=described.client_id,
        host=described.client_host,
        assignment=_source_partitions(described.assignment, sources),
        subscription=tuple(sorted({topic for topics in sources.values() for topic in topics})),
        rack=described.rack_id,
        epoch=described.member_epoch,
        target=_source_partitions(described.target_assignment, sources),
        is_classic=described.is_classic,
        tasks={role: _tasks(getattr(described.assignment, f"{role}_tasks")) for role in _ROLES},
    )


def _source_partitions(assignment: Any, sources: Mapping[str, tuple[str, ...]]) -> Partitions:
    return tuple(
        sorted(
            TopicPartition(topic, number)
            for task in assignment.active_tasks
            for topic in sources.get(task.subtopology_id, ())
            for number in task.partitions
        )
    )


def _tasks(tasks: Any) -> dict[str, tuple[int, ...]]:
    return {task.subtopology_id: tuple(sorted(task.partitions)) for task in tasks}
