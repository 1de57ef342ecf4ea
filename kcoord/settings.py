"""The settings of a server, under Kafka's names.

A setting's name is the field's name with dots for underscores: `num_partitions` is `num.partitions`. Names of settings
that Kafka does not have begin with `kcoord.`. Defaults are Kafka's unless a comment gives the reason.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from kcoord.exceptions import InvalidInput


class BadSetting(InvalidInput, ValueError):
    """An error: the name of a server setting that does not exist, or a value that it cannot have."""


def _setting(
    default: Any, about: str, *, least: int | None = None, most: int | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"about": about, "least": least, "most": most, "choices": choices})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server (`kcoord serve`), under the names of Kafka's broker configs with `_` for `.`."""

    auto_create_topics_enable: bool = _setting(True, "Asking for a topic that is not there makes it")
    num_partitions: int = _setting(1, "Partitions of a topic that does not say how many", least=1, most=10_000)
    default_replication_factor: int = _setting(1, "Replicas of a topic that does not say how many", least=1)
    compression_type: str = _setting("producer", "Batches are kept as the producer made them", choices=("producer",))
    message_max_bytes: int = _setting(1_048_588, "The largest batch that a topic takes", least=0)
    min_insync_replicas: int = _setting(1, "Replicas that acks=all waits for", least=1)
    log_cleanup_policy: str = _setting(
        "delete",
        "What happens to old records",
        choices=("delete", "compact", "compact,delete", "delete,compact"),
    )
    log_message_timestamp_type: str = _setting(
        "CreateTime", "Whose time a record carries", choices=("CreateTime", "LogAppendTime")
    )
    log_retention_bytes: int = _setting(-1, "Bytes kept per partition; -1: no limit")
    log_retention_ms: int = _setting(604_800_000, "How long records are kept; -1: for ever")
    log_retention_check_interval_ms: int = _setting(300_000, "How often old segments are looked for", least=1)
    log_segment_bytes: int = _setting(1_073_741_824, "When a segment is full; retention frees whole segments", least=1)
    log_cleaner_backoff_ms: int = _setting(15_000, "How often logs that are worth compacting are looked for", least=1)
    log_cleaner_delete_retention_ms: int = _setting(
        86_400_000, "How long compaction keeps the records that tell of deletions", least=0
    )
    kcoord_compaction_bytes: int = _setting(
        4_194_304, "Of __consumer_offsets, how much of a partition must be new to be worth compacting", least=1
    )
    producer_id_expiration_ms: int = _setting(86_400_000, "When an idle producer is forgotten", least=1)

    fetch_max_bytes: int = _setting(57_671_680, "The most record bytes in one Fetch response", least=1024)
    max_incremental_fetch_session_cache_slots: int = _setting(1000, "Fetch sessions kept (KIP-227)", least=0)

    group_min_session_timeout_ms: int = _setting(6_000, "The shortest session that a member may ask for", least=0)
    group_max_session_timeout_ms: int = _setting(1_800_000, "The longest session that a member may ask for", least=0)
    group_initial_rebalance_delay_ms: int = _setting(
        3_000, "How long an empty group that is joined waits for more members (KIP-134)", least=0
    )
    group_max_size: int = _setting(2_147_483_647, "Members of one group; those beyond are refused", least=1)
    offset_metadata_max_bytes: int = _setting(4_096, "The longest text that may come with an offset", least=0)
    offsets_retention_minutes: int = _setting(10_080, "How long offsets that nobody uses are kept", least=1)
    offsets_retention_check_interval_ms: int = _setting(600_000, "How often old offsets are looked for", least=1)
    offsets_topic_num_partitions: int = _setting(50, "Partitions that groups are spread over", least=1)

    socket_request_max_bytes: int = _setting(104_857_600, "The longest frame that a client may send", least=1)
    connections_max_idle_ms: int = _setting(600_000, "A connection that says nothing for so long is closed", least=1)
    max_connections: int = _setting(
        2_147_483_647,
        "Connections in all, and no more than ulimit -n leaves room for; those beyond are closed at once",
        least=0,
    )
    max_connections_per_ip: int = _setting(2_147_483_647, "Connections from one address", least=0)
    connection_failed_authentication_delay_ms: int = _setting(
        100, "How long a login that failed waits for its answer", least=0
    )
    sasl_server_max_receive_size: int = _setting(524_288, "The longest frame before the login", least=1)
    kcoord_login_timeout_ms: int = _setting(30_000, "How long a client may take for TLS and login together", least=1)
    # Kafka has no limit here by default, but this process may be one of many on a developer's machine.
    queued_max_request_bytes: int = _setting(
        536_870_912, "Bytes of requests that wait and answers unread; beyond, the greediest client is closed", least=1
    )
    kcoord_max_groups: int = _setting(100_000, "Groups of one broker; one more gets POLICY_VIOLATION", least=1)
    kcoord_max_members: int = _setting(
        200_000, "Members of all groups of one broker, ids given out included; one more gets POLICY_VIOLATION", least=1
    )
    kcoord_member_max_bytes: int = _setting(
        1_048_576, "What a member may bring to a join, and get by a plan; more gets POLICY_VIOLATION", least=1
    )
    kcoord_produce_max_records: int = _setting(
        500_000, "Records in one Produce request; more gets MESSAGE_TOO_LARGE", least=1
    )
    kcoord_produce_max_headers: int = _setting(
        500_000, "Headers of all records in one Produce request; more gets MESSAGE_TOO_LARGE", least=0
    )
    kcoord_produce_max_decompressed_bytes: int = _setting(
        67_108_864, "Bytes of one Produce request's batches once decompressed; more gets MESSAGE_TOO_LARGE", least=1
    )
    kcoord_groups_max_bytes: int = _setting(
        536_870_912,
        "Bytes that one broker's groups and members hold; who holds most gets POLICY_VIOLATION before others do",
        least=1,
    )
    kcoord_max_partitions: int = _setting(50_000, "Partitions of all topics together", least=1)
    kcoord_log_bytes: int = _setting(
        1_073_741_824, "Bytes of records kept in all topics; beyond, Produce gets KAFKA_STORAGE_ERROR", least=1
    )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Parses settings from texts by name, such as `log.segment.bytes`. Raises BadSetting for the first
        invalid one.
        """
        known = {setting_name(item.name): item for item in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in properties.items():
            if name not in known:
                raise BadSetting(
                    f"there is no setting {name!r}{_nearest(name, list(known))}; serve --settings lists them"
                )
            values[known[name].name] = _parsed(name, text, known[name])
        return cls(**values)

    def by_name(self) -> dict[str, Any]:
        """Returns the values of all settings, by names such as `log.segment.bytes`."""
        return {setting_name(item.name): getattr(self, item.name) for item in fields(self)}


def setting_name(field_name: str) -> str:
    """Returns the name of a setting, such as `log.segment.bytes`, for a field of Settings."""
    return field_name.replace("_", ".")


def known_settings() -> dict[str, str]:
    """Returns the description of each setting of the server, by names such as `log.segment.bytes`."""
    return {setting_name(item.name): item.metadata["about"] for item in fields(Settings)}


def _parsed(name: str, text: str, item: Any) -> bool | int | str:
    limits = item.metadata
    if item.type is bool:
        if text.lower() not in ("true", "false"):
            raise BadSetting(f"{name}={text}: true or false is expected")
        return text.lower() == "true"
    if item.type is str:
        if limits["choices"] and text not in limits["choices"]:
            raise BadSetting(f"{name}={text}: one of {', '.join(limits['choices'])} is expected")
        return text
    try:
        value = int(text)
    except ValueError:
        raise BadSetting(f"{name}={text}: a whole number is expected") from None
    if limits["least"] is not None and value < limits["least"]:
        raise BadSetting(f"{name}={text}: at least {limits['least']} is expected")
    if limits["most"] is not None and value > limits["most"]:
        raise BadSetting(f"{name}={text}: at most {limits['most']} is expected")
    return value


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
