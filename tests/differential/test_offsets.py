"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

import time
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.records.compression import Codec
from tests.support.differential.pair import (
    Pair,
    versions,
)
from tests.support.differential.samples import an_hour_ago, batch, batch_at, offsets_asked, produced

SPECIALS = (-1, -2, -3, -4, -5, -6, -7, -100)


@pytest.mark.parametrize("configs", [{}, {"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}])
def test_special_timestamps_of_empty_and_filled_partitions(pair: Pair, configs: dict[str, str | None]) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2, configs=configs)
    for count in (3, 1, 4):
        _produce(pair, topic, {1: batch(count)})
        time.sleep(0.005)  # if both servers set the times, two batches of one millisecond would be equally new
    for version in versions(1, 11):
        for special in SPECIALS:
            for isolation in (0, 1):
                asked = [offsets_asked(topic, [special, special])]
                pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation, topics=asked)


@pytest.mark.parametrize("codec", list(Codec))
def test_offsets_by_timestamp(pair: Pair, codec: Codec) -> None:
    topic = pair.topic()
    pair.create(topic)
    for seconds in ([0, 1, 2], [10], [5, 4, 20, 3], [20, 20], [15], [-1000]):
        times = [an_hour_ago + second * 1000 for second in seconds]
        _produce(pair, topic, {0: batch_at(*times, codec=codec)})
    moments = [
        an_hour_ago + second * 1000 + shift
        for second in (-2000, -1000, 0, 1, 2, 3, 6, 12, 15, 20, 21)
        for shift in (-1, 0, 1)
    ]
    for version in versions(1, 11):
        for moment in (*moments, 0, 1, 1 << 62, -3):
            pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[offsets_asked(topic, [moment])])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_largest_timestamp_is_found_wherever_it_is(pair: Pair, codec: Codec) -> None:
    topic = pair.topic()
    pair.create(topic)
    for seconds in ([0], [5, 9, 9, 2], [9], [3], [8, 7], [30, 1], [2], [-100]):
        times = [an_hour_ago + second * 1000 for second in seconds]
        _produce(pair, topic, {0: batch_at(*times, codec=codec)})
        pair.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=[offsets_asked(topic, [-3])])
    for before in (1, 2, 3, 5, 7, 9, 10, 11, 12, 13):
        _delete(pair, topic, {0: before})
        specials = [-3] if before < 10 else []  # Kafka returns a deleted record, see docs/deviations.md
        for moment in (*specials, an_hour_ago, an_hour_ago + 9000, an_hour_ago + 2000, an_hour_ago - 200_000, 0):
            pair.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=[offsets_asked(topic, [moment])])


def test_records_without_timestamps(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for times in ([-1], [-1, -1], [an_hour_ago, -1], [-1, an_hour_ago + 5]):
        _produce(pair, topic, {0: batch_at(*times)})
        for moment in (-3, 0, an_hour_ago, an_hour_ago + 1, -1, -2):
            pair.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=[offsets_asked(topic, [moment])])


def test_topics_partitions_and_epochs_that_are_not_there(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2)
    for version in versions(1, 11):
        for name in (pair.topic("absent"), "bad name", ""):
            pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[offsets_asked(name, [-1])])
        pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[offsets_asked(topic, [-1, -2, -1, 0])])
        pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[])
        pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[offsets_asked(topic, [])])
        for epoch in (-1, 0, 1, 9, -2):
            for moment in (-1, -2, -3, -100, an_hour_ago):
                asked = [offsets_asked(topic, [moment], epoch=epoch)]
                pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=asked)


def test_a_partition_asked_for_twice(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2)
    once = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    absent = {**once, "partition_index": 9}
    for version in versions(1, 11):
        for lines in ([once, once], [once, {**once, "timestamp": -2}], [absent, absent], [once, once, absent]):
            pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[{"name": topic, "partitions": lines}])
        pair.ask(
            ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "diff-absent", "partitions": [once, once]}]
        )
        for first, second in ((once, once), (once, {**once, "partition_index": 1}), (absent, absent)):
            topics = [{"name": topic, "partitions": [first]}, {"name": topic, "partitions": [second]}]
            pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)


@pytest.mark.parametrize("isolation", [2, -1])
def test_unknown_isolation_levels(pair: Pair, isolation: int) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(2, 11):
        for name in (topic, pair.topic("absent")):
            asked = [offsets_asked(name, [-1])]
            pair.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation, topics=asked)


def test_the_end_of_a_leaders_epoch(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2)
    _produce(pair, topic, {0: batch(4)})
    for version in versions(2, 4):
        for current in (-1, 0, 1, 5, -2):
            for epoch in (-1, 0, 1, 5):
                lines = [
                    {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
                    for index in (0, 1, 2, -1)
                ]
                pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[{"topic": topic, "partitions": lines}])
        line = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        for name in (pair.topic("absent"), "bad name", ""):
            pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[{"topic": name, "partitions": [line]}])
        pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[])
        pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[{"topic": topic, "partitions": []}])
        pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=[{"topic": topic, "partitions": [line, line]}])
        for replica in (-1, -2, 1, 5):
            topics = [{"topic": topic, "partitions": [line]}]
            pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=replica, topics=topics)


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
def test_records_are_deleted(pair: Pair, policy: str) -> None:
    for version in versions(0, 2):
        topic = pair.topic(f"v{version}")
        pair.create(topic, partitions=2, configs={"cleanup.policy": policy})
        for count in (3, 2, 4):
            _produce(pair, topic, {0: batch(count)})
        for before in (0, 1, 1, 0, 4, 99, -2, 8, -1, -1, 9, 10, 1 << 40):
            for index in (0, 1, 7):
                _delete(pair, topic, {index: before}, version=version)
            pair.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=[offsets_asked(topic, [-2, -1])])
            pair.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=[offsets_asked(topic, [-1, -2])])
        _produce(pair, topic, {0: batch(2)})
        _delete(pair, topic, {0: 10}, version=version)


def test_records_of_what_is_not_there_are_not_deleted(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(0, 2):
        for name in (pair.topic("absent"), "bad name", ""):
            _delete(pair, name, {0: 0}, version=version)
        _delete(pair, topic, {}, version=version)
        pair.ask(ApiKey.DELETE_RECORDS, version, topics=[])
        line = {"partition_index": 0, "offset": 0}
        pair.ask(ApiKey.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": [line, line]}])
        pair.ask(ApiKey.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": [line]}] * 2)


def _delete(pair: Pair, topic: str, offsets: dict[int, int], *, version: int = 2) -> None:
    lines = [{"partition_index": index, "offset": offset} for index, offset in offsets.items()]
    pair.ask(ApiKey.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": lines}])


def _produce(pair: Pair, topic: str, contents: dict[int, Any]) -> None:
    pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, contents)])
