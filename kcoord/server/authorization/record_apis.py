"""Guards of the APIs that read and write records of topics, with the checks of KafkaApis.

| API                  | needs                                        | otherwise                                    |
|----------------------|----------------------------------------------|----------------------------------------------|
| Produce              | write topic                                  | TOPIC_AUTHORIZATION_FAILED on its partitions |
| Fetch                | read topic                                   | the same                                     |
| ListOffsets          | describe topic                               | the same                                     |
| OffsetForLeaderEpoch | cluster-action cluster, or describe topic    | the same                                     |
| DeleteRecords        | delete topic                                 | the same                                     |
| InitProducerId       | idempotent-write cluster, or write any topic | CLUSTER_AUTHORIZATION_FAILED                 |

Fetch has no guard here: which topics it reads is known only within its session (broker/fetching.py).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.broker import producing
from kcoord.broker.cluster import Cluster
from kcoord.broker.log.partition_log import Refused
from kcoord.broker.offsets import (
    DeletedPartition,
    DeletedRecords,
    PartitionEpochEnd,
    PartitionOffset,
    RequestedTopicEpochs,
    RequestedTopicOffsets,
    TopicDeletions,
    TopicEpochs,
    TopicOffsets,
)
from kcoord.broker.producing import InitProducerId, InitProducerIdReply, ProducedTopic, TopicResult
from kcoord.errors import ErrorCode
from kcoord.security.rules import Kind, Operation
from kcoord.server.authorization.item_guard import ItemGuard, on_topic, on_topic_or_id, sliced
from kcoord.server.authorization.permissions import Decide, Guard, Permissions

_TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed


def init_producer_id(
    request: InitProducerId,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[InitProducerId, InitProducerIdReply],
) -> InitProducerIdReply:
    """Authorizes InitProducerId requests, which need IDEMPOTENT_WRITE on the cluster, or WRITE on any topic."""
    if request.transactional_id is not None:  # refused in any case: there are no transactions
        return decide(request)
    if not permissions.may_any_silently(Operation.WRITE, Kind.TOPIC) and not permissions.may_cluster(
        Operation.IDEMPOTENT_WRITE
    ):
        return InitProducerIdReply(error_code=ErrorCode.cluster_authorization_failed)
    return decide(request)


def _refused_produces(denied: tuple[ProducedTopic, ...]) -> list[TopicResult]:
    refused = Refused(error=_TOPIC_DENIED, message="")
    return [producing.refused_topic(topic, refused) for topic in producing.merged(denied)]


def _refused_offsets(denied: Sequence[RequestedTopicOffsets]) -> list[TopicOffsets]:
    return [
        TopicOffsets(
            name=topic.name,
            partitions=tuple(
                PartitionOffset(partition_index=line.partition_index, error_code=_TOPIC_DENIED)
                for line in topic.partitions
            ),
        )
        for topic in denied
    ]


def _refused_epochs(denied: Sequence[RequestedTopicEpochs]) -> list[TopicEpochs]:
    return [
        TopicEpochs(
            topic=topic.topic,
            partitions=tuple(
                PartitionEpochEnd(partition=line.partition, error_code=_TOPIC_DENIED) for line in topic.partitions
            ),
        )
        for topic in denied
    ]


def _refused_deletions(denied: Sequence[TopicDeletions]) -> list[DeletedRecords]:
    """Returns one result for each topic and partition, however often they were requested."""
    refused: dict[str, dict[int, DeletedPartition]] = {}
    for topic in denied:
        lines = {index: DeletedPartition(partition_index=index, error_code=_TOPIC_DENIED) for index, _ in topic.offsets}
        if lines:
            refused.setdefault(topic.name, {}).update(lines)
    return [DeletedRecords(name=name, partitions=tuple(lines.values())) for name, lines in refused.items()]


GUARDS: Final[Mapping[int, Guard]] = {
    ApiKey.PRODUCE: sliced(
        ItemGuard(
            items="topics",
            needs=on_topic_or_id(Operation.WRITE),
            results="responses",
            refused=_refused_produces,
            is_exempt=lambda request, permissions: producing.refuse_all(request) is not None,
        )
    ),
    ApiKey.LIST_OFFSETS: sliced(
        ItemGuard(items="topics", needs=on_topic(Operation.DESCRIBE), results="topics", refused=_refused_offsets)
    ),
    ApiKey.DELETE_RECORDS: ItemGuard(
        items="topics", needs=on_topic(Operation.DELETE), results="topics", refused=_refused_deletions
    ),
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ItemGuard(
        items="topics",
        needs=on_topic(Operation.DESCRIBE, name="topic"),
        results="topics",
        refused=_refused_epochs,
        is_exempt=lambda request, permissions: permissions.may_silently(Operation.CLUSTER_ACTION, Kind.CLUSTER),
    ),
}
"""By API key."""
