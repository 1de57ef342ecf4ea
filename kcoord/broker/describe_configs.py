"""Describes settings of topics and of brokers, for DescribeConfigs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcoord.broker.cluster import Cluster, Node, RequestContext, Topic
from kcoord.broker.names import why_invalid
from kcoord.broker.topic_settings import (
    TOPIC_SETTINGS,
    ConfigType,
    broker_value,
    effective,
)
from kcoord.errors import ErrorCode
from kcoord.settings import Settings, known_settings


class ResourceType(IntEnum):
    """The types of config resources that are served here, under Kafka's numbers (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4


_MOST_RESOURCES: Final = 10_000
_KAFKA_RESOURCE_TYPES: Final = frozenset({2, 4, 8, 16, 32})  # Also loggers, client metrics and groups.


class ConfigSource(IntEnum):
    """The origin of a setting's value in DescribeConfigs, under Kafka's numbers: the topic, the broker's properties, or
    Kafka's default.
    """

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedResource:
    """A topic or broker whose settings a DescribeConfigs request asks for: all of them if `configuration_keys` is None
    or empty.
    """

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigs:
    """A DescribeConfigs request without a version."""

    resources: tuple[RequestedResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A synonym of a setting in DescribeConfigs: another place that the value could come from (KIP-226). The first one
    in a list wins.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One setting of a topic or broker in the reply to DescribeConfigs."""

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
    """The settings of one topic or broker in the reply to DescribeConfigs, or its error."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""
    configs: tuple[DescribedConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsReply:
    """The version-free reply to DescribeConfigs."""

    results: tuple[DescribedResource, ...]
    throttle_time: float = 0.0


def describe_configs(cluster: Cluster, request: DescribeConfigs, context: RequestContext) -> DescribeConfigsReply:
    """Decides a DescribeConfigs request about topics and brokers."""
    if has_unknown_resource_type(request):
        return DescribeConfigsReply(results=tuple(map(_refuse_unknown_type, request.resources)))
    if len(request.resources) > _MOST_RESOURCES:
        return DescribeConfigsReply(results=tuple(map(_refuse_too_many, request.resources)))
    return DescribeConfigsReply(
        results=tuple(_described(cluster, resource, request, context.node) for resource in request.resources)
    )


def has_unknown_resource_type(request: DescribeConfigs) -> bool:
    """Returns whether a resource of the request has a type that Kafka does not know: then every resource gets
    an error.
    """
    return any(resource.resource_type not in _KAFKA_RESOURCE_TYPES for resource in request.resources)


def _refuse_too_many(resource: RequestedResource) -> DescribedResource:
    """Refuses a request that is short but would have a huge response."""
    return DescribedResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=ErrorCode.invalid_request,
        error_message=f"More than {_MOST_RESOURCES} resources in one request",
    )


def _refuse_unknown_type(resource: RequestedResource) -> DescribedResource:
    """Refuses every resource, as Kafka does if one has an unknown type (ConfigHelper)."""
    return DescribedResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=ErrorCode.invalid_request,
        error_message="Unexpected resource type",
    )


def effective_source(name: str, overrides: Mapping[str, str], settings: Settings) -> ConfigSource:
    """Returns where a topic gets the value of the setting `name` from: its overrides, the broker's settings or the
    default.
    """
    if name in overrides:
        return ConfigSource.TOPIC
    inherited = broker_value(name, settings)
    is_default = inherited is None or inherited == TOPIC_SETTINGS[name].default
    return ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER


def _described(
    cluster: Cluster, resource: RequestedResource, request: DescribeConfigs, node: Node
) -> DescribedResource:
    match resource.resource_type:
        case ResourceType.TOPIC:
            error, message, configs = _topic_configs(cluster, resource.resource_name, request)
        case ResourceType.BROKER:
            error, message, configs = _broker_configs(cluster, resource.resource_name, request, node)
        case _:
            error, message, configs = ErrorCode.invalid_request, "only topics and brokers have settings here", []
    wanted = resource.configuration_keys
    return DescribedResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error,
        error_message=message,
        configs=tuple(config for config in configs if not wanted or config.name in wanted),
    )


def _topic_configs(
    cluster: Cluster, name: str, request: DescribeConfigs
) -> tuple[ErrorCode, str, list[DescribedConfig]]:
    if reason := why_invalid(name):
        return ErrorCode.invalid_topic_exception, reason, []
    topic = cluster.topics.get(name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, "", []
    configs = [_topic_config(topic, setting, cluster.settings, request) for setting in sorted(TOPIC_SETTINGS)]
    return ErrorCode.none, "", configs


def _topic_config(topic: Topic, name: str, settings: Settings, request: DescribeConfigs) -> DescribedConfig:
    return DescribedConfig(
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


def _broker_configs(
    cluster: Cluster, name: str, request: DescribeConfigs, node: Node
) -> tuple[ErrorCode, str, list[DescribedConfig]]:
    if name == "":  # The empty name means the settings that were changed for all brokers at run time: there are none.
        return ErrorCode.none, "", []
    if not name.removeprefix("-").isdecimal():
        return ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}", []
    if int(name) != node.node_id:
        return ErrorCode.invalid_request, f"this is broker {node.node_id}, not {name}", []
    configs = [_broker_config(setting, value, request) for setting, value in cluster.settings.by_name().items()]
    return ErrorCode.none, "", configs


def _broker_config(name: str, value: object, request: DescribeConfigs) -> DescribedConfig:
    default = Settings().by_name()[name]
    synonyms = [Synonym(name=name, value=_text(default), source=ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name=name, value=_text(value), source=ConfigSource.STATIC_BROKER))
    return DescribedConfig(
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
        "kcoord.log.bytes",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "queued.max.request.bytes",
    }
)
