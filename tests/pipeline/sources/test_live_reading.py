"""Ranges of logs are read to their ends, whatever brokers answer."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import TABLES
from kcoord.pipeline.sources.live_log import CannotRead, read_ranges
from kcoord.protocol.records.batch import read_header
from tests.support.admin.scripted_broker import ScriptedBroker
from tests.support.pipeline.expected_rows import Rows
from tests.support.pipeline.segment_files import batch, commit, in_a_row

LOG = "__consumer_offsets"
BATCHES = in_a_row(batch(commit(1), commit(2)), batch(commit(3)), batch(commit(4), commit(5)))
END = 5

Line = dict[str, Any]


class Log:
    """A broker's answers to Fetch: first the ones that a test asks for, then batch by batch from two partitions."""

    def __init__(self, broker: ScriptedBroker, *first_answers: Any) -> None:
        self._first_answers = list(first_answers)
        broker.topics = {LOG: {0: broker.node_id, 1: broker.node_id}}
        broker.answers[ApiKey.FETCH] = self._answer

    def _answer(self, request: Any) -> Mapping[str, Any] | None:
        if self._first_answers:
            answer = self._first_answers.pop(0)
            if answer is None:
                return None
            if answer == "throttled":
                return {"responses": [], "error_code": ErrorCode.none}
            return self._response(request, lambda each: line(each.partition, error_code=answer))
        return self._response(request, self._line)

    def _response(self, request: Any, one: Any) -> Mapping[str, Any]:
        topics = [
            {"topic": each.topic, "partitions": [one(part) for part in each.partitions]} for each in request.topics
        ]
        return {"responses": topics, "error_code": ErrorCode.none}

    def _line(self, asked: Any) -> Line:
        ahead = [each for each in BATCHES if read_header(each).last_offset >= asked.fetch_offset]
        return line(asked.partition, records=ahead[0] if ahead else b"")


def line(partition: int, **fields: Any) -> Line:
    return {
        "partition_index": partition,
        "error_code": ErrorCode.none,
        "high_watermark": END,
        "last_stable_offset": END,
        "log_start_offset": 0,
        "aborted_transactions": (),
        "records": b"",
        **fields,
    }


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


def read(
    broker: ScriptedBroker, *ranges: tuple[int, int, int], patience: float = 60.0, request_timeout: float = 20.0
) -> Rows:
    connection = Connection(bootstrap=(broker.address,), request_timeout=request_timeout)
    wanted = [LogRange(topic=LOG, partition=index, start=start, end=end) for index, start, end in ranges]
    rows: Rows = {name: [] for name in TABLES}
    for table, found in read_ranges(connection, wanted, RowSelection(), retry_timeout=patience):
        rows[table] += found.to_pylist()
    return rows


def committed(rows: Rows, partition: int = 0) -> list[int]:
    return [row["offset"] for row in rows["commits"] if row["source_partition"] == partition]


def test_partitions_are_read_side_by_side_to_their_ends(broker: ScriptedBroker) -> None:
    Log(broker)
    rows = read(broker, (0, 0, END), (1, 2, END))
    assert (committed(rows, 0), committed(rows, 1)) == ([1, 2, 3, 4, 5], [3, 4, 5])
    assert broker.asked[ApiKey.FETCH] == 3
    assert len(rows["scanned"]) == 2


@pytest.mark.parametrize(
    "answer",
    [
        "throttled",
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.offset_out_of_range,
        None,
    ],
    ids=str,
)
def test_what_passes_is_waited_for(broker: ScriptedBroker, answer: Any) -> None:
    Log(broker, answer, answer)
    rows = read(broker, (0, 0, END))
    assert committed(rows) == [1, 2, 3, 4, 5]
    assert not rows["rejected"]


