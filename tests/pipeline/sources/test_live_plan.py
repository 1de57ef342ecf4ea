"""Plans what of a live cluster is read, and by which task; and how a stream continues from its offset."""

import json
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Answers, Refusal, Resource, TopicPartition
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import OFFSETS_TOPIC
from kcoord.pipeline.sources.live_log import CannotRead
from kcoord.pipeline.sources.live_partitions import ranges_of, ranges_text
from kcoord.pipeline.sources.live_plan import (
    MAX_RANGES,
    RANGE_OFFSETS,
    NothingToRead,
    TopicSelection,
    find_starts,
    pack_tasks,
    plan_logs,
    require_offsets_topic,
    split_log,
)
from kcoord.pipeline.sources.live_stream import (
    StreamOffset,
    TemporarilyRefused,
    WrongCluster,
    ranges_between,
    ranges_of_new_logs,
)
from kcoord.pipeline.sources.request_fingerprint import RequestChanged, check_fingerprint, fingerprint
from tests.support.admin.scripted_broker import ScriptedBroker

OFFSETS = "__consumer_offsets@a"
TP = TopicPartition("orders", 3)
LOGS = st.dictionaries(
    st.sampled_from(["__consumer_offsets@a", "orders@b", "orders@c", "payments@"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 10**6), min_size=1),
    max_size=3,
)


def reached(logs: dict[str, dict[int, int]], cluster: str = "c") -> StreamOffset:
    return StreamOffset(cluster=cluster, asked=fingerprint(RowSelection(), TopicSelection()), logs=logs)


@given(start=st.integers(0, 10**9), size=st.integers(0, 10**9))
def test_ranges_follow_on_each_other_and_are_neither_small_nor_too_many(start: int, size: int) -> None:
    ranges = list(split_log(TP, start, start + size))
    if not size:
        assert ranges == []
        return
    assert (ranges[0].start, ranges[-1].end) == (start, start + size)
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert len(ranges) <= MAX_RANGES
    assert len(ranges) == 1 or all(each.end - each.start >= RANGE_OFFSETS for each in ranges)


@given(st.lists(st.integers(1, 3 * RANGE_OFFSETS), max_size=40))
def test_a_task_reads_one_large_range_or_small_ones_of_different_partitions(sizes: list[int]) -> None:
    ranges = [each for number, size in enumerate(sizes) for each in split_log(TopicPartition("t", number), 0, size)]
    packs = pack_tasks(ranges)
    assert sorted(map(str, (each for pack in packs for each in pack))) == sorted(map(str, ranges))
    for tasks in packs:
        assert len({each.partition for each in tasks}) == len(tasks)
        assert len(tasks) == 1 or sum(each.end - each.start for each in tasks) <= RANGE_OFFSETS


def test_ranges_and_choices_are_the_same_after_they_were_text() -> None:
    ranges = [LogRange(topic="a", partition=1, start=2, end=3), LogRange(topic="ü", partition=0, start=0, end=9)]
    assert ranges_of(ranges_text(ranges)) == ranges
    for choice in (TopicSelection(), TopicSelection(log_ends=False), TopicSelection(topics=("a", "b"))):
        assert TopicSelection.from_json(choice.to_json()) == choice
    assert TopicSelection.from_json(None) == TopicSelection()


def test_a_login_that_only_librdkafka_can_do_is_refused_in_one_line() -> None:
    connection = Connection(bootstrap=("nowhere:1",), needs_librdkafka="sasl.mechanism=GSSAPI")
    with pytest.raises(NothingToRead, match=r"cannot connect with sasl.mechanism=GSSAPI: copy the segments") as caught:
        plan_logs(connection, RowSelection(), TopicSelection())
    assert "\n" not in str(caught.value)


@given(LOGS)
def test_how_far_a_stream_came_is_the_same_after_it_was_json(logs: dict[str, dict[int, int]]) -> None:
    document = reached(logs).to_json()
    assert StreamOffset.from_json(json.loads(json.dumps(document))) == reached(logs)
    shuffled = {log: dict(reversed(offsets.items())) for log, offsets in reversed(logs.items())}
    assert json.dumps(reached(shuffled).to_json()) == json.dumps(document)


@given(before=LOGS, ends=LOGS)
def test_a_stream_forgets_no_log_and_moves_those_of_which_the_end_is_told(before: Any, ends: Any) -> None:
    after = reached(before).advanced_to("c", ends)
    for log in {*before, *ends}:
        for index in {*before.get(log, {}), *ends.get(log, {})}:
            expected = ends.get(log, {}).get(index, before.get(log, {}).get(index))
            assert after.logs[log][index] == expected
    assert reached(before).advanced_to("c", {}) == reached(before)


def test_a_stream_goes_on_where_it_was_and_begins_new_logs_at_their_beginning() -> None:
    start = reached({OFFSETS: {0: 10, 1: 20}, "orders@old": {0: 7}})
    end = start.advanced_to("c", {OFFSETS: {0: 15, 1: 20, 2: 4}, "orders@new": {0: 3}})
    ranges, new = ranges_between(start, end)
    assert ranges == [LogRange(topic="__consumer_offsets", partition=0, start=10, end=15)]
    assert new == {TopicPartition("__consumer_offsets", 2): 4, TopicPartition("orders", 0): 3}


def test_a_log_that_was_cut_back_is_told_and_goes_on_from_its_new_end() -> None:
    start = reached({OFFSETS: {0: 10}})
    cut = start.advanced_to("c", {OFFSETS: {0: 6}})
    assert ranges_between(start, cut) == ([LogRange(topic="__consumer_offsets", partition=0, start=10, end=6)], {})
    later = cut.advanced_to("c", {OFFSETS: {0: 9}})
    assert ranges_between(cut, later) == ([LogRange(topic="__consumer_offsets", partition=0, start=6, end=9)], {})


