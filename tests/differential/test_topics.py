"""CreateTopics, CreatePartitions, DeleteTopics."""

from collections.abc import Mapping
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from tests.support.differential.pair import (
    Pair,
    topic_id,
    unknown_id,
    versions,
)


def test_a_topic_is_created_with_given_and_with_default_counts(pair: Pair) -> None:
    for version in versions(2, 7):
        given, default = pair.topic(f"given-{version}"), pair.topic(f"default-{version}")
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(given, partitions=3)])
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(default, partitions=-1, factor=-1)])
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": given}, {"name": default}], allow_auto_topic_creation=False)


def test_validating_creates_nothing(pair: Pair) -> None:
    topic, present = pair.topic(), pair.topic("present")
    pair.create(present)
    for version in versions(2, 7):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(topic, partitions=2)], validate_only=True)
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(present), _topic("bad name")], validate_only=True)
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}], allow_auto_topic_creation=False)


def test_a_topic_named_twice_is_not_created(pair: Pair) -> None:
    for version in versions(2, 7):
        twice, once = pair.topic(f"twice-{version}"), pair.topic(f"once-{version}")
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(twice), _topic(once), _topic(twice, partitions=2)])
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(once)])
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": twice}, {"name": once}], allow_auto_topic_creation=False)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 250, "a:b", "a\n", "__cluster_metadata"])
def test_a_name_that_no_topic_may_have_is_refused(pair: Pair, name: str) -> None:
    for version in versions(2, 7):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(name)])


def test_a_name_that_differs_in_dots_and_underscores_only_collides(pair: Pair) -> None:
    pair.create(pair.topic("a.b_c"))
    for version in versions(2, 7):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(pair.topic("a_b.c"))])
        pair.ask(
            ApiKey.CREATE_TOPICS, version, topics=[_topic(pair.topic("a.b.c")), _topic(pair.topic(f"fine-{version}"))]
        )
    pair.ask(ApiKey.CREATE_TOPICS, 7, topics=[_topic(pair.topic("x.y")), _topic(pair.topic("x_y"))])
    pair.ask(ApiKey.CREATE_TOPICS, 7, topics=[_topic(pair.topic("y.z")), _topic(pair.topic("y_z"))], validate_only=True)
    pair.ask(ApiKey.METADATA, 13, topics=[{"name": pair.topic("x.y")}], allow_auto_topic_creation=False)
    pair.ask(ApiKey.METADATA, 13, topics=[{"name": pair.topic("x_y")}], allow_auto_topic_creation=False)


@pytest.mark.parametrize(
    ("partitions", "factor"), [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (0, 0), (-1, 3), (-2, -2), (3, 32767)]
)
def test_impossible_counts_are_refused(pair: Pair, partitions: int, factor: int) -> None:
    for version in versions(2, 7):
        topic = pair.topic(f"v{version}")
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[_topic(topic, partitions=partitions, factor=factor)])


@pytest.mark.parametrize(
    "assignments",
    [
        {0: [1]},
        {0: [1], 1: [1]},
        {1: [1], 0: [1]},
        {0: []},
        {0: [1, 1]},
        {0: [2]},
        {0: [1], 1: [1, 2]},
        {1: [1]},
        {0: [1], 2: [1]},
        {-1: [1]},
        {0: [-1]},
        {0: [1], 1: []},
    ],
)
def test_replicas_may_be_assigned(pair: Pair, assignments: dict[int, list[int]]) -> None:
    for version in versions(2, 7):
        counts = [(-1, -1), (1, -1), (-1, 1), (2, 1)]
        named = {pair.topic(f"v{version}-{index}"): count for index, count in enumerate(counts)}
        new = [_topic(name, partitions=partitions, factor=factor) for name, (partitions, factor) in named.items()]
        pair.ask(
            ApiKey.CREATE_TOPICS, version, topics=[{**topic, "assignments": _assigned(assignments)} for topic in new]
        )
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": name} for name in named], allow_auto_topic_creation=False)


def test_a_partition_assigned_twice_is_refused(pair: Pair) -> None:
    line = {"partition_index": 0, "broker_ids": [1]}
    for version in versions(2, 7):
        new = {**_topic(pair.topic(f"v{version}"), partitions=-1, factor=-1), "assignments": [line, line]}
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[new])


