"""Produce and InitProducerId."""

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch
from tests.support.differential.pair import Pair, unknown_id, versions
from tests.support.differential.samples import (
    Records,
    an_hour_ago,
    batch,
    batch_at,
    changed,
    fetch,
    fetched,
    idempotent,
    offsets_asked,
    produced,
    with_checksum,
)

A_DAY = 86_400_000


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("codec", list(Codec))
def test_good_batches_are_taken_and_kept_as_they_came(pair: Pair, codec: Codec, acks: int) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(3, 13):
        pair.ask(ApiKey.PRODUCE, version, acks=acks, topic_data=[produced(topic, {0: batch(3, codec=codec)})])
    _read_all(pair, topic)


def test_every_sort_of_bad_batch_is_refused_with_the_same_error(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2)
    good = batch(3)
    bad: list[Records] = [
        b"",
        b"x",
        good[:60],
        good[:-1],
        good + b"x",
        good + good,
        good + good[:-1],
        good + bytes(200),
        changed(good, 17, ">I", 1),
        changed(good, 16, ">b", 0),
        changed(good, 16, ">b", 1),
        changed(good, 16, ">b", 3),
        changed(good, 16, ">b", -1),
        changed(good, 8, ">i", 0),
        changed(good, 8, ">i", 13),
        changed(good, 8, ">i", 40),
        changed(good, 8, ">i", -1),
        changed(good, 0, ">q", 5),
        changed(good, 0, ">q", -1),
        changed(good, 12, ">i", 7),
        with_checksum(changed(good, 57, ">i", 2)),
        with_checksum(changed(good, 57, ">i", 4)),
        with_checksum(changed(good, 57, ">i", 0)),
        with_checksum(changed(good, 57, ">i", -1)),
        with_checksum(changed(good, 23, ">i", 1)),
        with_checksum(changed(good, 23, ">i", 5)),
        with_checksum(changed(changed(good, 23, ">i", 3), 57, ">i", 4)),
        with_checksum(changed(changed(good, 23, ">i", 1), 57, ">i", 2)),
        with_checksum(changed(good, 21, ">h", 1)),
        with_checksum(changed(good, 21, ">h", 5)),
        with_checksum(changed(good, 21, ">h", 7)),
        with_checksum(changed(good, 21, ">h", 8)),
        with_checksum(changed(good, 21, ">h", 0x10)),
        with_checksum(changed(good, 21, ">h", 0x20)),
        with_checksum(changed(good, 21, ">h", 0x30)),
        with_checksum(changed(good, 21, ">h", 0x40)),
        with_checksum(changed(good, 21, ">h", 0x80)),
        with_checksum(changed(good, 35, ">q", 5)),
        with_checksum(changed(good, 35, ">q", -1)),
        with_checksum(changed(good, 43, ">q", 1)),
        with_checksum(changed(good, 51, ">h", 1)),
        with_checksum(changed(good, 53, ">i", 1)),
        with_checksum(changed(good, 43, ">q", -2)),
        with_checksum(changed(good, 61, ">b", 2)),
        with_checksum(changed(good, 62, ">b", 1)),
        with_checksum(changed(good, 64, ">b", 2)),
        with_checksum(changed(good, 65, ">b", 127)),
        with_checksum(changed(good, 70, ">b", 99)),
        write_batch([Record(timestamp=an_hour_ago, value=b"v")], is_control=True),
        write_batch([Record(timestamp=an_hour_ago, key=bytes(4), value=bytes(6))], is_control=True),
    ]
    for version in (3, 7, 8, 9, 10, 12, 13):
        for content in bad:
            pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: content})])
    for content in bad:
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, {0: content, 1: good, 7: good})])
    _read_all(pair, topic)


def test_a_transactional_id_makes_no_transaction(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(3, 13):
        pair.ask(
            ApiKey.PRODUCE, version, acks=-1, transactional_id="diff-id", topic_data=[produced(topic, {0: batch(1)})]
        )
    _read_all(pair, topic)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_batches_that_are_not_what_they_say_are_refused(pair: Pair, codec: Codec) -> None:
    topic = pair.topic()
    pair.create(topic)
    good = batch(5, codec=codec)
    for content in (
        with_checksum(good[:61] + b"not compressed at all"),
        with_checksum(changed(good, 57, ">i", 4)),
        with_checksum(changed(changed(good, 23, ">i", 5), 57, ">i", 6)),
        with_checksum(changed(changed(good, 23, ">i", 3), 57, ">i", 4)),
    ):
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, {0: content})])
    _read_all(pair, topic)


