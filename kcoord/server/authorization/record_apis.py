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

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.broker import producing
from kcoord.broker.cluster import Cluster
from kcoord.broker.log.partition_log import Refused
from kcoord.broker.log.slices import Slices
from kcoord.broker.offsets import (
    DeletedPartition,
    DeletedRecords,
    DeleteRecords,
    DeleteRecordsReply,
    ListOffsets,
    ListOffsetsReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    PartitionEpochEnd,
    PartitionOffset,
    TopicEpochs,
    TopicOffsets,
)
from kcoord.broker.producing import InitProducerId, InitProducerIdReply, Produce, ProduceReply
from kcoord.errors import ErrorCode
from kcoord.security.rules import Kind, Operation
from kcoord.server.authorization.permissions import Decide, Guard, Permissions, split_allowed

_TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed


def produce(
    request: Produce, permissions: Permissions, cluster: Cluster, decide: Decide[Produce, Slices[ProduceReply]]
) -> Slices[ProduceReply]:
    if producing.refuse_all(request):
        return (yield from decide(request))
    allowed, denied = split_allowed(
        request.topics,
        lambda topic: _may_topic(permissions, cluster, Operation.WRITE, topic.name, topic.topic_id),
    )
    reply = yield from decide(replace(request, topics=allowed))
    refused = Refused(error=_TOPIC_DENIED, message="")
    lines = [producing.refused_topic(topic, refused) for topic in producing.merged(denied)]
    return replace(reply, responses=(*reply.responses, *lines))


def list_offsets(
    request: ListOffsets,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[ListOffsets, Slices[ListOffsetsReply]],
) -> Slices[ListOffsetsReply]:
    allowed, denied = split_allowed(request.topics, lambda topic: permissions.may_topic(Operation.DESCRIBE, topic.name))
    reply = yield from decide(replace(request, topics=allowed))
    refused = [
        TopicOffsets(
            name=topic.name,
            partitions=tuple(
                PartitionOffset(partition_index=line.partition_index, error_code=_TOPIC_DENIED)
                for line in topic.partitions
            ),
        )
        for topic in denied
    ]
    return replace(reply, topics=(*reply.topics, *refused))


def offset_for_leader_epoch(
    request: OffsetForLeaderEpoch,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[OffsetForLeaderEpoch, OffsetForLeaderEpochReply],
) -> OffsetForLeaderEpochReply:
    if permissions.may_silently(Operation.CLUSTER_ACTION, Kind.CLUSTER):
        return decide(request)
    allowed, denied = split_allowed(
        request.topics, lambda topic: permissions.may_topic(Operation.DESCRIBE, topic.topic)
    )
    reply = decide(replace(request, topics=allowed))
    refused = [
        TopicEpochs(
            topic=topic.topic,
            partitions=tuple(
                PartitionEpochEnd(partition=line.partition, error_code=_TOPIC_DENIED) for line in topic.partitions
            ),
        )
        for topic in denied
    ]
    return replace(reply, topics=(*reply.topics, *refused))


def delete_records(
    request: DeleteRecords,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[DeleteRecords, DeleteRecordsReply],
) -> DeleteRecordsReply:
    allowed, denied = split_allowed(request.topics, lambda topic: permissions.may_topic(Operation.DELETE, topic.name))
    reply = decide(replace(request, topics=allowed))
    refused: dict[str, dict[int, DeletedPartition]] = {}
    for topic in denied:
        lines = {index: DeletedPartition(partition_index=index, error_code=_TOPIC_DENIED) for index, _ in topic.offsets}
        if lines:
            refused.setdefault(topic.name, {}).update(lines)
    topics = [DeletedRecords(name=name, partitions=tuple(lines.values())) for name, lines in refused.items()]
    return replace(reply, topics=(*reply.topics, *topics))


def init_producer_id(
    request: InitProducerId,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[InitProducerId, InitProducerIdReply],
) -> InitProducerIdReply:
    if request.transactional_id is not None:  # refused in any case: there are no transactions
        return decide(request)
    if not permissions.may_any_silently(Operation.WRITE, Kind.TOPIC) and not permissions.may_cluster(
        Operation.IDEMPOTENT_WRITE
    ):
        return InitProducerIdReply(error_code=ErrorCode.cluster_authorization_failed)
    return decide(request)


GUARDS: Final[Mapping[int, Guard]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
}
"""By API key."""


def _may_topic(
    permissions: Permissions, cluster: Cluster, operation: Operation, name: str | None, topic_id: UUID | None
) -> bool:
    if name is None:
        found = cluster.topic_by_id(topic_id)
        name = found.name if found else None
    return name is None or permissions.may_topic(operation, name)