GOOD_CONFIGS: list[dict[str, str | None]] = [
    {"retention.ms": "1000"},
    {"retention.ms": " 1000 "},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete"},
    {"cleanup.policy": "delete, compact"},
    {"cleanup.policy": ""},
    {"min.cleanable.dirty.ratio": "0.25"},
    {"compression.type": "zstd"},
    {"message.timestamp.type": "LogAppendTime"},
    {"unclean.leader.election.enable": "TRUE"},
    {"preallocate": "False"},
    {"flush.ms": "0"},
    {"segment.bytes": "1048576"},
    {"retention.bytes": "-1"},
    {"retention.ms": "-1"},
    {"leader.replication.throttled.replicas": "0:1,1:1"},
    {"leader.replication.throttled.replicas": "*"},
    {"local.retention.ms": "-2"},
]

BAD_CONFIGS: list[dict[str, str | None]] = [
    {"no.such.setting": "1"},
    {"retention.ms": None},
    {"retention.ms": ""},
    {"retention.ms": "soon"},
    {"retention.ms": "-2"},
    {"retention.ms": "1.5"},
    {"retention.ms": str(2**63)},
    {"retention.ms": "1_000"},
    {"retention.ms": "+1000"},
    {"retention.bytes": "-2"},
    {"retention.bytes": str(-(2**63) - 1)},
    {"max.message.bytes": "-1"},
    {"max.message.bytes": str(2**31)},
    {"segment.bytes": "1"},
    {"segment.bytes": str(2**31)},
    {"segment.ms": "0"},
    {"segment.jitter.ms": "-1"},
    {"segment.index.bytes": "3"},
    {"cleanup.policy": "shred"},
    {"cleanup.policy": "delete,shred"},
    {"cleanup.policy": "delete,delete"},
    {"cleanup.policy": "delete,"},
    {"cleanup.policy": ","},
    {"cleanup.policy": " "},
    {"compression.type": "brotli"},
    {"compression.type": "ZSTD"},
    {"compression.type": ""},
    {"compression.gzip.level": "0"},
    {"compression.gzip.level": "10"},
    {"compression.gzip.level": "-1"},
    {"compression.gzip.level": "-2"},
    {"compression.lz4.level": "0"},
    {"compression.lz4.level": "18"},
    {"compression.zstd.level": "23"},
    {"compression.zstd.level": "-131073"},
    {"compression.zstd.level": "-131072"},
    {"message.timestamp.type": "Never"},
    {"message.timestamp.type": " CreateTime"},
    {"message.timestamp.after.max.ms": "-1"},
    {"message.timestamp.before.max.ms": "-1"},
    {"min.cleanable.dirty.ratio": "1.1"},
    {"min.cleanable.dirty.ratio": "1"},
    {"min.cleanable.dirty.ratio": "-0.1"},
    {"min.cleanable.dirty.ratio": "NaN"},
    {"min.cleanable.dirty.ratio": "0.5f"},
    {"min.cleanable.dirty.ratio": "nan"},
    {"min.insync.replicas": "0"},
    {"min.insync.replicas": "2"},
    {"preallocate": "yes"},
    {"preallocate": " true "},
    {"preallocate": ""},
    {"unclean.leader.election.enable": "1"},
    {"delete.retention.ms": "-1"},
    {"file.delete.delay.ms": "-1"},
    {"flush.messages": "0"},
    {"flush.messages": "1"},
    {"flush.ms": "-1"},
    {"index.interval.bytes": "-1"},
    {"max.compaction.lag.ms": "0"},
    {"min.compaction.lag.ms": "-1"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"local.retention.ms": "-3"},
    {"local.retention.ms": "-1"},
    {"local.retention.ms": "1", "retention.ms": "0"},
    {"local.retention.ms": "1000", "retention.ms": "500"},
    {"local.retention.bytes": "1000", "retention.bytes": "500"},
    {"local.retention.bytes": "-1"},
    {"local.retention.bytes": "-3"},
    {"leader.replication.throttled.replicas": "x"},
    {"leader.replication.throttled.replicas": "0:1,x"},
    {"leader.replication.throttled.replicas": "none"},
    {"follower.replication.throttled.replicas": "0-1"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "false"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
    {"cleanup.policy": "compact", "no.such.setting": "1"},
    {"Retention.Ms": "1"},
    {"log.retention.ms": "1"},
    {"": "1"},
]


def test_settings_are_taken_or_refused(pair: Pair) -> None:
    wanted = {pair.topic(f"{index}"): configs for index, configs in enumerate([*GOOD_CONFIGS, *BAD_CONFIGS])}
    topics = [{**_topic(topic), "configs": _configs(configs)} for topic, configs in wanted.items()]
    for version in versions(2, 7):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=topics, validate_only=True)


