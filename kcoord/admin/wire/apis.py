"""The APIs that admin uses, with the versions that its codecs support."""

from typing import NamedTuple

from kcoord.api_keys import ApiKey


class Api(NamedTuple):
    """A Kafka API that the admin client requests, with the oldest and newest version that it supports; the newest
    version of both sides is used."""

    key: ApiKey
    oldest: int
    newest: int

    @property
    def name(self) -> str:
        return self.key.title


FETCH = Api(ApiKey.FETCH, 4, 12)  # by topic names: newer versions have ids only
LIST_OFFSETS = Api(ApiKey.LIST_OFFSETS, 1, 9)
METADATA = Api(ApiKey.METADATA, 4, 12)
OFFSET_COMMIT = Api(ApiKey.OFFSET_COMMIT, 2, 9)  # by topic names, as above
OFFSET_FETCH = Api(ApiKey.OFFSET_FETCH, 2, 9)
FIND_COORDINATOR = Api(ApiKey.FIND_COORDINATOR, 0, 4)
LEAVE_GROUP = Api(ApiKey.LEAVE_GROUP, 3, 5)
DESCRIBE_GROUPS = Api(ApiKey.DESCRIBE_GROUPS, 0, 6)
LIST_GROUPS = Api(ApiKey.LIST_GROUPS, 0, 5)
API_VERSIONS = Api(ApiKey.API_VERSIONS, 0, 0)  # every broker answers it, and it has all that is needed
DESCRIBE_CONFIGS = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4)
DELETE_GROUPS = Api(ApiKey.DELETE_GROUPS, 0, 2)
OFFSET_DELETE = Api(ApiKey.OFFSET_DELETE, 0, 0)
CONSUMER_GROUP_HEARTBEAT = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1)
CONSUMER_GROUP_DESCRIBE = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1)
SHARE_GROUP_HEARTBEAT = Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1)
SHARE_GROUP_DESCRIBE = Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1)
STREAMS_GROUP_HEARTBEAT = Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0)
STREAMS_GROUP_DESCRIBE = Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0)
DESCRIBE_SHARE_GROUP_OFFSETS = Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1)
