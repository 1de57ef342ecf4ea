"""Sliced work: a request's costs are counted even if its batches are refused."""

from collections.abc import Callable
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.broker.cluster import Cluster, Node, NodeId, RequestContext
from kcoord.broker.log.batch_validation import MOST_RECORD_ERRORS, Admitted, Allowance, LogSettings, Refused, admit
from kcoord.broker.log.partition_log import PartitionLog, TimestampOffset
from kcoord.broker.log.segment import MANY_RECORDS
from kcoord.broker.log.slices import SLICE, SMALL_BYTES, Decompression, Effort, Slices
from kcoord.broker.offsets import ListOffsets, RequestedOffset, RequestedTopicOffsets, list_offsets
from kcoord.broker.producing import Produce, ProducedPartition, ProducedTopic, ProduceReply, produce
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import Batch, assemble, produced_batch, read_header
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.record import Record, write_batch
from kcoord.protocol.varint import uvarint
from kcoord.settings import Settings
from tests.support.logs.appending import append_at_once, at_once

NOW = 1_700_000_000_000
EMPTY_HEADER = b"\x00\x01"


def batch_of(content: bytes, records: int, *, codec: Codec = Codec.ZSTD) -> Batch:
    header = read_header(write_batch([Record(timestamp=NOW)], codec=codec))
    header = header._replace(record_count=records, last_offset_delta=records - 1)
    return produced_batch(assemble(header, compress(codec, content)))


def with_headers(count: int, *, tail: bytes = b"") -> Batch:
    """Makes one record with so many headers, behind which extra bytes may follow."""
    record = bytes([0, 0, 0, 1, 1]) + uvarint(2 * count) + EMPTY_HEADER * count + tail
    return batch_of(uvarint(2 * len(record)) + record, 1)


def timed(*times: int) -> Batch:
    return produced_batch(write_batch([Record(timestamp=NOW + time) for time in times], codec=Codec.ZSTD))


def admission(batch: Batch, allowance: Allowance | None = None) -> Slices[Admitted | Refused]:
    return admit(batch, LogSettings(), NOW, allowance or Allowance())


def slices_of(work: Slices[object]) -> int:
    """Returns how often the work yields until it is done."""
    count = 0
    try:
        asked = next(work)
        while True:
            count += 1
            asked = work.send(asked.run() if asked is not None else None)
    except StopIteration:
        return count


def test_a_large_value_costs_by_its_bytes() -> None:
    value = produced_batch(write_batch([Record(timestamp=NOW, value=bytes(3 * SLICE * 1024))]))
    settings = LogSettings(max_message_bytes=value.header.size)
    assert slices_of(admit(value, settings, NOW, Allowance())) == 1


def test_what_is_decompressed_is_paid_for() -> None:
    allowance = Allowance(decompressed_bytes=1_500_000)
    batch = produced_batch(write_batch([Record(timestamp=NOW, value=bytes(1_000_000))], codec=Codec.ZSTD))
    outcomes = [at_once(admission(batch, allowance)) for _ in range(2)]
    assert [isinstance(outcome, Refused) for outcome in outcomes] == [False, True]


def test_a_small_batch_is_admitted_at_once() -> None:
    assert slices_of(admission(timed(*range(100)))) == 0


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(lambda: timed(*[0] * 50_000), id="records"),
        pytest.param(lambda: with_headers(50_000), id="headers of one record"),
        pytest.param(lambda: timed(*[10**12] * 25_000), id="records that are looked at twice"),
    ],
)
def test_others_have_their_turn_while_a_batch_is_looked_at(batch: Callable[[], Batch]) -> None:
    assert slices_of(admission(batch())) >= 50_000 // SLICE - 1


def test_many_small_batches_of_one_request_are_looked_at_in_slices_too() -> None:
    allowance = Allowance()
    assert sum(slices_of(admission(timed(*[0] * 100), allowance)) for _ in range(100)) >= 100 * 100 // SLICE


