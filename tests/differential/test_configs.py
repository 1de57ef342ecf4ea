"""DescribeConfigs and IncrementalAlterConfigs."""

from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from tests.support.differential.pair import Pair, versions

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

ODD_BUT_GOOD = {
    "cleanup.policy": "delete, compact",
    "retention.ms": " +1000 ",
    "preallocate": "TRUE",
    "min.cleanable.dirty.ratio": "1e-1",
    "message.timestamp.type": " LogAppendTime ",
    "leader.replication.throttled.replicas": "0:1, 1:1",
    "compression.type": "zstd",
}


def test_all_settings_of_a_topic_are_described(pair: Pair) -> None:
    plain, odd = pair.topic("plain"), pair.topic("odd")
    pair.create(plain)
    pair.create(odd, configs=ODD_BUT_GOOD)
    for version in versions(1, 4):
        for topic in (plain, odd):
            for synonyms in (False, True):
                pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(topic, None)], include_synonyms=synonyms)
                pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(topic, [])], include_synonyms=synonyms)


def test_some_settings_of_a_topic_are_described(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(1, 4):
        for keys in (["retention.ms"], ["retention.ms", "retention.ms"], ["no.such.setting"], ["", "segment.ms"]):
            pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(topic, keys)])
        pair.ask(
            ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(topic, ["segment.ms"]), _asked(topic, ["flush.ms"])]
        )
        pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[])


@pytest.mark.parametrize("name", ["absent", "bad name", "", ".", "x" * 250])
def test_a_topic_that_is_not_there_has_no_settings(pair: Pair, name: str) -> None:
    for version in versions(1, 4):
        pair.ask(
            ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(f"diff-{name}" if name == "absent" else name, None)]
        )


@pytest.mark.parametrize("resource_type", [0, 1, 3, 5, 64, 127, -1])
def test_resources_of_no_kind_have_no_settings(pair: Pair, resource_type: int) -> None:
    for version in versions(1, 4):
        pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked("x", None, resource_type)])
    topic = pair.topic()
    pair.create(topic)
    for version in versions(1, 4):
        resources = [_asked(topic, ["segment.ms"]), _asked("x", None, resource_type)]
        pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=resources)
    for version in versions(0, 1):
        resources = [_altered("x", _change("a", "1"), resource_type=resource_type)]
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources)


@pytest.mark.parametrize("name", ["2", "x", "-1", "01", "1.0", " 1"])
def test_brokers_that_are_not_there_have_no_settings(pair: Pair, name: str) -> None:
    for version in versions(1, 4):
        pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[_asked(name, ["num.partitions"], BROKER)])


def test_the_brokers_own_settings_are_described(pair: Pair) -> None:
    names = ["auto.create.topics.enable", "num.partitions", "fetch.max.bytes", "log.segment.bytes", "compression.type"]
    names += ["log.cleanup.policy", "log.retention.check.interval.ms", "log.message.timestamp.type"]
    for version in versions(1, 4):
        for synonyms in (False, True):
            values = {"resources": [_asked("1", names, BROKER)], "include_synonyms": synonyms}
            answers = [
                _writable(side.ask(ApiKey.DESCRIBE_CONFIGS, version, values)) for side in (pair.kafka, pair.kcoord)
            ]
            pair.compare(ApiKey.DESCRIBE_CONFIGS, version, values, *answers)


def test_a_setting_is_set_changed_and_deleted(pair: Pair) -> None:
    for version in versions(0, 1):
        topic = pair.topic(f"v{version}")
        pair.create(topic)
        for changes in (
            [_change("retention.ms", "1000")],
            [_change("retention.ms", "2000"), _change("segment.ms", "10")],
            [_change("retention.ms", None, DELETE)],
            [_change("retention.ms", "x", DELETE)],
            [_change("retention.ms", "", DELETE)],
            [_change("flush.ms", None, DELETE)],
            [],
        ):
            pair.ask(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, *changes)], validate_only=True
            )
            _describe(pair, topic)
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, *changes)])
            _describe(pair, topic)


