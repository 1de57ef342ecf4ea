"""The schemas of the records in `__consumer_offsets`: one definition for the log and for the pipeline.

A record's key is the number of its type and the key's fields; its value is a version and the fields of that version; a
null value deletes. Keys are never flexible. The schemas are text (`protocol.schema.notation`), and the names are those
that kafka-dump-log shows.

The facts are those of the schemas in Kafka 4.3.1's kafka-group-coordinator, which a test compares with these. Where a
schema has `"default": null` without quotes, Kafka's generator treats it as no default: such a field is empty where it
is absent, and a null is written out.

Types that only previews of Kafka wrote (9, 18) are unknown to Kafka 4.3 too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from kcoord.protocol.schema.notation import NEVER, Field, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A type of record in `__consumer_offsets`, such as OffsetCommit: the number that its keys begin with, and the
    schemas of key and value."""

    number: int
    name: str
    key: Schema
    value: Schema
    written: int
    """The version of the value that Kafka 4.3 writes."""


def default_of(field: Field) -> Any:
    """Returns the value of a record's field where it is absent. A struct is a new one each time."""
    if isinstance(field.default, dict):
        return {each.name: default_of(each) for each in field.fields}
    return UUID(int=0) if field.type == "uuid" and not field.is_array else field.default


def _record_type(
    number: int,
    name: str,
    key: str,
    value: str,
    *,
    versions: range = range(1),
    flexible_since: int = 0,
    written: int = 0,
) -> RecordType:
    return RecordType(
        number=number,
        name=name,
        key=Schema(key),
        value=Schema(value, versions=versions, flexible_since=flexible_since),
        written=written,
    )


_GROUP: Final = "groupId string"
_MEMBER: Final = """
    groupId string
    memberId string
    """
_OFFSET: Final = """
    group string
    topic string
    partition int32
    """

LEGACY_OFFSET_COMMIT: Final = _record_type(  # Written by Kafka 0.8; still read, and no longer written.
    0,
    "LegacyOffsetCommit",
    _OFFSET,
    """
    offset int64
    metadata string
    commitTimestamp int64
    """,
    flexible_since=NEVER,
)

OFFSET_COMMIT: Final = _record_type(
    1,
    "OffsetCommit",
    _OFFSET,
    """
    offset int64
    leaderEpoch int32                              since 3 default -1
    metadata string
    commitTimestamp int64
    expireTimestamp int64                          since 1 until 1 default -1
    topicId uuid                                   since 4 tag 0
    """,
    versions=range(5),
    flexible_since=4,
    written=4,
)

GROUP_METADATA: Final = _record_type(
    2,
    "GroupMetadata",
    "group string",
    """
    protocolType string
    generation int32
    protocol string?
    leader string?
    currentStateTimestamp int64                    since 2 default -1
    members []
        memberId string
        groupInstanceId string?                    since 3 default null
        clientId string
        clientHost string
        rebalanceTimeout int32                     since 1 default -1
        sessionTimeout int32
        subscription bytes
        assignment bytes
    """,
    versions=range(5),
    flexible_since=4,
    written=3,  # Version 4 can be read since 3.5, and is not written yet (KIP-915).
)

_CONSUMER_GROUPS: Final = (
    _record_type(
        3,
        "ConsumerGroupMetadata",
        _GROUP,
        """
        epoch int32
        metadataHash int64                             tag 0
        """,
    ),
    _record_type(  # Written until 4.0; the hash replaces it since (KIP-1101).
        4,
        "ConsumerGroupPartitionMetadata",
        _GROUP,
        """
        topics []
            topicId uuid
            topicName string
            numPartitions int32
            partitionMetadata []
                partition int32
                racks []string
        """,
    ),
    _record_type(
        5,
        "ConsumerGroupMemberMetadata",
        _MEMBER,
        """
        instanceId string?
        rackId string?
        clientId string
        clientHost string
        subscribedTopicNames []string
        subscribedTopicRegex string?
        rebalanceTimeoutMs int32                       default -1
        serverAssignor string?
        classicMemberMetadata {}?                      tag 0
            sessionTimeoutMs int32
            supportedProtocols []
                name string
                metadata bytes
        """,
    ),
    _record_type(
        6,
        "ConsumerGroupTargetAssignmentMetadata",
        _GROUP,
        """
        assignmentEpoch int32
        assignmentTimestamp int64                      tag 0
        """,
    ),
    _record_type(
        7,
        "ConsumerGroupTargetAssignmentMember",
        _MEMBER,
        """
        topicPartitions []
            topicId uuid
            partitions []int32
        """,
    ),
    _record_type(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        _MEMBER,
        """
        memberEpoch int32
        previousMemberEpoch int32
        state int8
        assignedPartitions []
            topicId uuid
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        partitionsPendingRevocation []
            topicId uuid
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        """,
    ),
    _record_type(
        16,
        "ConsumerGroupRegularExpression",
        """
        groupId string
        regularExpression string
        """,
        """
        topics []string
        version int64
        timestamp int64
        """,
    ),
)