def test_a_setting_given_twice_is_taken_as_kafka_takes_it(pair: Pair) -> None:
    for version in versions(2, 7):
        configs = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[{**_topic(pair.topic(f"v{version}")), "configs": configs}])


def test_no_topics_are_asked_for(pair: Pair) -> None:
    for version in versions(2, 7):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=[])
    for version in versions(0, 3):
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[])
    for version in versions(1, 6):
        pair.ask(ApiKey.DELETE_TOPICS, version, topics=[], topic_names=[])


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_grows(pair: Pair, validate_only: bool) -> None:
    for version in versions(0, 3):
        topic = pair.topic(f"v{version}")
        pair.create(topic, partitions=2)
        for count in (3, 3, 2, 2, 1, 0, -1, 5):
            pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[_growth(topic, count)], validate_only=validate_only)
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}])


@pytest.mark.parametrize("assigned", [[[1]], [[1], [1]], [[2]], [[]], [], [[1, 1]], [[1, 2]], [[1], [2]], [[-1]]])
def test_the_replicas_of_new_partitions_may_be_assigned(pair: Pair, assigned: list[list[int]]) -> None:
    for version in versions(0, 3):
        topic = pair.topic(f"v{version}")
        pair.create(topic)
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[_growth(topic, 2, assigned)])
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}])


def test_what_cannot_grow_is_refused(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(0, 3):
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[_growth(pair.topic("absent"), 2)])
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[_growth("bad name", 2), _growth("", 2)])
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=[_growth(topic, 4), _growth(topic, 3)])
        pair.ask(
            ApiKey.CREATE_PARTITIONS, version, topics=[_growth(topic, 2 + version), _growth(pair.topic("absent"), 2)]
        )
    pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}])


def test_topics_are_deleted_by_name(pair: Pair) -> None:
    for version in versions(1, 6):
        topic, twice, absent = pair.topic(f"{version}"), pair.topic(f"twice-{version}"), pair.topic("absent")
        pair.create(topic, twice)
        for wanted in ([topic, absent], [topic], [twice, twice], ["bad name", ""], [twice]):
            doomed = [{"name": name, "topic_id": None} for name in wanted]
            pair.ask(ApiKey.DELETE_TOPICS, version, topic_names=wanted, topics=doomed)
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}, {"name": twice}], allow_auto_topic_creation=False)


def test_topics_are_deleted_by_id(pair: Pair) -> None:
    topic, other, third = pair.topic(), pair.topic("other"), pair.topic("third")
    pair.create(topic, other, third)
    by_id = {"name": None, "topic_id": topic_id(topic)}
    for doomed in (
        [{"name": None, "topic_id": unknown_id}],
        [{"name": None, "topic_id": None}],
        [{"name": topic, "topic_id": topic_id(topic)}],
        [{"name": other, "topic_id": topic_id(topic)}],
        [{"name": None, "topic_id": None}, {"name": None, "topic_id": None}],
        [{"name": None, "topic_id": unknown_id}, {"name": None, "topic_id": unknown_id}],
        [{"name": third, "topic_id": None}, {"name": None, "topic_id": topic_id(third)}],
        [by_id, by_id],
        [by_id, {"name": other, "topic_id": None}],
        [by_id],
    ):
        pair.ask(ApiKey.DELETE_TOPICS, 6, topics=doomed)
    pair.ask(
        ApiKey.METADATA, 13, topics=[{"name": name} for name in (topic, other, third)], allow_auto_topic_creation=False
    )


def test_a_topic_made_anew_has_another_id_and_no_records(pair: Pair) -> None:
    topic = pair.topic()
    for _ in range(3):
        pair.create(topic)
        pair.ask(ApiKey.METADATA, 13, topics=[{"name": topic}])
        pair.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}])


def _topic(name: str, *, partitions: int = 1, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor}


def _configs(configs: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    return [{"name": name, "value": value} for name, value in configs.items()]


def _assigned(assignments: dict[int, list[int]]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": nodes} for index, nodes in assignments.items()]


def _growth(name: str, count: int, assigned: list[list[int]] | None = None) -> dict[str, Any]:
    lines = None if assigned is None else [{"broker_ids": nodes} for nodes in assigned]
    return {"name": name, "count": count, "assignments": lines}