def test_zstd_needs_version_7(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(3, 13):
        content = batch(3, codec=Codec.ZSTD)
        pair.ask(ApiKey.PRODUCE, version, acks=1, topic_data=[produced(topic, {0: content})])
    for version in versions(4, 18):
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0})))


def test_topics_partitions_and_ids_that_are_not_there_are_refused(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    good = batch(1)
    for version in versions(3, 12):
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[_by_name(pair.topic("absent"), {0: good})])
        pair.ask(
            ApiKey.PRODUCE, version, acks=-1, topic_data=[_by_name("bad name", {0: good}), _by_name("", {0: good})]
        )
    for version in versions(3, 13):
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {1: good, 0: good, -1: good})])
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[])
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {})])
    for bad_id in (unknown_id, None):
        absent = {"topic_id": bad_id, "partition_data": [{"index": 0, "records": good}]}
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[absent])
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[absent, produced(topic, {0: good})])


def test_a_partition_may_be_named_twice(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, partitions=2)
    for version in (3, 9, 12, 13):
        for lines in (
            [produced(topic, {0: batch(1)}), produced(topic, {1: batch(2)})],
            [produced(topic, {0: batch(1)}), produced(topic, {0: batch(2)})],
        ):
            pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=lines)
            pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1, -1])])


@pytest.mark.parametrize("acks", [2, 7, -2, 32767])
def test_acks_that_there_are_not_are_refused(pair: Pair, acks: int) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(3, 13):
        pair.ask(ApiKey.PRODUCE, version, acks=acks, topic_data=[produced(topic, {0: batch(1), 9: batch(1)})])
    pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1])])


def test_acks_0_is_not_answered(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    for version in versions(3, 13):
        for side in (pair.kafka, pair.kcoord):
            values = side.resolved({"acks": 0, "topic_data": [produced(topic, {0: batch(2)})]})
            side.client.send(ApiKey.PRODUCE, version, **values)
        pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1])])
    for content in (b"", changed(batch(1), 17, ">I", 1)):
        for index in (0, 5):
            assert (
                pair.ask(ApiKey.PRODUCE, 12, acks=0, topic_data=[_by_name(topic, {index: content})])
                == "<the server hung up>"
            )
            pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1])])


def test_a_batch_that_is_too_large_is_refused(pair: Pair) -> None:
    small, exact, large = batch(1, value_size=500), batch(1, value_size=600), batch(1, value_size=601)
    topic, default = pair.topic(), pair.topic("default")
    pair.create(topic, configs={"max.message.bytes": str(len(exact))})
    pair.create(default)
    for version in (3, 8, 13):
        for content in (small, exact, large, changed(large, 17, ">I", 1), batch(50, value_size=20)):
            pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: content})])
    for size in (1_048_588 - 200, 1_048_588):
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(default, {0: batch(1, value_size=size)})])
    _read_all(pair, topic)


def test_a_batch_that_fits_no_segment_is_refused(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic, configs={"segment.bytes": str(1 << 20), "max.message.bytes": str(3 << 20)})
    for size in (1 << 19, 1 << 20, 2 << 20):
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, {0: batch(1, value_size=size)})])
    pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1])])


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_take_no_records_without_a_key(pair: Pair, policy: str) -> None:
    topic = pair.topic()
    pair.create(topic, configs={"cleanup.policy": policy})
    keyless, keyed = Record(timestamp=an_hour_ago, value=b"v"), Record(timestamp=an_hour_ago, key=b"k", value=None)
    for version in versions(3, 13):
        for rows in ([keyless], [keyed], [keyed, keyless, keyed, keyless], [keyed, keyed]):
            for codec in (Codec.NONE, Codec.GZIP):
                content = write_batch(rows, codec=codec)
                pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: content})])
    _read_all(pair, topic)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_time_of_append_replaces_the_records_own(pair: Pair, codec: Codec) -> None:
    topic = pair.topic()
    pair.create(topic, configs={"message.timestamp.type": "LogAppendTime"})
    future, marked = an_hour_ago + 10 * A_DAY, with_checksum(changed(batch(2), 21, ">h", 8))
    for version in versions(3, 13):
        for content in (batch(3, codec=codec), batch_at(future, codec=codec), batch_at(-1, codec=codec), marked):
            pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: content})])
    _read_all(pair, topic)


