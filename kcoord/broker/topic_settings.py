"""The settings of a topic: Kafka 4.3's names, types and defaults, and which of them change what kcoord does.

A topic takes every setting that Kafka's topics have, so that a tool that sets one works; DescribeConfigs shows it. The
ones that are not honoured tune disks, replicas and tiers, which an embedded cluster does not have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from kcoord.broker.partition_log import LogSettings
from kcoord.settings import Settings


class ConfigType(IntEnum):
    """DescribeConfigs' types."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class BadConfig(ValueError):
    """A value that Kafka refuses with INVALID_CONFIG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    name: str
    kind: ConfigType
    default: str
    broker_name: str | None  # the broker setting that stands in where a topic sets none
    least: float | None = None
    choices: tuple[str, ...] = ()

    def refuse_unless_valid(self, value: str) -> None:
        """Raise BadConfig for a value of another type or outside the limits."""
        parse = _parsers.get(self.kind)
        try:
            number = parse(value.strip()) if parse else None
        except ValueError:
            expected = "a boolean" if self.kind is ConfigType.BOOLEAN else "a number"
            raise BadConfig(f"Invalid value {value} for configuration {self.name}: {expected} is expected") from None
        if self.least is not None and number is not None and number < self.least:
            raise BadConfig(f"Invalid value {value} for configuration {self.name}: at least {self.least} is expected")
        given = [part.strip() for part in value.split(",")] if self.kind is ConfigType.LIST else [value]
        if self.choices and any(part not in self.choices for part in given):
            allowed = ", ".join(self.choices)
            raise BadConfig(f"Invalid value {value} for configuration {self.name}: one of {allowed} is expected")


def _boolean(text: str) -> float:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_parsers: Final[Mapping[ConfigType, Callable[[str], float]]] = MappingProxyType(
    {ConfigType.BOOLEAN: _boolean, ConfigType.INT: int, ConfigType.LONG: int, ConfigType.DOUBLE: float}
)


def _row(
    name: str,
    kind: ConfigType,
    default: str,
    broker_name: str | None = None,
    *,
    least: float | None = None,
    choices: tuple[str, ...] = (),
) -> tuple[str, TopicSetting]:
    setting = TopicSetting(name=name, kind=kind, default=default, broker_name=broker_name, least=least, choices=choices)
    return name, setting


_longest = str(2**63 - 1)
_int, _long, _list, _boolean_, _string = (
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.BOOLEAN,
    ConfigType.STRING,
)

honoured: Final = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)

topic_settings: Final[Mapping[str, TopicSetting]] = MappingProxyType(
    dict(
        [
            _row("cleanup.policy", _list, "delete", "log.cleanup.policy", choices=("delete", "compact")),
            _row("compression.gzip.level", _int, "-1", "compression.gzip.level"),
            _row("compression.lz4.level", _int, "9", "compression.lz4.level"),
            _row(
                "compression.type",
                _string,
                "producer",
                "compression.type",
                choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            ),
            _row("compression.zstd.level", _int, "3", "compression.zstd.level"),
            _row("delete.retention.ms", _long, "86400000", "log.cleaner.delete.retention.ms", least=0),
            _row("file.delete.delay.ms", _long, "60000", "log.segment.delete.delay.ms", least=0),
            _row("flush.messages", _long, _longest, "log.flush.interval.messages", least=1),
            _row("flush.ms", _long, _longest, least=0),
            _row("follower.replication.throttled.replicas", _list, ""),
            _row("index.interval.bytes", _int, "4096", "log.index.interval.bytes", least=0),
            _row("leader.replication.throttled.replicas", _list, ""),
            _row("local.retention.bytes", _long, "-2", "log.local.retention.bytes", least=-2),
            _row("local.retention.ms", _long, "-2", "log.local.retention.ms", least=-2),
            _row("max.compaction.lag.ms", _long, _longest, "log.cleaner.max.compaction.lag.ms", least=1),
            _row("max.message.bytes", _int, "1048588", "message.max.bytes", least=0),
            _row("message.timestamp.after.max.ms", _long, "3600000", "log.message.timestamp.after.max.ms", least=0),
            _row("message.timestamp.before.max.ms", _long, _longest, "log.message.timestamp.before.max.ms", least=0),
            _row(
                "message.timestamp.type",
                _string,
                "CreateTime",
                "log.message.timestamp.type",
                choices=("CreateTime", "LogAppendTime"),
            ),
            _row("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", least=0),
            _row("min.compaction.lag.ms", _long, "0", "log.cleaner.min.compaction.lag.ms", least=0),
            _row("min.insync.replicas", _int, "1", "min.insync.replicas", least=1),
            _row("preallocate", _boolean_, "false", "log.preallocate"),
            _row("remote.log.copy.disable", _boolean_, "false"),
            _row("remote.log.delete.on.disable", _boolean_, "false"),
            _row("remote.storage.enable", _boolean_, "false"),
            _row("retention.bytes", _long, "-1", "log.retention.bytes"),
            _row("retention.ms", _long, "604800000", "log.retention.ms", least=-1),
            _row("segment.bytes", _int, "1073741824", "log.segment.bytes", least=1024 * 1024),
            _row("segment.index.bytes", _int, "10485760", "log.index.size.max.bytes", least=4),
            _row("segment.jitter.ms", _long, "0", least=0),
            _row("segment.ms", _long, "604800000", least=1),
            _row("unclean.leader.election.enable", _boolean_, "false", "unclean.leader.election.enable"),
        ]
    )
)


def effective(name: str, overrides: Mapping[str, str], settings: Settings) -> str:
    """The value that holds: the topic's own, else the server's, else Kafka's default."""
    if name in overrides:
        return overrides[name]
    inherited = broker_value(name, settings)
    return topic_settings[name].default if inherited is None else inherited


def broker_value(name: str, settings: Settings) -> str | None:
    """What the server's settings say for a topic setting, as text."""
    broker_name = topic_settings[name].broker_name
    value = settings.by_name().get(broker_name) if broker_name else None
    return None if value is None else str(value)


def log_settings(overrides: Mapping[str, str], settings: Settings) -> LogSettings:
    """What a partition's log goes by."""

    def number(name: str) -> int:
        return int(effective(name, overrides, settings))

    policies = {policy.strip() for policy in effective("cleanup.policy", overrides, settings).split(",")}
    return LogSettings(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        retention_bytes=number("retention.bytes"),
        retention_ms=number("retention.ms"),
        max_message_bytes=number("max.message.bytes"),
        uses_append_time=effective("message.timestamp.type", overrides, settings) == "LogAppendTime",
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        is_compacted="compact" in policies,
        is_deletable="delete" in policies,
    )
