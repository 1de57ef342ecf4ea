"""Settings over the wire: DescribeConfigs and IncrementalAlterConfigs, of topics and of the brokers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kcoord.broker.cluster import Asked, Cluster, Node, Topic
from kcoord.broker.names import why_invalid
from kcoord.broker.topic_settings import BadConfig, ConfigType, broker_value, effective, topic_settings
from kcoord.errors import ErrorCode
from kcoord.settings import Settings, known_settings


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAsked:
    """`configuration_keys` None asks for all."""

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
    return DescribeConfigsReply(
        results=tuple(_described(cluster, resource, request, asked.node) for resource in request.resources)
    )


def effective_source(name: str, overrides: Mapping[str, str], settings: Settings) -> ConfigSource:
    if name in overrides:
        return ConfigSource.TOPIC
    inherited = broker_value(name, settings)
    is_default = inherited is None or inherited == topic_settings[name].default
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
        configs=tuple(line for line in lines if wanted is None or line.name in wanted),
    )


def _topic_lines(cluster: Cluster, name: str, request: DescribeConfigs) -> tuple[ErrorCode, str, list[ConfigLine]]:
    if reason := why_invalid(name):
        return ErrorCode.invalid_topic_exception, reason, []
    topic = cluster.topics.get(name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, "", []
    lines = [_topic_line(topic, setting, cluster.settings, request) for setting in sorted(topic_settings)]
    return ErrorCode.none, "", lines


def _topic_line(topic: Topic, name: str, settings: Settings, request: DescribeConfigs) -> ConfigLine:
    return ConfigLine(
        name=name,
        value=effective(name, topic.overrides, settings),
        config_source=effective_source(name, topic.overrides, settings),
        config_type=topic_settings[name].kind,
        synonyms=tuple(_synonyms(name, topic.overrides, settings)) if request.include_synonyms else (),
    )


def _synonyms(name: str, overrides: Mapping[str, str], settings: Settings) -> list[Synonym]:
    setting = topic_settings[name]
    synonyms = []
    if name in overrides:
        synonyms.append(Synonym(name=name, value=overrides[name], source=ConfigSource.TOPIC))
    if setting.broker_name is None:
        return synonyms
    if effective_source(name, {}, settings) is ConfigSource.STATIC_BROKER:
        value = broker_value(name, settings)
        synonyms.append(Synonym(name=setting.broker_name, value=value, source=ConfigSource.STATIC_BROKER))
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
    defaults, abouts = Settings().by_name(), known_settings()
    lines = [
        ConfigLine(
            name=setting,
            value=str(value).lower() if isinstance(value, bool) else str(value),
            config_source=ConfigSource.DEFAULT if value == defaults[setting] else ConfigSource.STATIC_BROKER,
            config_type=_config_type(value),
            read_only=True,
            documentation=abouts[setting] if request.include_documentation else None,
        )
        for setting, value in cluster.settings.by_name().items()
    ]
    return ErrorCode.none, "", lines


def _config_type(value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    return ConfigType.LONG if isinstance(value, int) else ConfigType.STRING


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


def alter_configs(cluster: Cluster, request: AlterConfigs, asked: Asked) -> AlterConfigsReply:
    lines = []
    for resource in request.resources:
        error, message = _alter(cluster, resource, request.validate_only)
        lines.append(
            AlterLine(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error,
                error_message=message,
            )
        )
    return AlterConfigsReply(responses=tuple(lines))


def _alter(cluster: Cluster, resource: AlteredResource, validate_only: bool) -> tuple[ErrorCode, str | None]:
    names = Counter(alteration.name for alteration in resource.alterations)
    if any(times > 1 for times in names.values()):
        return ErrorCode.invalid_request, "a setting is named more than once"
    if resource.resource_type == ResourceType.BROKER:
        return ErrorCode.invalid_request, f"brokers cannot be changed while they run: [{', '.join(names)}]"
    if resource.resource_type != ResourceType.TOPIC:
        return ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}"
    topic = cluster.topics.get(resource.resource_name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"The topic '{resource.resource_name}' does not exist."
    overrides = dict(topic.overrides)
    for alteration in resource.alterations:
        error, message = _apply(alteration, overrides, cluster.settings)
        if error:
            return error, message
    if not validate_only:
        cluster.configure(topic, overrides)
    return ErrorCode.none, None


def _apply(alteration: Alteration, overrides: dict[str, str], settings: Settings) -> tuple[ErrorCode, str | None]:
    """Change the overrides by one alteration, or say why not."""
    name, value = alteration.name, alteration.value
    if alteration.operation != Operation.DELETE and value is None:
        return ErrorCode.invalid_request, f"Null value not supported for : {name}"
    if name not in topic_settings:
        return ErrorCode.invalid_config, f"Unknown topic config name: {name}"
    if alteration.operation == Operation.DELETE:
        overrides.pop(name, None)
        return ErrorCode.none, None
    assert value is not None
    if alteration.operation in (Operation.APPEND, Operation.SUBTRACT):
        if topic_settings[name].kind is not ConfigType.LIST:
            return ErrorCode.invalid_config, f"{name} is not a list, so nothing can be added to it or taken away"
        value = _changed_list(alteration.operation, effective(name, overrides, settings), value)
    elif alteration.operation != Operation.SET:
        return ErrorCode.unknown_server_error, None
    try:
        topic_settings[name].refuse_unless_valid(value)
    except BadConfig as error:
        return ErrorCode.invalid_config, str(error)
    overrides[name] = value
    return ErrorCode.none, None


def _changed_list(operation: int, present: str, change: str) -> str:
    items, changes = present.split(",") if present else [], change.split(",")
    if operation == Operation.APPEND:
        return ",".join([*items, *(item for item in changes if item not in items)])
    return ",".join(item for item in items if item not in changes)
