"""The schemas of the records in `__consumer_offsets`, as data: one definition for the journal and for the pipeline.

A record's key is the number of its type and the key's fields; its value is a version and the fields of that version; a
null value deletes. The names are those that kafka-dump-log shows. The attributes of a field:

| word     | means                                                                                                     |
|----------|-----------------------------------------------------------------------------------------------------------|
| type     | `int32`, `string`, …; `struct` has fields of its own; `[]` before it: any number of them                  |
| since    | the first version that has it                                                                             |
| until    | the last one, where later versions have dropped it                                                        |
| nullable | it may be null                                                                                            |
| tag      | it is a tagged field at the end, written only if it is not its default                                    |
| default  | its value where it is absent; without one, the zero of its type: 0, "", no elements, no bytes             |

Strings, bytes and arrays have lengths of fixed size (2, 4 and 4 bytes) up to the first flexible version of a value;
from it on lengths are varints, one more than the length, and every struct ends in tagged fields (KIP-482). Keys are
never flexible.

The facts are those of the schemas in Kafka 4.3.1's kafka-group-coordinator, which a test compares with these. Where a
schema has `"default": null` without quotes, Kafka's generator treats it as no default: such a field is empty where it
is absent, and a null is written out.

Types that only previews of Kafka wrote (9, 18) are unknown to Kafka 4.3 too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

INTEGERS: Final = MappingProxyType({"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"})
"""The types of fixed size, and their codes for struct; a uuid has 16 bytes."""
LONGEST_STRING: Final = 0x7FFF


class Zero(Enum):
    """The mark of a field whose default is the zero of its type: 0, an empty string, no elements."""

    ZERO = "the zero of the type"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema: its name, its type as in Kafka's JSON schemas, the versions `since` and `until` which it
    exists, and its tag if it is a tagged field. `fields` are those of a struct."""

    name: str
    type: str
    fields: "Fields" = ()
    since: int = 0
    until: int | None = None
    nullable: bool = False
    tag: int | None = None
    default: int | Zero | None = Zero.ZERO

    def is_in(self, version: int) -> bool:
        """Returns whether this version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


Fields = tuple[Field, ...]


_ZEROS: Final[Mapping[str, Any]] = MappingProxyType({"string": "", "bytes": b"", "uuid": UUID(int=0)})


def default_of(field: Field) -> Any:
    """Returns the value that the field takes where it is absent."""
    if not isinstance(field.default, Zero):
        return field.default
    if field.type == "struct":
        return {each.name: default_of(each) for each in field.fields}
    return () if field.type.startswith("[]") else _ZEROS.get(field.type, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordSchema:
    """The fields of a record's key, a record's value or embedded bytes, with their versions, as in Kafka's JSON
    schemas. Each is equal to itself alone, which makes it a fast cache key."""

    fields: Fields
    versions: range
    flexible_since: int | None

    def is_flexible(self, version: int) -> bool:
        """Returns whether this version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible_since is not None and version >= self.flexible_since


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A type of record in `__consumer_offsets`, such as OffsetCommit: the number that its keys begin with, and the
    schemas of key and value."""

    number: int
    name: str
    key: RecordSchema
    value: RecordSchema
    written: int
    """The version of the value that Kafka 4.3 writes."""


def _string(name: str) -> Field:
    return Field(name, "string")


def _int32(name: str) -> Field:
    return Field(name, "int32")


def _record_type(
    number: int,
    name: str,
    key: Fields,
    value: Fields,
    *,
    versions: range = range(1),
    flexible_since: int | None = 0,
    written: int = 0,
) -> RecordType:
    return RecordType(
        number=number,
        name=name,
        key=RecordSchema(fields=key, versions=range(1), flexible_since=None),
        value=RecordSchema(fields=value, versions=versions, flexible_since=flexible_since),
        written=written,
    )


_GROUP: Final = (_string("groupId"),)
_MEMBER: Final = (_string("groupId"), _string("memberId"))
_OFFSET: Final = (_string("group"), _string("topic"), _int32("partition"))

_EPOCHS: Final = Field("assignmentEpochs", "[]int32", nullable=True, tag=0)
_TOPIC_PARTITIONS: Final = (Field("topicId", "uuid"), Field("partitions", "[]int32"))
_TASKS: Final = (_string("subtopologyId"), Field("partitions", "[]int32"))
_PAIR: Final = (_string("key"), _string("value"))

_ASSIGNMENT_TIME: Final = Field("assignmentTimestamp", "int64", tag=0)  # KIP-1263, from 4.3 on

LEGACY_OFFSET_COMMIT: Final = _record_type(  # Written by Kafka 0.8; still read, and no longer written.
    0,
    "LegacyOffsetCommit",
    _OFFSET,
    (Field("offset", "int64"), _string("metadata"), Field("commitTimestamp", "int64")),
    flexible_since=None,
)

OFFSET_COMMIT: Final = _record_type(
    1,
    "OffsetCommit",
    _OFFSET,
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", since=3, default=-1),
        _string("metadata"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", since=1, until=1, default=-1),
        Field("topicId", "uuid", since=4, tag=0),
    ),
    versions=range(5),
    flexible_since=4,
    written=4,
)

GROUP_METADATA: Final = _record_type(
    2,
    "GroupMetadata",
    (_string("group"),),
    (
        _string("protocolType"),
        _int32("generation"),
        Field("protocol", "string", nullable=True),
        Field("leader", "string", nullable=True),
        Field("currentStateTimestamp", "int64", since=2, default=-1),
        Field(
            "members",
            "[]struct",
            (
                _string("memberId"),
                Field("groupInstanceId", "string", since=3, nullable=True, default=None),
                _string("clientId"),
                _string("clientHost"),
                Field("rebalanceTimeout", "int32", since=1, default=-1),
                _int32("sessionTimeout"),
                Field("subscription", "bytes"),
                Field("assignment", "bytes"),
            ),
        ),
    ),
    versions=range(5),
    flexible_since=4,
    written=3,  # Version 4 can be read since 3.5, and is not written yet (KIP-915).
)

_CONSUMER_GROUPS: Final = (
    _record_type(
        3,
        "ConsumerGroupMetadata",
        _GROUP,
        (_int32("epoch"), Field("metadataHash", "int64", tag=0)),
    ),
    _record_type(  # Written until 4.0; the hash replaces it since (KIP-1101).
        4,
        "ConsumerGroupPartitionMetadata",
        _GROUP,
        (
            Field(
                "topics",
                "[]struct",
                (
                    Field("topicId", "uuid"),
                    _string("topicName"),
                    _int32("numPartitions"),
                    Field("partitionMetadata", "[]struct", (_int32("partition"), Field("racks", "[]string"))),
                ),
            ),
        ),
    ),
    _record_type(
        5,
        "ConsumerGroupMemberMetadata",
        _MEMBER,
        (
            Field("instanceId", "string", nullable=True),
            Field("rackId", "string", nullable=True),
            _string("clientId"),
            _string("clientHost"),
            Field("subscribedTopicNames", "[]string"),
            Field("subscribedTopicRegex", "string", nullable=True),
            Field("rebalanceTimeoutMs", "int32", default=-1),
            Field("serverAssignor", "string", nullable=True),
            Field(  # A member that still uses the classic protocol.
                "classicMemberMetadata",
                "struct",
                (
                    _int32("sessionTimeoutMs"),
                    Field("supportedProtocols", "[]struct", (_string("name"), Field("metadata", "bytes"))),
                ),
                nullable=True,
                tag=0,
            ),
        ),
    ),
    _record_type(
        6,
        "ConsumerGroupTargetAssignmentMetadata",
        _GROUP,
        (_int32("assignmentEpoch"), _ASSIGNMENT_TIME),
    ),
    _record_type(
        7,
        "ConsumerGroupTargetAssignmentMember",
        _MEMBER,
        (Field("topicPartitions", "[]struct", _TOPIC_PARTITIONS),),
    ),
    _record_type(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        _MEMBER,
        (
            _int32("memberEpoch"),
            _int32("previousMemberEpoch"),
            Field("state", "int8"),
            Field("assignedPartitions", "[]struct", (*_TOPIC_PARTITIONS, _EPOCHS)),
            Field("partitionsPendingRevocation", "[]struct", (*_TOPIC_PARTITIONS, _EPOCHS)),
        ),
    ),
    _record_type(
        16,
        "ConsumerGroupRegularExpression",
        (_string("groupId"), _string("regularExpression")),
        (Field("topics", "[]string"), Field("version", "int64"), Field("timestamp", "int64")),
    ),
)

_INITIALIZED: Final = (Field("topicId", "uuid"), _string("topicName"), Field("partitions", "[]int32"))

_SHARE_GROUPS: Final = (
    _record_type(
        10,
        "ShareGroupMemberMetadata",
        _MEMBER,
        (
            Field("rackId", "string", nullable=True),
            _string("clientId"),
            _string("clientHost"),
            Field("subscribedTopicNames", "[]string"),
        ),
    ),
    _record_type(11, "ShareGroupMetadata", _GROUP, (_int32("epoch"), Field("metadataHash", "int64"))),
    _record_type(
        12,
        "ShareGroupTargetAssignmentMetadata",
        _GROUP,
        (_int32("assignmentEpoch"), _ASSIGNMENT_TIME),
    ),
    _record_type(
        13,
        "ShareGroupTargetAssignmentMember",
        _MEMBER,
        (Field("topicPartitions", "[]struct", _TOPIC_PARTITIONS),),
    ),
    _record_type(
        14,
        "ShareGroupCurrentMemberAssignment",
        _MEMBER,
        (
            _int32("memberEpoch"),
            _int32("previousMemberEpoch"),
            Field("state", "int8"),
            Field("assignedPartitions", "[]struct", _TOPIC_PARTITIONS),
        ),
    ),
    _record_type(
        15,
        "ShareGroupStatePartitionMetadata",
        _GROUP,
        (
            Field("initializingTopics", "[]struct", _INITIALIZED),
            Field("initializedTopics", "[]struct", _INITIALIZED),
            Field("deletingTopics", "[]struct", (Field("topicId", "uuid"), _string("topicName"))),
        ),
    ),
)

_INTERNAL_TOPIC: Final = (
    _string("name"),
    _int32("partitions"),
    Field("replicationFactor", "int16"),
    Field("topicConfigs", "[]struct", _PAIR),
)

_STREAMS_GROUPS: Final = (
    _record_type(
        17,
        "StreamsGroupMetadata",
        _GROUP,
        (
            _int32("epoch"),
            Field("metadataHash", "int64"),
            Field("validatedTopologyEpoch", "int32", tag=0, default=-1),
            Field("lastAssignmentConfigs", "[]struct", _PAIR, nullable=True, tag=1),
        ),
    ),
    _record_type(
        19,
        "StreamsGroupMemberMetadata",
        _MEMBER,
        (
            Field("instanceId", "string", nullable=True),
            Field("rackId", "string", nullable=True),
            _string("clientId"),
            _string("clientHost"),
            Field("rebalanceTimeoutMs", "int32", default=-1),
            _int32("topologyEpoch"),
            _string("processId"),
            Field("userEndpoint", "struct", (_string("host"), Field("port", "uint16")), nullable=True, default=None),
            Field("clientTags", "[]struct", _PAIR),
        ),
    ),
    _record_type(
        20,
        "StreamsGroupTargetAssignmentMetadata",
        _GROUP,
        (_int32("assignmentEpoch"), _ASSIGNMENT_TIME),
    ),
    _record_type(
        21,
        "StreamsGroupTargetAssignmentMember",
        _MEMBER,
        tuple(Field(name, "[]struct", _TASKS) for name in ("activeTasks", "standbyTasks", "warmupTasks")),
    ),
    _record_type(
        22,
        "StreamsGroupCurrentMemberAssignment",
        _MEMBER,
        (
            _int32("memberEpoch"),
            _int32("previousMemberEpoch"),
            Field("state", "int8"),
            Field("activeTasks", "[]struct", (*_TASKS, _EPOCHS)),
            Field("standbyTasks", "[]struct", (*_TASKS, _EPOCHS)),
            Field("warmupTasks", "[]struct", (*_TASKS, _EPOCHS)),
            Field("activeTasksPendingRevocation", "[]struct", (*_TASKS, _EPOCHS)),
            Field("standbyTasksPendingRevocation", "[]struct", (*_TASKS, _EPOCHS)),
            Field("warmupTasksPendingRevocation", "[]struct", (*_TASKS, _EPOCHS)),
        ),
    ),
    _record_type(
        23,
        "StreamsGroupTopology",
        _GROUP,
        (
            _int32("epoch"),
            Field(
                "subtopologies",
                "[]struct",
                (
                    _string("subtopologyId"),
                    Field("sourceTopics", "[]string"),
                    Field("sourceTopicRegex", "[]string"),
                    Field("stateChangelogTopics", "[]struct", _INTERNAL_TOPIC),
                    Field("repartitionSinkTopics", "[]string"),
                    Field("repartitionSourceTopics", "[]struct", _INTERNAL_TOPIC),
                    Field(
                        "copartitionGroups",
                        "[]struct",
                        (
                            Field("sourceTopics", "[]int16"),
                            Field("sourceTopicRegex", "[]int16"),
                            Field("repartitionSourceTopics", "[]int16"),
                        ),
                    ),
                ),
            ),
        ),
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

_PARTITIONS_OF_TOPIC: Final = (_string("topic"), Field("partitions", "[]int32"))

CONSUMER_SUBSCRIPTION: Final = RecordSchema(
    fields=(
        Field("topics", "[]string"),
        Field("userData", "bytes", nullable=True, default=None),
        Field("ownedPartitions", "[]struct", _PARTITIONS_OF_TOPIC, since=1),
        Field("generationId", "int32", since=2, default=-1),
        Field("rackId", "string", since=3, nullable=True, default=None),
    ),
    versions=range(4),
    flexible_since=None,
)
"""The `subscription` of members of protocol type "consumer", which begins with a version."""

CONSUMER_ASSIGNMENT: Final = RecordSchema(
    fields=(
        Field("assignedPartitions", "[]struct", _PARTITIONS_OF_TOPIC),
        Field("userData", "bytes", nullable=True, default=None),
    ),
    versions=range(4),
    flexible_since=None,
)
"""The `assignment` of members of protocol type "consumer", which begins with a version."""