def test_a_stream_does_not_go_on_with_another_cluster() -> None:
    assert StreamOffset().advanced_to("c", {}).cluster == "c"
    with pytest.raises(WrongCluster, match="of the cluster c, and this is d: name another folder"):
        reached({}).advanced_to("d", {})


def refused(error: ErrorCode) -> Refusal:
    return Refusal(kind=Resource.PARTITION, name=TopicPartition("orders", 1), error=error, message="")


def test_new_logs_are_read_from_their_starts_and_what_is_refused_is_never_left_out() -> None:
    there, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    ends = {there: 9, other: 5}
    first = LogRange(topic="orders", partition=0, start=3, end=9)
    second = LogRange(topic="orders", partition=1, start=2, end=5)
    assert ranges_of_new_logs(Answers(found={there: 3, other: 2}), ends) == [first, second]
    for error, raised in (
        (ErrorCode.leader_not_available, TemporarilyRefused),
        (ErrorCode.not_leader_or_follower, TemporarilyRefused),
        (ErrorCode.topic_authorization_failed, CannotRead),
    ):
        gone = refused(ErrorCode.unknown_topic_or_partition)
        with pytest.raises(raised, match=f"orders-1: {error.name.upper()}"):
            ranges_of_new_logs(Answers(found={there: 3}, refused=(gone, refused(error))), ends)


def test_only_a_refusal_of_the_offsets_topic_itself_ends_the_plan() -> None:
    def answers(kind: Resource, name: str | TopicPartition) -> Answers[TopicPartition, int]:
        refusal = Refusal(kind=kind, name=name, error=ErrorCode.topic_authorization_failed)
        return Answers(found={}, refused=(refusal,))

    others = (Resource.TOPIC, "shop__consumer_offsets"), (Resource.PARTITION, TopicPartition("orders", 1))
    for kind, name in others:
        assert require_offsets_topic(answers(kind, name)) == answers(kind, name)
    for kind, name in ((Resource.TOPIC, OFFSETS_TOPIC), (Resource.PARTITION, TopicPartition(OFFSETS_TOPIC, 7))):
        with pytest.raises(CannotRead, match=f"{kind} __consumer_offsets.*: TOPIC_AUTHORIZATION_FAILED"):
            require_offsets_topic(answers(kind, name))


def test_of_a_topic_that_is_gone_all_is_asked_for_so_that_it_is_told_as_a_gap() -> None:
    starts: Answers[TopicPartition, int] = Answers(found={}, refused=(refused(ErrorCode.unknown_topic_or_partition),))
    assert ranges_of_new_logs(starts, {TP: 7}) == [LogRange(topic="orders", partition=3, start=0, end=7)]


def test_a_log_that_nobody_can_enter_at_a_time_is_refused_and_not_empty() -> None:
    def list_offsets(request: Any) -> dict[str, Any]:
        [line] = request.topics[0].partitions
        error = ErrorCode.none if line.timestamp < 0 else ErrorCode.not_leader_or_follower
        return {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 3, "error_code": error, "offset": 0}]}]
        }

    with ScriptedBroker() as broker:
        broker.topics = {"orders": {3: broker.node_id}}
        broker.answers[ApiKey.LIST_OFFSETS] = list_offsets
        with closing(LogFetcher(Connection(bootstrap=(broker.address,), request_timeout=1.0))) as fetching:
            assert find_starts(fetching, {TP: 7}, RowSelection()).found == {TP: 0}
            starts = find_starts(fetching, {TP: 7}, RowSelection(since_ms=1))
    assert starts.found == {}
    assert [each.error for each in starts.refused] == [ErrorCode.not_leader_or_follower]


def test_a_stream_goes_on_with_the_same_question_in_whatever_order_it_is_put() -> None:
    before = fingerprint(RowSelection(groups=("a", "b"), since_ms=0), TopicSelection(topics=("t", "s")))
    checkpointed = (
        StreamOffset.from_json(json.loads(json.dumps(StreamOffset(asked=before).to_json()))).advanced_to("c", {}).asked
    )
    check_fingerprint(
        checkpointed, fingerprint(RowSelection(groups=("b", "a", "a"), since_ms=0), TopicSelection(topics=("s", "t")))
    )


@pytest.mark.parametrize(
    ("wanted", "choice", "words"),
    [
        (RowSelection(groups=("b",)), TopicSelection(), "begun with --group a --group c, and this is with --group b:"),
        (RowSelection(), TopicSelection(), "begun with --group a --group c, and this is without --group:"),
        (
            RowSelection(since_ms=1500, groups=("a", "c")),
            TopicSelection(),
            "without --since, .* --since 1970-01-01T00:00:01.500Z:",
        ),
        (
            RowSelection(until_ms=0, groups=("a", "c")),
            TopicSelection(),
            "without --until, .* with --until 1970-01-01T00:00:00.000Z:",
        ),
        (
            RowSelection(groups=("a", "c")),
            TopicSelection(topics=("t",)),
            "without --topic, and this is with --topic t:",
        ),
        (
            RowSelection(groups=("a", "c")),
            TopicSelection(log_ends=False),
            "without --no-log-ends, and this is with --no-log-ends:",
        ),
    ],
)
def test_a_stream_does_not_go_on_with_another_question(
    wanted: RowSelection, choice: TopicSelection, words: str
) -> None:
    with pytest.raises(RequestChanged, match=words) as caught:
        check_fingerprint(fingerprint(RowSelection(groups=("a", "c")), TopicSelection()), fingerprint(wanted, choice))
    assert "\n" not in str(caught.value)