def test_a_leader_that_has_changed_is_looked_for(broker: ScriptedBroker) -> None:
    with ScriptedBroker(node_id=2) as other:
        Log(other)
        Log(broker, ErrorCode.not_leader_or_follower)
        broker.brokers[2] = (other.host, other.port)
        asked_before = broker.answers[ApiKey.METADATA]

        def metadata(request: Any) -> Mapping[str, Any] | None:
            if broker.asked[ApiKey.FETCH]:
                broker.topics = {LOG: {0: 2}}
            return asked_before(request)

        broker.answers[ApiKey.METADATA] = metadata
        assert committed(read(broker, (0, 0, END))) == [1, 2, 3, 4, 5]
        assert (broker.asked[ApiKey.FETCH], other.asked[ApiKey.FETCH]) == (1, 3)


def test_what_does_not_pass_ends_the_job_in_one_line(broker: ScriptedBroker) -> None:
    Log(broker, ErrorCode.topic_authorization_failed)
    with pytest.raises(CannotRead, match=r"^partition __consumer_offsets-0: TOPIC_AUTHORIZATION_FAILED$"):
        read(broker, (0, 0, END))


def test_a_leader_that_never_comes_ends_the_job_when_patience_ends(broker: ScriptedBroker) -> None:
    Log(broker, *[ErrorCode.leader_not_available] * 100)
    with pytest.raises(CannotRead, match="LEADER_NOT_AVAILABLE"):
        read(broker, (0, 0, END), patience=1.0)


def test_an_offset_that_is_said_to_be_out_of_range_and_is_not_is_asked_for_with_pauses(broker: ScriptedBroker) -> None:
    Log(broker, *[ErrorCode.offset_out_of_range] * 100)
    with pytest.raises(CannotRead, match="OFFSET_OUT_OF_RANGE"):
        read(broker, (0, 0, END), patience=1.0)
    assert broker.asked[ApiKey.FETCH] < 10


def test_a_log_whose_bounds_nobody_tells_for_now_is_waited_for(broker: ScriptedBroker) -> None:
    Log(broker, ErrorCode.offset_out_of_range, ErrorCode.offset_out_of_range)
    refused = [ErrorCode.not_leader_or_follower] * 60

    def list_offsets(request: Any) -> Mapping[str, Any]:
        error = refused.pop() if refused else ErrorCode.none
        return {"topics": [{"name": LOG, "partitions": [{"partition_index": 0, "error_code": error, "offset": 0}]}]}

    broker.answers[ApiKey.LIST_OFFSETS] = list_offsets
    rows = read(broker, (0, 0, END), request_timeout=1.0)
    assert committed(rows) == [1, 2, 3, 4, 5]
    assert not rows["rejected"]


def test_offsets_before_the_start_of_the_log_are_a_gap(broker: ScriptedBroker) -> None:
    Log(broker, ErrorCode.offset_out_of_range)
    bounds = {-2: 2, -1: END}

    def list_offsets(request: Any) -> Mapping[str, Any]:
        offset = bounds[request.topics[0].partitions[0].timestamp]
        line = {"partition_index": 0, "error_code": ErrorCode.none, "offset": offset}
        return {"topics": [{"name": LOG, "partitions": [line]}]}

    broker.answers[ApiKey.LIST_OFFSETS] = list_offsets
    rows = read(broker, (0, 0, END))
    assert committed(rows) == [3, 4, 5]
    [gap] = rows["rejected"]
    assert gap["reason"] == "__consumer_offsets-0: a gap: the offsets 0 to 1 are gone"


def test_a_log_that_has_become_shorter_than_planned_is_a_gap(broker: ScriptedBroker) -> None:
    Log(broker)
    rows = read(broker, (0, 0, 9), patience=1.0)
    assert committed(rows) == [1, 2, 3, 4, 5]
    [gap] = rows["rejected"]
    assert gap["reason"] == "__consumer_offsets-0: a gap: the offsets 5 to 8 are gone: the log ends at 5 now"


def test_a_log_that_ends_before_where_it_was_read_to_is_told(broker: ScriptedBroker) -> None:
    Log(broker)
    rows = read(broker, (0, 9, 5), (1, 0, END))
    assert committed(rows, 1) == [1, 2, 3, 4, 5]
    [gap] = rows["rejected"]
    assert gap["reason"] == "__consumer_offsets-0: a gap: the offsets 5 to 8, once read, are gone"
    assert len(rows["scanned"]) == 2