def test_lists_are_added_to_and_taken_from(pair: Pair) -> None:
    for version in versions(0, 1):
        topic = pair.topic(f"v{version}")
        pair.create(topic)
        for operation, value in (
            (APPEND, "compact"),
            (APPEND, "compact"),
            (SUBTRACT, "delete"),
            (SUBTRACT, "delete"),
            (APPEND, "delete,compact"),
            (SUBTRACT, "compact,delete"),
            (APPEND, "shred"),
            (APPEND, ""),
            (SUBTRACT, ""),
            (APPEND, " compact"),
            (SUBTRACT, "delete,shred"),
            (SET, ""),
            (APPEND, "delete"),
        ):
            change = _change("cleanup.policy", value, operation)
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, change)])
            _describe(pair, topic)
        change = _change("leader.replication.throttled.replicas", "0:1", APPEND)
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, change)])
        _describe(pair, topic)


@pytest.mark.parametrize("validate_only", [True, False])
def test_changes_that_cannot_be_are_refused(pair: Pair, validate_only: bool) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(0, 1):
        for changes in (
            [_change("no.such.setting", "1")],
            [_change("no.such.setting", None, DELETE)],
            [_change("no.such.setting", "1", APPEND)],
            [_change("no.such.setting", None)],
            [_change("retention.ms", None)],
            [_change("retention.ms", "soon")],
            [_change("retention.ms", "1", APPEND)],
            [_change("retention.ms", "1", SUBTRACT)],
            [_change("retention.ms", None, APPEND)],
            [_change("retention.ms", None, 4)],
            [_change("segment.ms", "77"), _change("retention.ms", "soon")],
            [_change("retention.ms", "soon"), _change("segment.ms", "77")],
            [_change("segment.ms", "1"), _change("segment.ms", "2")],
            [_change("segment.ms", "1"), _change("segment.ms", None, DELETE)],
            [_change("min.compaction.lag.ms", "2"), _change("max.compaction.lag.ms", "1")],
            [_change("remote.storage.enable", "true")],
            [_change("cleanup.policy", "shred")],
            [_change("compression.gzip.level", "0")],
            [_change("", "1")],
        ):
            resources = [_altered(topic, *changes)]
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=validate_only)
    _describe(pair, topic)


def test_an_operation_that_there_is_not_is_an_error_of_the_server(pair: Pair) -> None:
    """The test sends it only once: it makes Kafka's controller step down and come back."""
    topic = pair.topic()
    pair.create(topic)
    pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[_altered(topic, _change("no.such.setting", "1", 4))])


def test_resources_that_cannot_be_altered_are_refused(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    good = _change("segment.ms", "1000")
    for version in versions(0, 1):
        for name in (pair.topic("absent"), "bad name", "", "."):
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(name, good)])
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(name, _change("x", "1"))])
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(name, _change("x", "1", APPEND))])
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(name)])
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, good), _altered("absent", good)])
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[_altered(topic, good), _altered(topic, good)])
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[])
        for name in ("2", "x"):
            resources = [_altered(name, _change("log.retention.ms", "1000"), resource_type=BROKER)]
            pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources)
        for change in (_change("log.dirs", "x"), _change("log.retention.ms", "soon"), _change("node.id", "7")):
            for name in ("1", ""):
                resources = [_altered(name, change, resource_type=BROKER)]
                pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources)
    _describe(pair, topic)


def test_altered_settings_show_in_a_created_topic(pair: Pair) -> None:
    topic = {"name": pair.topic(), "num_partitions": 1, "replication_factor": 1}
    configs = [{"name": name, "value": value} for name, value in ODD_BUT_GOOD.items()]
    for version in versions(5, 7):
        pair.ask(
            ApiKey.CREATE_TOPICS, version, topics=[{**topic, "name": pair.topic(f"v{version}"), "configs": configs}]
        )


def _writable(answer: Any) -> Any:
    """Masks whether settings can be altered: kcoord's brokers cannot be, see docs/deviations.md."""
    for config in answer["results"][0]["configs"]:
        config["read_only"] = False
    return answer


def _describe(pair: Pair, topic: str) -> None:
    pair.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[_asked(topic, None)], include_synonyms=True)


def _asked(name: str, keys: list[str] | None, resource_type: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}


def _altered(name: str, *changes: dict[str, Any], resource_type: int = TOPIC) -> dict[str, Any]:
    return {"resource_type": resource_type, "resource_name": name, "configs": list(changes)}


def _change(name: str, value: str | None, operation: int = SET) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}
