"""Creates, grows and deletes topics, for CreateTopics, CreatePartitions and DeleteTopics.

The checks have Kafka's order (ReplicationControlManager, ControllerApis), so that a request with two errors gets the
same response.
"""

from collections import Counter
from collections.abc import Collection, KeysView, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId, RequestContext, Topic
from kcoord.broker.describe_configs import ConfigSource, effective_source
from kcoord.broker.names import METADATA_TOPIC, unified, why_invalid
from kcoord.broker.offsets_topic import OFFSETS_TOPIC_SETTINGS, why_offsets_are_lost
from kcoord.broker.topic_settings import TOPIC_SETTINGS, BadConfig, effective, refuse_unless_valid
from kcoord.errors import ErrorCode
from kcoord.exceptions import InvalidInput

Item = TypeVar("Item")

USE_DEFAULT: Final = -1
MAX_PARTITIONS: Final = 10_000  # In one topic: settings bound the memory, not clients.


class Refusal(InvalidInput):
    """Raised when a topic cannot be created or changed; its error code and message become the topic's result in the
    reply.
    """

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic in a CreateTopics request. `assignments` are the replicas of each partition, by partition, where the
    client chose them; -1 counts take the broker's default.
    """

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """A CreateTopics request without a version."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopicConfig:
    """A setting of a created topic in the reply to CreateTopics."""

    name: str
    value: str
    config_source: ConfigSource
    read_only: bool = False
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The result of one topic in the reply to CreateTopics."""

    name: str
    topic_id: UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedTopicConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsReply:
    """The version-free reply to CreateTopics."""

    topics: tuple[CreatedTopic, ...]
    throttle_time: float = 0.0


def create_topics(cluster: Cluster, request: CreateTopics, context: RequestContext) -> CreateTopicsReply:
    """Decides a CreateTopics request: each topic is created or gets an error."""
    repeated = _repeated([topic.name for topic in request.topics])
    lines = [_repeated_topic(name) for name in repeated]
    once = [topic for topic in request.topics if topic.name not in repeated]
    present = {unified(name): name for name in cluster.topics}
    lines += [_create(cluster, topic, present, request.validate_only, context.now_ms) for topic in once]
    return CreateTopicsReply(topics=tuple(lines))


def _repeated_topic(name: str) -> CreatedTopic:
    return CreatedTopic(name=name, error_code=ErrorCode.invalid_request, error_message="Duplicate topic name.")


def _create(
    cluster: Cluster, new: NewTopic, present: Mapping[str, str], validate_only: bool, now_ms: int
) -> CreatedTopic:
    """Creates one topic. `present` are the topics that existed before the request, by their unified names."""
    try:
        _refuse_name(cluster, new.name, present)
        overrides = _valid_overrides(cluster, new)
        replicas = _replicas_of_new(cluster, new)
        topic = None if validate_only else cluster.create_topic(new.name, replicas, overrides, now_ms)
    except Refusal as refusal:
        return CreatedTopic(name=new.name, error_code=refusal.error, error_message=refusal.message)
    except OSError as error:
        return CreatedTopic(
            name=new.name, error_code=ErrorCode.kafka_storage_error, error_message=_storage_failure(error)
        )
    return CreatedTopic(
        name=new.name,
        topic_id=topic.topic_id if topic else None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=_created_configs(cluster, overrides),
    )


def _refuse_name(cluster: Cluster, name: str, present: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise Refusal(ErrorCode.invalid_request, f"Creation of internal topic {name} is prohibited.")
    if reason := why_invalid(name):
        raise Refusal(ErrorCode.invalid_topic_exception, reason)
    if name in cluster.topics:
        raise Refusal(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if other := present.get(unified(name)):
        raise Refusal(ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {other}")


def _valid_overrides(cluster: Cluster, new: NewTopic) -> dict[str, str]:
    overrides = dict(OFFSETS_TOPIC_SETTINGS) if new.name == OFFSETS_TOPIC else {}
    for name, value in new.configs:
        if value is None:
            raise Refusal(ErrorCode.invalid_config, f"Null value not supported for topic configs: {name}")
        overrides[name] = value
    try:
        refuse_unless_valid(overrides)
    except BadConfig as error:
        raise Refusal(ErrorCode.invalid_config, str(error)) from None
    if reason := why_offsets_are_lost(new.name, overrides, cluster.settings):
        raise Refusal(ErrorCode.invalid_config, reason)
    return overrides


def _replicas_of_new(cluster: Cluster, new: NewTopic) -> list[list[NodeId]]:
    if new.assignments:
        return _chosen_replicas(cluster, new)
    partitions = cluster.settings.num_partitions if new.num_partitions == USE_DEFAULT else new.num_partitions
    default_factor = cluster.settings.default_replication_factor
    factor = default_factor if new.replication_factor == USE_DEFAULT else new.replication_factor
    if factor <= 0:
        raise Refusal(ErrorCode.invalid_replication_factor, "The replication factor must be at least 1, or -1.")
    if partitions <= 0:
        raise Refusal(ErrorCode.invalid_partitions, "The number of partitions must be at least 1, or -1.")
    _refuse_too_many(cluster, partitions, partitions)
    if factor > len(cluster.nodes):
        raise Refusal(
            ErrorCode.invalid_replication_factor,
            f"{factor} replicas cannot be placed on {len(cluster.nodes)} broker(s).",
        )
    return cluster.assign_replicas(0, partitions, factor)


def _refuse_too_many(cluster: Cluster, partitions: int, more: int) -> None:
    if partitions > MAX_PARTITIONS:
        raise Refusal(ErrorCode.invalid_partitions, f"A topic has at most {MAX_PARTITIONS} partitions here.")
    if not cluster.has_room_for(more):
        most = cluster.settings.kcoord_max_partitions
        raise Refusal(ErrorCode.invalid_partitions, f"All topics together have at most {most} partitions here.")


def _chosen_replicas(cluster: Cluster, new: NewTopic) -> list[list[NodeId]]:
    if new.replication_factor != USE_DEFAULT:
        raise Refusal(ErrorCode.invalid_request, "With replicas assigned, the replication factor must be -1.")
    if new.num_partitions != USE_DEFAULT:
        raise Refusal(ErrorCode.invalid_request, "With replicas assigned, the number of partitions must be -1.")
    _refuse_too_many(cluster, len(new.assignments), len(new.assignments))
    by_partition = dict(new.assignments)
    if sorted(by_partition) != list(range(len(new.assignments))):
        raise Refusal(ErrorCode.invalid_replica_assignment, "Partitions must be numbered from 0 without gaps.")
    return _known_replicas(cluster, [by_partition[index] for index in range(len(by_partition))])


def _known_replicas(cluster: Cluster, assignments: Sequence[Sequence[int]]) -> list[list[NodeId]]:
    for nodes in assignments:
        if not nodes:
            raise Refusal(ErrorCode.invalid_replica_assignment, "A partition must have at least one replica.")
        if len(set(nodes)) < len(nodes):
            raise Refusal(ErrorCode.invalid_replica_assignment, "A broker holds a partition at most once.")
        if len(nodes) != len(assignments[0]):
            raise Refusal(ErrorCode.invalid_replica_assignment, "All partitions must have as many replicas.")
        unknown = [node for node in nodes if node not in cluster.nodes]
        if unknown:
            raise Refusal(ErrorCode.invalid_replica_assignment, f"There is no broker {unknown[0]}.")
    return [[NodeId(node) for node in nodes] for nodes in assignments]


def _created_configs(cluster: Cluster, overrides: Mapping[str, str]) -> tuple[CreatedTopicConfig, ...]:
    return tuple(
        CreatedTopicConfig(
            name=name,
            value=effective(name, overrides, cluster.settings),
            config_source=effective_source(name, overrides, cluster.settings),
        )
        for name in sorted(TOPIC_SETTINGS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingTopic:
    """A topic in a CreatePartitions request that is to have `count` partitions in all; `assignments` are the replicas
    of the new ones, where the client chose them.
    """

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """A CreatePartitions request without a version."""

    topics: tuple[GrowingTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTopic:
    """The result of one topic in the reply to CreatePartitions."""

    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsReply:
    """The version-free reply to CreatePartitions."""

    results: tuple[GrownTopic, ...]
    throttle_time: float = 0.0


def create_partitions(cluster: Cluster, request: CreatePartitions, context: RequestContext) -> CreatePartitionsReply:
    """Decides a CreatePartitions request: adds partitions to topics."""
    repeated = _repeated([growth.name for growth in request.topics])
    lines = [
        GrownTopic(name=name, error_code=ErrorCode.invalid_request, error_message="Duplicate topic name.")
        for name in repeated
    ]
    once = [growth for growth in request.topics if growth.name not in repeated]
    lines += [_grow(cluster, growth, request.validate_only, context.now_ms) for growth in once]
    return CreatePartitionsReply(results=tuple(lines))


def _grow(cluster: Cluster, growth: GrowingTopic, validate_only: bool, now_ms: int) -> GrownTopic:
    topic = cluster.topics.get(growth.name)
    try:
        if topic is None:
            raise Refusal(ErrorCode.unknown_topic_or_partition, None)
        if topic.name == OFFSETS_TOPIC:
            raise Refusal(ErrorCode.invalid_partitions, "Groups are found by the number of partitions of this topic.")
        replicas = _replicas_of_growth(cluster, topic, growth)
        if not validate_only:
            cluster.add_partitions(topic, replicas, now_ms)
    except Refusal as refusal:
        return GrownTopic(name=growth.name, error_code=refusal.error, error_message=refusal.message)
    except OSError as error:
        return GrownTopic(
            name=growth.name, error_code=ErrorCode.kafka_storage_error, error_message=_storage_failure(error)
        )
    return GrownTopic(name=growth.name)


def _replicas_of_growth(cluster: Cluster, topic: Topic, growth: GrowingTopic) -> list[list[NodeId]]:
    present = len(topic.partitions)
    more = growth.count - present
    if more == 0:
        raise Refusal(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if more < 0:
        raise Refusal(
            ErrorCode.invalid_partitions, f"The topic {topic.name} has {present} partition(s); partitions never go."
        )
    _refuse_too_many(cluster, growth.count, more)
    if growth.assignments is None:
        return cluster.assign_replicas(present, more, len(topic.partitions[0].replicas))
    if len(growth.assignments) != more:
        raise Refusal(
            ErrorCode.invalid_replica_assignment,
            f"{more} partition(s) are to be added, but replicas of {len(growth.assignments)} were given.",
        )
    return _known_replicas(cluster, growth.assignments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToDelete:
    """A topic in a DeleteTopics request, by name or by id."""

    name: str | None
    topic_id: UUID | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the topic is given by exactly one of name and id."""
        return (self.name is None) != (self.topic_id is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """A DeleteTopics request without a version."""

    topics: tuple[TopicToDelete, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """The result of one topic in the reply to DeleteTopics."""

    name: str | None
    topic_id: UUID | None = None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsReply:
    """The version-free reply to DeleteTopics."""

    responses: tuple[DeletedTopic, ...]
    throttle_time: float = 0.0


def delete_topics(cluster: Cluster, request: DeleteTopics, context: RequestContext) -> DeleteTopicsReply:
    """Decides a DeleteTopics request: deletes topics and their logs."""
    nonsense = [doomed for doomed in request.topics if not doomed.is_clear]
    wanted = [doomed for doomed in request.topics if doomed.is_clear]
    repeated = _repeated(wanted)
    ambiguous = _both_named_and_numbered(cluster, wanted, repeated)
    spared = {doomed for topic in ambiguous for doomed in _identifiers_of(topic)}.union(repeated)
    lines = [_undeleted(doomed, "Either a name or an id must be given.") for doomed in nonsense]
    lines += [_undeleted(doomed, "Duplicate topic name or id.") for doomed in repeated]
    lines += [
        _undeleted(TopicToDelete(name=topic.name, topic_id=topic.topic_id), "The topic is given by name and by id.")
        for topic in ambiguous
    ]
    lines += [_delete(cluster, doomed) for doomed in wanted if doomed not in spared]
    return DeleteTopicsReply(responses=tuple(lines))


def _both_named_and_numbered(
    cluster: Cluster, wanted: Sequence[TopicToDelete], repeated: Collection[TopicToDelete]
) -> list[Topic]:
    """Returns the topics that are listed by name and by id."""
    ids = {doomed.topic_id for doomed in wanted}
    names = [doomed.name for doomed in wanted if doomed.name is not None and doomed not in repeated]
    named = [cluster.topics[name] for name in names if name in cluster.topics]
    return [topic for topic in named if topic.topic_id in ids]


def _identifiers_of(topic: Topic) -> tuple[TopicToDelete, TopicToDelete]:
    return TopicToDelete(name=topic.name), TopicToDelete(name=None, topic_id=topic.topic_id)


def _delete(cluster: Cluster, doomed: TopicToDelete) -> DeletedTopic:
    topic = cluster.topics.get(doomed.name) if doomed.name is not None else cluster.topic_by_id(doomed.topic_id)
    if topic is None:
        error = ErrorCode.unknown_topic_id if doomed.name is None else ErrorCode.unknown_topic_or_partition
        return _undeleted(doomed, "There is no such topic.", error)
    if topic.name == OFFSETS_TOPIC:
        return _undeleted(doomed, "Groups live in this topic.", ErrorCode.invalid_topic_exception)
    try:
        cluster.delete_topic(topic)
    except OSError as error:
        return _undeleted(doomed, _storage_failure(error), ErrorCode.kafka_storage_error)
    return DeletedTopic(name=topic.name, topic_id=topic.topic_id)


def _undeleted(doomed: TopicToDelete, message: str, error: ErrorCode = ErrorCode.invalid_request) -> DeletedTopic:
    return DeletedTopic(name=doomed.name, topic_id=doomed.topic_id, error_code=error, error_message=message)


def _storage_failure(error: OSError) -> str:
    return f"The change cannot be kept: {error.strerror or error}"


def _repeated(items: Sequence[Item]) -> KeysView[Item]:
    """Returns the items that occur more than once, in their order."""
    return {item: times for item, times in Counter(items).items() if times > 1}.keys()
