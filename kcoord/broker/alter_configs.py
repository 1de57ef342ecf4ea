"""Changes settings of topics for IncrementalAlterConfigs."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum

from kcoord.broker.cluster import Cluster, RequestContext
from kcoord.broker.describe_configs import ResourceType
from kcoord.broker.names import why_invalid
from kcoord.broker.offsets_topic import why_offsets_are_lost
from kcoord.broker.topic_settings import TOPIC_SETTINGS, BadConfig, ConfigType, effective, refuse_unless_valid
from kcoord.errors import ErrorCode
from kcoord.settings import Settings


class Operation(IntEnum):
    """An operation of IncrementalAlterConfigs on one setting (Kafka's AlterConfigOp.OpType). APPEND and SUBTRACT are
    for lists.
    """

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A change of one setting in an IncrementalAlterConfigs request. `operation` is an Operation, or an
    unknown number.
    """

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResource:
    """A topic or broker (`resource_type`: see ResourceType) whose settings an IncrementalAlterConfigs request
    changes.
    """

    resource_type: int
    resource_name: str
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """An IncrementalAlterConfigs request without a version."""

    resources: tuple[AlteredResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResult:
    """The result of one resource in the reply to IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsReply:
    """The version-free reply to IncrementalAlterConfigs: a result for each resource."""

    responses: tuple[AlterConfigsResult, ...]
    throttle_time: float = 0.0


ErrorAndMessage = tuple[ErrorCode, str | None]


def alter_configs(cluster: Cluster, request: AlterConfigs, context: RequestContext) -> AlterConfigsReply:
    """Decides an IncrementalAlterConfigs request. Each resource is changed completely or not at all; the checks have
    the order of Kafka's ConfigAdminManager.
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results = []
    for resource in request.resources:
        if times[resource.resource_type, resource.resource_name] > 1:
            outcome: ErrorAndMessage = (ErrorCode.invalid_request, "Each resource must appear at most once.")
        else:
            outcome = _alter(cluster, resource, request.validate_only)
        results.append(
            AlterConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=outcome[0],
                error_message=outcome[1],
            )
        )
    return AlterConfigsReply(responses=tuple(results))


def _alter(cluster: Cluster, resource: AlteredResource, validate_only: bool) -> ErrorAndMessage:
    if refused := refusal(resource):
        return refused
    if resource.resource_type == ResourceType.BROKER:
        names = ", ".join(alteration.name for alteration in resource.alterations)
        return ErrorCode.invalid_request, f"brokers cannot be changed while they run: [{names}]"
    if resource.resource_type != ResourceType.TOPIC:
        return ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}"
    return _alter_topic(cluster, resource, validate_only)


def refusal(resource: AlteredResource) -> ErrorAndMessage | None:
    """Returns the error of a resource whose alterations contradict each other or lack a value, else None. This is
    checked before it is known whether the resource exists and the client may alter it.
    """
    names = Counter(alteration.name for alteration in resource.alterations)
    if any(times > 1 for times in names.values()):
        return ErrorCode.invalid_request, "a setting is named more than once"
    nulls = [one.name for one in resource.alterations if one.value is None and one.operation != Operation.DELETE]
    if nulls:
        return ErrorCode.invalid_request, f"Null value not supported for : {', '.join(nulls)}"
    return None


def _alter_topic(cluster: Cluster, resource: AlteredResource, validate_only: bool) -> ErrorAndMessage:
    name = resource.resource_name
    topic = cluster.topics.get(name)
    overrides = dict(topic.overrides) if topic else {}
    for alteration in resource.alterations:
        error, message = _apply(alteration, overrides, cluster.settings)
        if error:
            return error, message
    if not name:
        return ErrorCode.invalid_request, "Default topic resources are not allowed."
    if reason := why_invalid(name):
        return ErrorCode.invalid_topic_exception, reason
    try:
        refuse_unless_valid(overrides)
    except BadConfig as bad:
        return ErrorCode.invalid_config, str(bad)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
    if reason := why_offsets_are_lost(name, overrides, cluster.settings):
        return ErrorCode.invalid_config, reason
    try:
        if not validate_only:
            cluster.configure(topic, overrides)
    except OSError as failed:
        return ErrorCode.kafka_storage_error, f"The change cannot be kept: {failed.strerror or failed}"
    return ErrorCode.none, None


def _apply(alteration: Alteration, overrides: dict[str, str], settings: Settings) -> ErrorAndMessage:
    """Applies one alteration to the overrides, or returns why it has no meaning. Their values are validated later."""
    name, value = alteration.name, alteration.value or ""
    match alteration.operation:
        case Operation.SET:
            overrides[name] = value
        case Operation.DELETE:
            overrides.pop(name, None)
        case Operation.APPEND | Operation.SUBTRACT:
            if name not in TOPIC_SETTINGS or TOPIC_SETTINGS[name].kind is not ConfigType.LIST:
                return ErrorCode.invalid_config, f"{name} is not a list, so nothing can be added to it or taken away"
            overrides[name] = _changed_list(alteration.operation, effective(name, overrides, settings), value)
        case _:
            return ErrorCode.unknown_server_error, None
    return ErrorCode.none, None


def _changed_list(operation: int, present: str, change: str) -> str:
    items, changes = [item for item in present.split(",") if item], change.split(",")
    for item in changes:
        if operation == Operation.APPEND and item not in items:
            items.append(item)
        elif operation == Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)
