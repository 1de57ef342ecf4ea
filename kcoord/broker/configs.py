"""Settings over the wire: DescribeConfigs and IncrementalAlterConfigs, of topics and of the brokers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcoord.broker.cluster import Asked, Cluster, Node, Topic
from kcoord.broker.names import why_invalid
from kcoord.broker.topic_settings import (
    TOPIC_SETTINGS,
    BadConfig,
    ConfigType,
    broker_value,
    effective,
    refuse_unless_valid,
)
from kcoord.errors import ErrorCode
from kcoord.settings import Settings, known_settings


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


_KAFKA_RESOURCE_TYPES: Final = frozenset({2, 4, 8, 16, 32})  # also loggers, client metrics, groups


class ConfigSource(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAsked:
    """`configuration_keys` None or none asks for all."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigs:
    resources: tuple[ResourceAsked, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLine:
    name: str
    value: str | None
    config_source: ConfigSource
    config_type: ConfigType
    read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedResource:
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""
    configs: tuple[ConfigLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsReply:
    results: tuple[DescribedResource, ...]
    throttle_time: float = 0.0


def describe_configs(cluster: Cluster, request: DescribeConfigs, asked: Asked) -> DescribeConfigsReply:
    resources = dict.fromkeys(request.resources)  # each once: a short request must not make an endless answer
    if any(resource.resource_type not in _KAFKA_RESOURCE_TYPES for resource in resources):
        return DescribeConfigsReply(results=tuple(map(_of_no_kind, resources)))
    return DescribeConfigsReply(
        results=tuple(_described(cluster, resource, request, asked.node) for resource in resources)
    )


def _of_no_kind(resource: ResourceAsked) -> DescribedResource:
    """One resource of a kind that Kafka does not have spoils the whole request (ConfigHelper)."""
    return DescribedResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=ErrorCode.invalid_request,
        error_message="Unexpected resource type",
    )


def effective_source(name: str, overrides: Mapping[str, str], settings: Settings) -> ConfigSource:
    if name in overrides:
        return ConfigSource.TOPIC
    inherited = broker_value(name, settings)
    is_default = inherited is None or inherited == TOPIC_SETTINGS[name].default
    return ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER


def _described(cluster: Cluster, resource: ResourceAsked, request: DescribeConfigs, node: Node) -> DescribedResource:
    match resource.resource_type:
        case ResourceType.TOPIC:
            error, message, lines = _topic_lines(cluster, resource.resource_name, request)
        case ResourceType.BROKER:
            error, message, lines = _broker_lines(cluster, resource.resource_name, request, node)
        case _:
            error, message, lines = ErrorCode.invalid_request, "only topics and brokers have settings here", []
    wanted = resource.configuration_keys
    return DescribedResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error,
        error_message=message,
        configs=tuple(line for line in lines if not wanted or line.name in wanted),
    )


def _topic_lines(cluster: Cluster, name: str, request: DescribeConfigs) -> tuple[ErrorCode, str, list[ConfigLine]]:
    if reason := why_invalid(name):
        return ErrorCode.invalid_topic_exception, reason, []
    topic = cluster.topics.get(name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, "", []
    lines = [_topic_line(topic, setting, cluster.settings, request) for setting in sorted(TOPIC_SETTINGS)]
    return ErrorCode.none, "", lines


def _topic_line(topic: Topic, name: str, settings: Settings, request: DescribeConfigs) -> ConfigLine:
    return ConfigLine(
        name=name,
        value=TOPIC_SETTINGS[name].shown(effective(name, topic.overrides, settings)),
        config_source=effective_source(name, topic.overrides, settings),
        config_type=TOPIC_SETTINGS[name].kind,
        synonyms=tuple(_synonyms(name, topic.overrides, settings)) if request.include_synonyms else (),
    )


def _synonyms(name: str, overrides: Mapping[str, str], settings: Settings) -> list[Synonym]:
    setting = TOPIC_SETTINGS[name]
    synonyms = []
    if name in overrides:
        synonyms.append(Synonym(name=name, value=setting.shown(overrides[name]), source=ConfigSource.TOPIC))
    if setting.broker_name is None:
        return synonyms
    if effective_source(name, {}, settings) is ConfigSource.STATIC_BROKER:
        value = broker_value(name, settings)
        synonyms.append(Synonym(name=setting.broker_name, value=value, source=ConfigSource.STATIC_BROKER))
    if setting.has_broker_default:
        synonyms.append(Synonym(name=setting.broker_name, value=setting.default, source=ConfigSource.DEFAULT))
    return synonyms


def _broker_lines(
    cluster: Cluster, name: str, request: DescribeConfigs, node: Node
) -> tuple[ErrorCode, str, list[ConfigLine]]:
    if name == "":  # the settings that were changed for all brokers at run time: there are none
        return ErrorCode.none, "", []
    if not name.removeprefix("-").isdecimal():
        return ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}", []
    if int(name) != node.node_id:
        return ErrorCode.invalid_request, f"this is broker {node.node_id}, not {name}", []
    lines = [_broker_line(setting, value, request) for setting, value in cluster.settings.by_name().items()]
    return ErrorCode.none, "", lines


