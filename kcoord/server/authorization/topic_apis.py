"""Guards of the APIs of topics, their settings and the cluster, with the checks of KafkaApis and ControllerApis.

| API                     | needs                                            | otherwise                              |
|-------------------------|--------------------------------------------------|----------------------------------------|
| Metadata                | describe topic; to create it also create         | the error on the topic; if all are     |
|                         | cluster, or create topic                         | requested, those it may describe       |
| CreateTopics            | create cluster, or create topic                  | the error on the topic                 |
|                         | describe-configs topic                           | the error in place of its settings     |
| DeleteTopics            | delete cluster, or delete topic                  | the error on the topic                 |
| CreatePartitions        | alter topic                                      | the error on the topic                 |
| DescribeConfigs         | describe-configs topic, group or cluster         | the error of that kind on the resource |
| IncrementalAlterConfigs | alter-configs topic, group or cluster            | the same                               |
| FindCoordinator         | describe group                                   | the error on the group                 |
| DescribeCluster         | describe cluster for the allowed operations      | no operation is shown as allowed       |

Errors are TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED. The check comes before the lookup, so that a client without
the describe permission does not learn whether a topic exists. Topic ids are no secret: an unknown id is reported as
such.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.broker import alter_configs as altering
from kcoord.broker import describe_configs as describing
from kcoord.broker import metadata
from kcoord.broker.alter_configs import AlterConfigs, AlterConfigsResult, AlteredResource
from kcoord.broker.cluster import INTERNAL_TOPICS, Cluster
from kcoord.broker.describe_cluster import (
    Coordinator,
    DescribeCluster,
    DescribeClusterReply,
    FindCoordinator,
    FindCoordinatorReply,
    KeyType,
)
from kcoord.broker.describe_configs import DescribeConfigs, DescribedResource, RequestedResource
from kcoord.broker.metadata import OPERATIONS_NOT_ASKED_FOR, Metadata, MetadataReply, MetadataTopic, RequestedTopic
from kcoord.broker.names import METADATA_TOPIC
from kcoord.broker.topics import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrownTopic,
    TopicToDelete,
)
from kcoord.errors import ErrorCode
from kcoord.security.rules import Kind, Operation
from kcoord.server.authorization.item_guard import Check, ItemGuard
from kcoord.server.authorization.permissions import Decide, Guard, Permissions, split_allowed

_TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed
_DENIED: Final = "The rules do not allow it."
_KINDS_OF_CONFIGS: Final = {2: Kind.TOPIC, 4: Kind.CLUSTER, 8: Kind.CLUSTER, 16: Kind.CLUSTER, 32: Kind.GROUP}
_ERRORS: Final = {
    Kind.TOPIC: ErrorCode.topic_authorization_failed,
    Kind.GROUP: ErrorCode.group_authorization_failed,
    Kind.CLUSTER: ErrorCode.cluster_authorization_failed,
}


# Topics.


def see_metadata(
    request: Metadata, permissions: Permissions, cluster: Cluster, decide: Decide[Metadata, MetadataReply]
) -> MetadataReply:
    """Authorizes Metadata requests, which need DESCRIBE on each topic, and CREATE if the request would create it.
    `decide` gets the allowed topics.
    """
    if metadata.refusal(request):
        return decide(request)
    asked, refused = _visible(request, permissions, cluster)
    reply = decide(replace(request, topics=asked))
    lines = [_with_operations(line, permissions) for line in reply.topics]
    if asked is None:
        lines = [line for line in lines if permissions.may_silently(Operation.DESCRIBE, Kind.TOPIC, line.name or "")]
    return replace(
        reply,
        topics=(*lines, *refused),
        cluster_authorized_operations=_cluster_operations(reply.cluster_authorized_operations, permissions),
    )


def delete_topics(
    request: DeleteTopics, permissions: Permissions, cluster: Cluster, decide: Decide[DeleteTopics, DeleteTopicsReply]
) -> DeleteTopicsReply:
    """Authorizes DeleteTopics requests, which need DELETE on the cluster or the topic. `decide` gets the allowed
    topics, the others get an error.
    """
    if permissions.may_silently(Operation.DELETE, Kind.CLUSTER):
        return decide(request)
    times = Counter(request.topics)
    allowed: list[TopicToDelete] = []
    refused: list[DeletedTopic] = []
    for doomed in request.topics:
        is_meant = doomed.is_clear and times[doomed] == 1
        denied = _undeletable(doomed, permissions, cluster) if is_meant else None
        if denied:
            refused.append(denied)
        else:
            allowed.append(doomed)
    reply = decide(replace(request, topics=tuple(allowed)))
    return replace(reply, responses=(*reply.responses, *refused))


# The cluster.


def find_coordinator(
    request: FindCoordinator,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[FindCoordinator, FindCoordinatorReply],
) -> FindCoordinatorReply:
    """Authorizes FindCoordinator requests, which need DESCRIBE on each group. `decide` gets the allowed groups, the
    others get an error.
    """
    if request.key_type != KeyType.GROUP:  # refused in any case
        return decide(request)
    allowed, _ = split_allowed(request.keys, lambda key: permissions.may_group(Operation.DESCRIBE, key))
    reply = decide(replace(request, keys=allowed))
    found = {line.key: line for line in reply.coordinators}
    denied = ErrorCode.group_authorization_failed
    lines = [found.get(key) or Coordinator(key=key, error_code=denied) for key in request.keys]
    return replace(reply, coordinators=tuple(lines))


def describe_cluster(
    request: DescribeCluster,
    permissions: Permissions,
    cluster: Cluster,
    decide: Decide[DescribeCluster, DescribeClusterReply],
) -> DescribeClusterReply:
    """Has DescribeCluster decided, and limits the authorized operations in the reply to those that the rules allow."""
    reply = decide(request)
    operations = _cluster_operations(reply.cluster_authorized_operations, permissions)
    return replace(reply, cluster_authorized_operations=operations)


def allow_always(request: Any, permissions: Permissions, cluster: Cluster, decide: Decide[Any, Any]) -> Any:
    """Has the request decided without a check. It guards the SASL requests outside of a login, which are refused later
    in any case.
    """
    return decide(request)


def _visible(
    request: Metadata, permissions: Permissions, cluster: Cluster
) -> tuple[tuple[RequestedTopic, ...] | None, list[MetadataTopic]]:
    """Returns the topics that may be requested, and the results of the others."""
    if request.topics is None:
        return None, []
    if any(topic.topic_id for topic in request.topics):
        ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id is not None)
        allowed, denied = split_allowed(ids, lambda topic_id: _may_see(permissions, cluster, topic_id))
        asked = tuple(RequestedTopic(name=None, topic_id=topic_id) for topic_id in allowed)
        return asked, [MetadataTopic(name=None, topic_id=topic_id, error_code=_TOPIC_DENIED) for topic_id in denied]
    names = dict.fromkeys(topic.name or "" for topic in request.topics)
    seen, unseen = split_allowed(names, lambda name: permissions.may_topic(Operation.DESCRIBE, name))
    allowed_names, unmade = split_allowed(seen, lambda name: _may_be_made(name, request, permissions, cluster))
    refused = [
        MetadataTopic(name=name, error_code=_TOPIC_DENIED, is_internal=name in INTERNAL_TOPICS) for name in unmade
    ]
    refused += [MetadataTopic(name=name, error_code=_TOPIC_DENIED) for name in unseen]
    return tuple(RequestedTopic(name=name) for name in allowed_names), refused


def _may_see(permissions: Permissions, cluster: Cluster, topic_id: UUID) -> bool:
    found = cluster.topic_by_id(topic_id)
    return found is None or permissions.may_topic(Operation.DESCRIBE, found.name)


def _may_be_made(name: str, request: Metadata, permissions: Permissions, cluster: Cluster) -> bool:
    """Whether the topic may be requested: if it is missing, the request may create it, which needs permission."""
    makes_topics = request.allow_auto_topic_creation and cluster.settings.auto_create_topics_enable
    if name in cluster.topics or not makes_topics or permissions.may_silently(Operation.CREATE, Kind.CLUSTER):
        return True
    return permissions.may_topic(Operation.CREATE, name)


def _with_operations(line: MetadataTopic, permissions: Permissions) -> MetadataTopic:
    if line.topic_authorized_operations == OPERATIONS_NOT_ASKED_FOR:
        return line
    return replace(line, topic_authorized_operations=permissions.operations(Kind.TOPIC, line.name or ""))


def _cluster_operations(requested: int, permissions: Permissions) -> int:
    if requested == OPERATIONS_NOT_ASKED_FOR:
        return requested
    return permissions.operations(Kind.CLUSTER) if permissions.may_cluster(Operation.DESCRIBE) else 0


def _undeletable(doomed: TopicToDelete, permissions: Permissions, cluster: Cluster) -> DeletedTopic | None:
    """Returns the error of a topic that may not be deleted, or None."""
    if doomed.name is not None:
        return _undeletable_by_name(doomed.name, permissions, cluster)
    return _undeletable_by_id(doomed, permissions, cluster)


def _undeletable_by_id(doomed: TopicToDelete, permissions: Permissions, cluster: Cluster) -> DeletedTopic | None:
    """Returns the error for a topic id, or None. The error has the topic's name only if it may be described."""
    found = cluster.topic_by_id(doomed.topic_id)
    if found is None or permissions.may_topic(Operation.DELETE, found.name):
        return None
    name = found.name if permissions.may_silently(Operation.DESCRIBE, Kind.TOPIC, found.name) else None
    return DeletedTopic(name=name, topic_id=doomed.topic_id, error_code=_TOPIC_DENIED, error_message=_DENIED)