_SHARE_GROUPS: Final = (
    _record_type(
        10,
        "ShareGroupMemberMetadata",
        _MEMBER,
        """
        rackId string?
        clientId string
        clientHost string
        subscribedTopicNames []string
        """,
    ),
    _record_type(
        11,
        "ShareGroupMetadata",
        _GROUP,
        """
        epoch int32
        metadataHash int64
        """,
    ),
    _record_type(
        12,
        "ShareGroupTargetAssignmentMetadata",
        _GROUP,
        """
        assignmentEpoch int32
        assignmentTimestamp int64                      tag 0
        """,
    ),
    _record_type(
        13,
        "ShareGroupTargetAssignmentMember",
        _MEMBER,
        """
        topicPartitions []
            topicId uuid
            partitions []int32
        """,
    ),
    _record_type(
        14,
        "ShareGroupCurrentMemberAssignment",
        _MEMBER,
        """
        memberEpoch int32
        previousMemberEpoch int32
        state int8
        assignedPartitions []
            topicId uuid
            partitions []int32
        """,
    ),
    _record_type(
        15,
        "ShareGroupStatePartitionMetadata",
        _GROUP,
        """
        initializingTopics []
            topicId uuid
            topicName string
            partitions []int32
        initializedTopics []
            topicId uuid
            topicName string
            partitions []int32
        deletingTopics []
            topicId uuid
            topicName string
        """,
    ),
)

_STREAMS_GROUPS: Final = (
    _record_type(
        17,
        "StreamsGroupMetadata",
        _GROUP,
        """
        epoch int32
        metadataHash int64
        validatedTopologyEpoch int32                   tag 0 default -1
        lastAssignmentConfigs []?                      tag 1
            key string
            value string
        """,
    ),
    _record_type(
        19,
        "StreamsGroupMemberMetadata",
        _MEMBER,
        """
        instanceId string?
        rackId string?
        clientId string
        clientHost string
        rebalanceTimeoutMs int32                       default -1
        topologyEpoch int32
        processId string
        userEndpoint {}?                               default null
            host string
            port uint16
        clientTags []
            key string
            value string
        """,
    ),
    _record_type(
        20,
        "StreamsGroupTargetAssignmentMetadata",
        _GROUP,
        """
        assignmentEpoch int32
        assignmentTimestamp int64                      tag 0
        """,
    ),
    _record_type(
        21,
        "StreamsGroupTargetAssignmentMember",
        _MEMBER,
        """
        activeTasks []
            subtopologyId string
            partitions []int32
        standbyTasks []
            subtopologyId string
            partitions []int32
        warmupTasks []
            subtopologyId string
            partitions []int32
        """,
    ),
    _record_type(
        22,
        "StreamsGroupCurrentMemberAssignment",
        _MEMBER,
        """
        memberEpoch int32
        previousMemberEpoch int32
        state int8
        activeTasks []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        standbyTasks []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        warmupTasks []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        activeTasksPendingRevocation []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        standbyTasksPendingRevocation []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        warmupTasksPendingRevocation []
            subtopologyId string
            partitions []int32
            assignmentEpochs []int32?                  tag 0
        """,
    ),
    _record_type(
        23,
        "StreamsGroupTopology",
        _GROUP,
        """
        epoch int32
        subtopologies []
            subtopologyId string
            sourceTopics []string
            sourceTopicRegex []string
            stateChangelogTopics []
                name string
                partitions int32
                replicationFactor int16
                topicConfigs []
                    key string
                    value string
            repartitionSinkTopics []string
            repartitionSourceTopics []
                name string
                partitions int32
                replicationFactor int16
                topicConfigs []
                    key string
                    value string
            copartitionGroups []
                sourceTopics []int16
                sourceTopicRegex []int16
                repartitionSourceTopics []int16
        """,
    ),
)

RECORD_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType(
    {
        record_type.number: record_type
        for record_type in (
            *(LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA),
            *(_CONSUMER_GROUPS + _SHARE_GROUPS + _STREAMS_GROUPS),
        )
    }
)
"""By the number that a key begins with."""

CONSUMER_SUBSCRIPTION: Final = Schema(
    """
    topics []string
    userData bytes?                                default null
    ownedPartitions []                             since 1
        topic string
        partitions []int32
    generationId int32                             since 2 default -1
    rackId string?                                 since 3 default null
    """,
    versions=range(4),
)
"""The `subscription` of members of protocol type "consumer", which begins with a version."""

CONSUMER_ASSIGNMENT: Final = Schema(
    """
    assignedPartitions []
        topic string
        partitions []int32
    userData bytes?                                default null
    """,
    versions=range(4),
)
"""The `assignment` of members of protocol type "consumer", which begins with a version."""