def _broker_line(name: str, value: object, request: DescribeConfigs) -> ConfigLine:
    default = Settings().by_name()[name]
    synonyms = [Synonym(name=name, value=_text(default), source=ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name=name, value=_text(value), source=ConfigSource.STATIC_BROKER))
    return ConfigLine(
        name=name,
        value=_text(value),
        config_source=synonyms[0].source,
        config_type=_config_type(name, value),
        read_only=True,
        synonyms=tuple(synonyms) if request.include_synonyms else (),
        documentation=known_settings()[name] if request.include_documentation else None,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _config_type(name: str, value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, int):
        return ConfigType.LONG if name in _LONG_SETTINGS else ConfigType.INT
    return ConfigType.LIST if name == "log.cleanup.policy" else ConfigType.STRING


_LONG_SETTINGS: Final = frozenset(
    {
        "connections.max.idle.ms",
        "kcoord.log.memory.bytes",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "queued.max.request.bytes",
    }
)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResource:
    resource_type: int
    resource_name: str
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    resources: tuple[AlteredResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterLine:
    resource_type: int
    resource_name: str
    error_code: ErrorCode
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsReply:
    responses: tuple[AlterLine, ...]
    throttle_time: float = 0.0


Verdict = tuple[ErrorCode, str | None]


def alter_configs(cluster: Cluster, request: AlterConfigs, asked: Asked) -> AlterConfigsReply:
    """Alter each resource as a whole or not at all; the order of the checks is ConfigAdminManager's."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    lines = []
    for resource in request.resources:
        if times[resource.resource_type, resource.resource_name] > 1:
            verdict: Verdict = (ErrorCode.invalid_request, "Each resource must appear at most once.")
        else:
            verdict = _alter(cluster, resource, request.validate_only)
        lines.append(
            AlterLine(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=verdict[0],
                error_message=verdict[1],
            )
        )
    return AlterConfigsReply(responses=tuple(lines))


def _alter(cluster: Cluster, resource: AlteredResource, validate_only: bool) -> Verdict:
    names = Counter(alteration.name for alteration in resource.alterations)
    if any(times > 1 for times in names.values()):
        return ErrorCode.invalid_request, "a setting is named more than once"
    nulls = [one.name for one in resource.alterations if one.value is None and one.operation != Operation.DELETE]
    if nulls:
        return ErrorCode.invalid_request, f"Null value not supported for : {', '.join(nulls)}"
    if resource.resource_type == ResourceType.BROKER:
        return ErrorCode.invalid_request, f"brokers cannot be changed while they run: [{', '.join(names)}]"
    if resource.resource_type != ResourceType.TOPIC:
        return ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}"
    return _alter_topic(cluster, resource, validate_only)


def _alter_topic(cluster: Cluster, resource: AlteredResource, validate_only: bool) -> Verdict:
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
    if not validate_only:
        cluster.configure(topic, overrides)
    return ErrorCode.none, None


def _apply(alteration: Alteration, overrides: dict[str, str], settings: Settings) -> Verdict:
    """Change the overrides by one alteration, or say why it has no meaning; whether they are valid is seen later."""
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