def _undeletable_by_name(name: str, permissions: Permissions, cluster: Cluster) -> DeletedTopic | None:
    """Returns the error for a name, or None. Only a client that may describe the topic learns that it is missing."""
    is_seen = permissions.may_topic(Operation.DESCRIBE, name)
    if is_seen and (name not in cluster.topics or permissions.may_topic(Operation.DELETE, name)):
        return None
    return DeletedTopic(name=name, error_code=_TOPIC_DENIED, error_message=_DENIED)


# The guards of items.


def _may_create(request: CreateTopics, permissions: Permissions, cluster: Cluster) -> Check:
    """Returns the check of topics to create. An invalid one passes, because its own error comes first."""
    times = Counter(topic.name for topic in request.topics)
    may_create_all = permissions.may_silently(Operation.CREATE, Kind.CLUSTER)
    return lambda topic: (
        may_create_all
        or times[topic.name] > 1
        or topic.name == METADATA_TOPIC
        or permissions.may_topic(Operation.CREATE, topic.name)
    )


def _without_settings(line: CreatedTopic, permissions: Permissions) -> CreatedTopic:
    """Removes the settings of a created topic from the result, unless they may be described."""
    if line.error_code or permissions.may_silently(Operation.DESCRIBE_CONFIGS, Kind.TOPIC, line.name):
        return line
    return replace(
        line, topic_config_error_code=int(_TOPIC_DENIED), num_partitions=-1, replication_factor=-1, configs=()
    )