def test_timestamps_too_far_away_are_refused(pair: Pair) -> None:
    topic, strict = pair.topic(), pair.topic("strict")
    pair.create(topic)
    pair.create(strict, configs={"message.timestamp.before.max.ms": "7200000", "message.timestamp.after.max.ms": "0"})
    soon, later, ago = an_hour_ago + 5_400_000, an_hour_ago + A_DAY, an_hour_ago - A_DAY
    for version in (3, 8, 13):
        for codec in (Codec.NONE, Codec.SNAPPY):
            for times in (
                [soon],
                [later],
                [ago],
                [ago, later],
                [-1],
                [0],
                [-2],
                [an_hour_ago, -1],
                [later, later, ago],
            ):
                for name in (topic, strict):
                    content = batch_at(*times, codec=codec)
                    pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(name, {0: content})])
    for name in (topic, strict):
        _read_all(pair, name)


def test_an_idempotent_producer_is_told_duplicates_from_gaps(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    pair.ask(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=-1, producer_epoch=-1)
    sent = [(0, 1), (1, 3), (4, 1), (4, 1), (1, 3), (0, 1), (6, 1), (5, 1), (4, 2), (0, 2), (3, 1), (5, 1)]
    sent += [(number, 1) for number in range(6, 14)] + [(5, 1), (8, 1), (9, 1), (13, 1), (14, 1)]
    for number, (sequence, count) in enumerate(sent):
        version = 3 + number % 11
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: idempotent(sequence, count=count)})])
    _read_all(pair, topic)


def test_epochs_of_an_idempotent_producer(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    pair.ask(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=-1, producer_epoch=-1)
    for epoch, sequence in [(0, 0), (2, 5), (2, 0), (1, 1), (0, 1), (2, 1), (3, 1), (3, 2), (3, 0), (2, 2), (-1, 0)]:
        for version in (3, 8, 13):
            content = idempotent(sequence, epoch=epoch)
            pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced(topic, {0: content})])
    _read_all(pair, topic)


def test_an_unknown_producer_may_begin_anywhere_and_sequences_wrap(pair: Pair) -> None:
    topic = pair.topic()
    pair.create(topic)
    last = 2**31 - 1
    for number, start in enumerate((7, last - 1, last)):
        pair.ask(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=-1, producer_epoch=-1)
        for sequence, count in [(start, 1), ((start + 1) & last, 3), ((start + 4) & last, 1), ((start + 1) & last, 3)]:
            content = idempotent(sequence, count=count)
            pair.ask(ApiKey.PRODUCE, 13 - number, acks=-1, topic_data=[produced(topic, {0: content})])
    for producer_id, sequence in [(123456789, 0), (123456789, -1), (123456789, 1), (-2, 0)]:
        content = idempotent(sequence, producer="nobody", otherwise=producer_id)
        pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, {0: content})])
    _read_all(pair, topic)


def test_producer_ids_are_given_out(pair: Pair) -> None:
    for version in versions(0, 5):
        for producer_id, epoch in [(-1, -1), (5, -1), (-1, 5), (5, 5), (-1, -1), (0, 0), (2**62, 32767)]:
            pair.ask(
                ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, producer_id=producer_id, producer_epoch=epoch
            )
        pair.ask(ApiKey.INIT_PRODUCER_ID, version, transactional_id="", producer_id=-1, producer_epoch=-1)


def _by_name(topic: str, partitions: dict[int, bytes]) -> dict[str, object]:
    return {"name": topic, "partition_data": [{"index": at, "records": each} for at, each in partitions.items()]}


def _read_all(pair: Pair, topic: str) -> None:
    pair.ask(ApiKey.FETCH, 18, **fetch(fetched(topic, {0: 0}, partition_max_bytes=1 << 24)))
    pair.ask(ApiKey.LIST_OFFSETS, 11, topics=[offsets_asked(topic, [-1])])
