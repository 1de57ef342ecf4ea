"""The APIs that admin uses, with the versions that its codecs support."""

from typing import NamedTuple


class Api(NamedTuple):
    """A Kafka API that the admin client requests, with the oldest and newest version that it supports; the newest
    version of both sides is used."""

    name: str
    key: int
    oldest: int
    newest: int


FETCH = Api("Fetch", 1, 4, 12)  # by topic names: newer versions have ids only
LIST_OFFSETS = Api("ListOffsets", 2, 1, 9)
METADATA = Api("Metadata", 3, 4, 12)
OFFSET_COMMIT = Api("OffsetCommit", 8, 2, 9)  # by topic names, as above
OFFSET_FETCH = Api("OffsetFetch", 9, 2, 9)
FIND_COORDINATOR = Api("FindCoordinator", 10, 0, 4)
LEAVE_GROUP = Api("LeaveGroup", 13, 3, 5)
DESCRIBE_GROUPS = Api("DescribeGroups", 15, 0, 6)
LIST_GROUPS = Api("ListGroups", 16, 0, 5)
API_VERSIONS = Api("ApiVersions", 18, 0, 0)  # every broker answers it, and it has all that is needed
DESCRIBE_CONFIGS = Api("DescribeConfigs", 32, 1, 4)
DELETE_GROUPS = Api("DeleteGroups", 42, 0, 2)
OFFSET_DELETE = Api("OffsetDelete", 47, 0, 0)
CONSUMER_GROUP_HEARTBEAT = Api("ConsumerGroupHeartbeat", 68, 0, 1)
CONSUMER_GROUP_DESCRIBE = Api("ConsumerGroupDescribe", 69, 0, 1)
SHARE_GROUP_HEARTBEAT = Api("ShareGroupHeartbeat", 76, 1, 1)
SHARE_GROUP_DESCRIBE = Api("ShareGroupDescribe", 77, 1, 1)
STREAMS_GROUP_HEARTBEAT = Api("StreamsGroupHeartbeat", 88, 0, 0)
STREAMS_GROUP_DESCRIBE = Api("StreamsGroupDescribe", 89, 0, 0)
DESCRIBE_SHARE_GROUP_OFFSETS = Api("DescribeShareGroupOffsets", 90, 0, 1)