def _may_grow(request: CreatePartitions, permissions: Permissions, cluster: Cluster) -> Check:
    times = Counter(growth.name for growth in request.topics)
    return lambda growth: times[growth.name] > 1 or permissions.may_topic(Operation.ALTER, growth.name)


def _may_describe(request: DescribeConfigs, permissions: Permissions, cluster: Cluster) -> Check:
    return lambda resource: _may_configs(
        permissions, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
    )


def _may_alter(request: AlterConfigs, permissions: Permissions, cluster: Cluster) -> Check:
    """Returns the check of resources to alter. An invalid one passes, because its own error comes first."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)

    def is_allowed(resource: AlteredResource) -> bool:
        kind, name = resource.resource_type, resource.resource_name
        is_nonsense = times[kind, name] > 1 or kind not in _KINDS_OF_CONFIGS or altering.refusal(resource)
        return bool(is_nonsense) or _may_configs(permissions, Operation.ALTER_CONFIGS, kind, name)

    return is_allowed


def _may_configs(permissions: Permissions, operation: Operation, resource_type: int, name: str) -> bool:
    match _KINDS_OF_CONFIGS[resource_type]:
        case Kind.TOPIC:
            return permissions.may_topic(operation, name)
        case Kind.GROUP:
            return permissions.may_group(operation, name)
        case _:
            return permissions.may_cluster(operation)


def _refused_configs(
    result: type[DescribedResource | AlterConfigsResult],
) -> Callable[[Sequence[RequestedResource | AlteredResource]], list[DescribedResource | AlterConfigsResult]]:
    """Returns what makes the results of resources that are denied."""
    return lambda denied: [
        result(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=_ERRORS[_KINDS_OF_CONFIGS[resource.resource_type]],
            error_message=_DENIED,
        )
        for resource in denied
    ]


create_topics: Final = ItemGuard(
    items="topics",
    needs=_may_create,
    results="topics",
    refused=lambda denied: [
        CreatedTopic(name=topic.name, error_code=_TOPIC_DENIED, error_message=_DENIED) for topic in denied
    ],
    shown=_without_settings,
)
create_partitions: Final = ItemGuard(
    items="topics",
    needs=_may_grow,
    results="results",
    refused=lambda denied: [GrownTopic(name=growth.name, error_code=_TOPIC_DENIED) for growth in denied],
)
describe_configs: Final = ItemGuard(
    items="resources",
    needs=_may_describe,
    results="results",
    refused=_refused_configs(DescribedResource),
    is_exempt=lambda request, permissions: describing.has_unknown_resource_type(request),
)
alter_configs: Final = ItemGuard(
    items="resources", needs=_may_alter, results="responses", refused=_refused_configs(AlterConfigsResult)
)

GUARDS: Final[Mapping[int, Guard]] = {
    ApiKey.METADATA: see_metadata,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.SASL_HANDSHAKE: allow_always,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.SASL_AUTHENTICATE: allow_always,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
}
"""By API key."""
