"""The settings of a topic: Kafka 4.3's names, types and defaults.

A topic accepts every setting that Kafka's topics have, so that tools that set one work, and DescribeConfigs shows it.
`log_settings` has those that a log uses. The others tune disks, replicas and tiers, which an embedded cluster lacks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, assert_never

from kcoord.broker.log.partition_log import LogSettings
from kcoord.exceptions import InvalidInput
from kcoord.settings import Settings


class ConfigType(IntEnum):
    """The type of a setting, under the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class BadConfig(InvalidInput, ValueError):
    """Raised for a topic setting that Kafka refuses with INVALID_CONFIG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """The definition of one topic setting: its type, default, limits, and the broker setting that it inherits from
    (Kafka's ConfigDef).
    """

    name: str
    kind: ConfigType
    default: str
    broker_name: str | None  # The broker setting that applies where a topic sets none.
    has_broker_default: bool  # Whether that broker setting has a default.
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None  # Matches the value, or each element of a list.

    def parsed(self, value: str) -> bool | int | float | str | tuple[str, ...]:
        """Parses the setting's text to a value of its type, as Kafka does (ConfigDef.parseType). Raises BadConfig."""
        text = value.strip()
        try:
            match self.kind:
                case ConfigType.BOOLEAN:
                    return _boolean(text)
                case ConfigType.INT:
                    return _integer(text, bits=32)
                case ConfigType.LONG:
                    return _integer(text, bits=64)
                case ConfigType.DOUBLE:
                    return _double(text)
                case ConfigType.LIST:
                    return tuple(part.strip() for part in text.split(",")) if text else ()
                case ConfigType.STRING:
                    return text
                case _ as never:
                    assert_never(never)
        except ValueError:
            raise BadConfig(f"Invalid value {value} for configuration {self.name}: not of its type") from None

    def shown(self, value: str) -> str:
        """Formats the setting's text as DescribeConfigs shows it (ConfigDef.convertToString)."""
        parsed = self.parsed(value)
        if isinstance(parsed, bool):
            return "true" if parsed else "false"
        return ",".join(parsed) if isinstance(parsed, tuple) else str(parsed)

    def refuse_unless_valid(self, value: str) -> None:
        """Raises BadConfig for a value of another type or outside the setting's limits."""
        parsed = self.parsed(value)
        if isinstance(parsed, int | float):
            is_valid = not (self.least is not None and parsed < self.least)
            is_valid = is_valid and not (self.most is not None and parsed > self.most)
        else:
            given = parsed if isinstance(parsed, tuple) else (parsed,)
            is_valid = not self.choices or all(part in self.choices for part in given)
        if not is_valid or (self.pattern and not self.pattern.fullmatch(value.strip())):
            raise BadConfig(f"Invalid value {value} for configuration {self.name}{self._allowed()}")

    def _allowed(self) -> str:
        if self.choices:
            return f": one of {', '.join(self.choices)} is expected"
        limits = [f"at least {self.least}"] if self.least is not None else []
        limits += [f"at most {self.most}"] if self.most is not None else []
        return f": {' and '.join(limits)} is expected" if limits else ""


def refuse_unless_valid(overrides: Mapping[str, str]) -> None:
    """Raises BadConfig if these topic settings cannot be set, alone or together (LogConfig.validate)."""
    for name, value in overrides.items():
        if name not in TOPIC_SETTINGS:
            raise BadConfig(f"Unknown topic config name: {name}")
        TOPIC_SETTINGS[name].refuse_unless_valid(value)
    lags = [overrides.get(name, TOPIC_SETTINGS[name].default) for name in ("min.compaction.lag.ms", _MAX_LAG)]
    if int(lags[0]) > int(lags[1]):
        raise BadConfig(f"conflict topic config setting min.compaction.lag.ms ({lags[0]}) > {_MAX_LAG} ({lags[1]})")
    if overrides.get("remote.storage.enable", "").strip().lower() == "true":
        raise BadConfig("There is no tiered storage here, so remote.storage.enable cannot be true")


_MAX_LAG: Final = "max.compaction.lag.ms"
_JAVA_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_GZIP_LEVEL: Final = re.compile(r"-0*1|\+?0*[1-9]")
_THROTTLED_REPLICAS: Final = re.compile(r"\*|(\d+:\d+)?(\s*,\s*(\d+:\d+)?)*")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _integer(text: str, *, bits: int) -> int:
    """Parses as Java does, which allows neither underscores nor numbers that are too long."""
    number = int(text)
    if "_" in text or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(text)
    return number


def _double(text: str) -> float:
    if not _JAVA_DOUBLE.fullmatch(text):
        raise ValueError(text)
    return float(text.rstrip("fFdD"))


def _row(
    name: str,
    kind: ConfigType,
    default: str,
    broker_name: str | None = None,
    *,
    has_broker_default: bool = True,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    pattern: re.Pattern[str] | None = None,
) -> tuple[str, TopicSetting]:
    setting = TopicSetting(
        name=name,
        kind=kind,
        default=default,
        broker_name=broker_name,
        has_broker_default=has_broker_default,
        least=least,
        most=most,
        choices=choices,
        pattern=pattern,
    )
    return name, setting


_LONGEST = str(2**63 - 1)
_int, _long, _double_, _list, _boolean_, _string = (
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.BOOLEAN,
    ConfigType.STRING,
)

TOPIC_SETTINGS: Final[Mapping[str, TopicSetting]] = MappingProxyType(
    dict(
        [
            _row("cleanup.policy", _list, "delete", "log.cleanup.policy", choices=("delete", "compact")),
            _row("compression.gzip.level", _int, "-1", "compression.gzip.level", pattern=_GZIP_LEVEL),
            _row("compression.lz4.level", _int, "9", "compression.lz4.level", least=1, most=17),
            _row(
                "compression.type",
                _string,
                "producer",
                "compression.type",
                choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            ),
            _row("compression.zstd.level", _int, "3", "compression.zstd.level", least=-131072, most=22),
            _row("delete.retention.ms", _long, "86400000", "log.cleaner.delete.retention.ms", least=0),
            _row("file.delete.delay.ms", _long, "60000", "log.segment.delete.delay.ms", least=0),
            _row("flush.messages", _long, _LONGEST, "log.flush.interval.messages", least=1),
            _row("flush.ms", _long, _LONGEST, least=0),
            _row("follower.replication.throttled.replicas", _list, "", pattern=_THROTTLED_REPLICAS),
            _row("index.interval.bytes", _int, "4096", "log.index.interval.bytes", least=0),
            _row("leader.replication.throttled.replicas", _list, "", pattern=_THROTTLED_REPLICAS),
            _row("local.retention.bytes", _long, "-2", "log.local.retention.bytes", least=-2),
            _row("local.retention.ms", _long, "-2", "log.local.retention.ms", least=-2),
            _row("max.compaction.lag.ms", _long, _LONGEST, "log.cleaner.max.compaction.lag.ms", least=1),
            _row("max.message.bytes", _int, "1048588", "message.max.bytes", least=0),
            _row("message.timestamp.after.max.ms", _long, "3600000", "log.message.timestamp.after.max.ms", least=0),
            _row("message.timestamp.before.max.ms", _long, _LONGEST, "log.message.timestamp.before.max.ms", least=0),
            _row(
                "message.timestamp.type",
                _string,
                "CreateTime",
                "log.message.timestamp.type",
                choices=("CreateTime", "LogAppendTime"),
            ),
            _row("min.cleanable.dirty.ratio", _double_, "0.5", "log.cleaner.min.cleanable.ratio", least=0, most=1),
            _row("min.compaction.lag.ms", _long, "0", "log.cleaner.min.compaction.lag.ms", least=0),
            _row("min.insync.replicas", _int, "1", "min.insync.replicas", least=1),
            _row("preallocate", _boolean_, "false", "log.preallocate"),
            _row("remote.log.copy.disable", _boolean_, "false"),
            _row("remote.log.delete.on.disable", _boolean_, "false"),
            _row("remote.storage.enable", _boolean_, "false"),
            _row("retention.bytes", _long, "-1", "log.retention.bytes"),
            # log.retention.ms has no default: log.retention.hours=168 applies instead, which DescribeConfigs does not
            # show.
            _row("retention.ms", _long, "604800000", "log.retention.ms", has_broker_default=False, least=-1),
            _row("segment.bytes", _int, "1073741824", "log.segment.bytes", least=1024 * 1024),
            _row("segment.index.bytes", _int, "10485760", "log.index.size.max.bytes", least=4),
            _row("segment.jitter.ms", _long, "0", least=0),
            _row("segment.ms", _long, "604800000", least=1),
            _row("unclean.leader.election.enable", _boolean_, "false", "unclean.leader.election.enable"),
        ]
    )
)


def effective(name: str, overrides: Mapping[str, str], settings: Settings) -> str:
    """Returns the effective value of a topic setting as text: the topic's override, else the broker's, else Kafka's
    default.
    """
    if name in overrides:
        return overrides[name]
    inherited = broker_value(name, settings)
    return TOPIC_SETTINGS[name].default if inherited is None else inherited


def broker_value(name: str, settings: Settings) -> str | None:
    """Returns the broker's value of a topic setting as text, which topics without an override inherit; None if the
    broker has none.
    """
    broker_name = TOPIC_SETTINGS[name].broker_name
    value = settings.by_name().get(broker_name) if broker_name else None
    return None if value is None else str(value)


def log_settings(overrides: Mapping[str, str], settings: Settings) -> LogSettings:
    """Returns the settings that a partition's log uses, from the topic's overrides and the broker's settings."""

    def number(name: str) -> int:
        return int(effective(name, overrides, settings))

    def text(name: str) -> str:
        return TOPIC_SETTINGS[name].shown(effective(name, overrides, settings))

    policies = text("cleanup.policy").split(",")
    return LogSettings(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        retention_bytes=number("retention.bytes"),
        retention_ms=number("retention.ms"),
        max_message_bytes=number("max.message.bytes"),
        uses_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        is_compacted="compact" in policies,
        is_deletable="delete" in policies,
    )