def test_much_memory_is_asked_for_before_it_is_taken() -> None:
    batch = timed(*[0] * (SMALL_BYTES // 8))
    asked = next(admission(batch))
    assert isinstance(asked, Decompression)
    assert asked.batch is batch


def test_headers_of_a_batch_that_is_refused_are_paid_for() -> None:
    allowance = Allowance(headers=5000)
    outcomes = [at_once(admission(with_headers(2000, tail=b"x"), allowance)) for _ in range(4)]
    errors = [outcome.error for outcome in outcomes if isinstance(outcome, Refused)]
    assert errors == [ErrorCode.invalid_record] * 2 + [ErrorCode.message_too_large] * 2


@pytest.mark.parametrize("size", [1000, 10 * SMALL_BYTES])
def test_a_decompression_that_breaks_off_is_paid_for(size: int) -> None:
    header = read_header(write_batch([Record(timestamp=NOW)], codec=Codec.ZSTD))
    torn = produced_batch(assemble(header, compress(Codec.ZSTD, bytes(size))[:-1]))
    allowance = Allowance(decompressed_bytes=20 * SMALL_BYTES)
    outcome = at_once(admission(torn, allowance))
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.unknown_server_error
    assert allowance.decompressed_bytes <= 20 * SMALL_BYTES - size


def test_of_a_batch_of_faulty_records_the_first_are_named_and_all_are_counted() -> None:
    faulty = MOST_RECORD_ERRORS + 500
    outcome = at_once(admission(timed(*[10**12] * faulty)))
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.invalid_timestamp
    assert [error.index for error in outcome.record_errors] == list(range(MOST_RECORD_ERRORS))
    assert outcome.message.startswith(f"{faulty} of {faulty} records")


# Lookups by time


def log_of(*batches: Batch) -> PartitionLog:
    log = PartitionLog("t-0", LogSettings(), now_ms=NOW)
    for batch in batches:
        append_at_once(log, batch, NOW)
    return log


def test_a_large_batch_is_not_walked_to_find_its_newest_record() -> None:
    count = 50_000
    log = log_of(timed(*[0] * (count - 1), 5))
    found = TimestampOffset(timestamp=NOW + 5, offset=count - 1, leader_epoch=0)
    for lookup in (log.offset_for_timestamp(NOW + 1, Effort()), log.offset_of_max_timestamp(Effort())):
        with pytest.raises(StopIteration) as ended:  # It ends in the first slice.
            next(lookup)
        assert ended.value.value == found


def test_a_large_batch_of_ever_newer_records_is_walked_in_part() -> None:
    count = 50_000
    log = log_of(timed(*range(count)))
    assert slices_of(log.offset_for_timestamp(NOW + count - 1, Effort())) < count // SLICE // 4


def test_a_batch_that_begins_before_the_log_does_is_walked_in_slices() -> None:
    count = 50_000
    log = log_of(timed(*[7] * 10, *[0] * (count - 11), 5))
    log.delete_records(20, NOW)
    assert slices_of(log.offset_of_max_timestamp(Effort())) >= count // SLICE
    found = at_once(log.offset_of_max_timestamp(Effort()))
    assert found is not None
    assert (found.offset, found.timestamp) == (count - 1, NOW + 5)


def test_a_look_up_that_has_to_walk_a_batch_does_so_in_slices() -> None:
    count = 50_000
    log = log_of(timed(*[7] * 10, *[0] * (count - 11), 5))
    log.delete_records(20, NOW)
    assert slices_of(log.offset_for_timestamp(NOW + 3, Effort())) >= count // SLICE


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_look_up_in_a_large_batch_finds_what_walking_it_would(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(-3, 5), min_size=1, max_size=300))
    times = [sum(steps[: index % len(steps)]) + index // 7 for index in range(MANY_RECORDS)]
    log = log_of(timed(0), timed(*times))
    wanted = data.draw(st.integers(min(times) - 1, max(times) + 1))
    expected = next((offset for offset, time in enumerate([0, *times]) if time >= wanted), None)
    found = at_once(log.offset_for_timestamp(NOW + wanted, Effort()))
    assert (found.offset if found else None) == expected


def test_a_look_up_under_way_ends_when_its_segment_is_deleted() -> None:
    log = log_of(timed(*[7] * 10, *[0] * 20_000, 5))
    log.delete_records(20, NOW)
    lookup = log.offset_of_max_timestamp(Effort())
    next(lookup)
    log.delete_records(log.end_offset, NOW)
    with pytest.raises(OSError, match="deleted"):
        at_once(lookup)


# Changes between two slices


NODE = Node(node_id=NodeId(1), host="h", port=1)
SLICED = timed(*[0] * 5000)


def cluster_of(*topics: str, **properties: str) -> Cluster:
    """Each topic has one partition."""
    ids = (UUID(int=number) for number in count(7))
    cluster = Cluster(
        cluster_id="c", nodes=[NODE], settings=Settings.from_properties(properties), fresh_id=lambda: next(ids)
    )
    for topic in topics:
        cluster.create_topic(topic, [[NODE.node_id]], {}, NOW)
    return cluster


def producing(cluster: Cluster, *topics: str, batch: Batch = SLICED, now_ms: int = NOW) -> Slices[ProduceReply]:
    content = ProducedPartition(index=0, records=bytes(batch.data))
    sent = tuple(ProducedTopic(name=topic, topic_id=None, partitions=(content,)) for topic in topics)
    request = Produce(acks=-1, has_transactional_id=False, allows_zstd=True, topics=sent)
    return produce(cluster, request, RequestContext(node=NODE, now_ms=now_ms))


def errors_of(work: Slices[ProduceReply]) -> list[ErrorCode]:
    return [line.error_code for topic in at_once(work).responses for line in topic.partition_responses]


@pytest.mark.parametrize(
    "limit",
    [
        {"kcoord.produce.max.records": "7000"},
        {"kcoord.produce.max.headers": "70000"},
        {"kcoord.produce.max.decompressed.bytes": "70000"},
    ],
)
def test_the_batches_of_a_request_share_what_it_may_cost(limit: dict[str, str]) -> None:
    batch = with_headers(40_000) if "headers" in str(limit) else SLICED
    work = producing(cluster_of("a", "b", **limit), "a", "b", batch=batch)
    assert errors_of(work) == [ErrorCode.none, ErrorCode.message_too_large]


def test_two_batches_that_are_looked_at_at_once_do_not_both_fill_the_last_of_the_memory() -> None:
    cluster = cluster_of("t", **{"kcoord.log.bytes": str(SLICED.header.size + 10)})
    first, second = producing(cluster, "t"), producing(cluster, "t")
    next(first)
    next(second)
    assert errors_of(first) + errors_of(second) == [ErrorCode.none, ErrorCode.kafka_storage_error]


def test_a_batch_is_checked_by_the_settings_that_its_topic_has_when_it_is_appended() -> None:
    cluster = cluster_of("t", **{"kcoord.produce.max.records": "5000"})
    work = producing(cluster, "t")
    next(work)
    cluster.configure(cluster.topics["t"], {"cleanup.policy": "compact"})
    assert errors_of(work) == [ErrorCode.invalid_record], "it has records without keys"

    work = producing(cluster, "t", now_ms=NOW + 5)
    next(work)
    cluster.configure(cluster.topics["t"], {"message.timestamp.type": "LogAppendTime"})
    (line,) = at_once(work).responses[0].partition_responses
    assert (line.error_code, line.log_append_time) == (ErrorCode.none, NOW + 5), "and what it may cost is paid once"


def test_times_of_append_do_not_run_backwards_while_a_batch_is_looked_at() -> None:
    cluster = cluster_of("t")
    cluster.configure(cluster.topics["t"], {"message.timestamp.type": "LogAppendTime"})
    slow = producing(cluster, "t")
    next(slow)
    at_once(producing(cluster, "t", batch=timed(0), now_ms=NOW + 9))
    (line,) = at_once(slow).responses[0].partition_responses
    assert (line.base_offset, line.log_append_time) == (1, NOW + 9)
    log = cluster.topics["t"].partitions[0].log
    assert [header.max_timestamp for _, header in log.segments[0].headers()] == [NOW + 9] * 2


@pytest.mark.parametrize("timestamp", [-3, NOW + 3])
def test_a_topic_that_is_deleted_during_a_look_up_is_answered_with_an_error(timestamp: int) -> None:
    cluster = cluster_of("t")
    log = cluster.topics["t"].partitions[0].log
    append_at_once(log, timed(*[7] * 10, *[0] * 20_000), NOW)
    append_at_once(log, timed(5), NOW)
    log.delete_records(20, NOW)
    line = RequestedOffset(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    asked = ListOffsets(topics=(RequestedTopicOffsets(name="t", partitions=(line,)),), oldest_special=-3)
    look_up = list_offsets(cluster, asked, RequestContext(node=NODE, now_ms=NOW))
    next(look_up)
    cluster.delete_topic(cluster.topics["t"])
    assert at_once(look_up).topics[0].partitions[0].error_code is ErrorCode.kafka_storage_error


def test_a_topic_that_is_deleted_while_a_batch_for_it_is_looked_at_takes_nothing() -> None:
    cluster = cluster_of("t")
    topic, work = cluster.topics["t"], producing(cluster, "t")
    next(work)
    cluster.delete_topic(topic)
    (line,) = at_once(work).responses[0].partition_responses
    assert line.error_code is ErrorCode.unknown_topic_or_partition
    assert cluster.held_bytes == 0
