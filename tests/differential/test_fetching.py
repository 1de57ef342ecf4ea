"""Fetch: records, sessions, long polls."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.protocol.records.compression import Codec
from tests.support.differential.pair import (
    Pair,
    Side,
    session_id,
    unknown_id,
    versions,
)
from tests.support.differential.plain import plain
from tests.support.differential.samples import batch, fetch, fetched, forgotten, produced

FAR = 1 << 40


def test_every_offset_is_read_from_the_batch_that_holds_it(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(4, 18):
        for offset in (0, 1, 2, 3, 4, 9, 10, 11, 12, -1, -2, FAR, -FAR):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset})))


@pytest.mark.parametrize("isolation", [0, 1, 2, -1])
def test_isolation_levels(pair: Pair, isolation: int) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(4, 18):
        for offset in (0, 5, 99):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset}), isolation_level=isolation))


@pytest.mark.parametrize("epoch", [-1, 0, 1, 7, -2])
def test_the_leaders_epoch_is_checked(pair: Pair, epoch: int) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(9, 18):
        for offset in (0, 99):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset}, current_leader_epoch=epoch)))


@pytest.mark.parametrize("last_epoch", [-1, 0, 1, 5, -2])
def test_the_epoch_last_fetched_is_checked(pair: Pair, last_epoch: int) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(12, 18):
        for offset in (0, 5, 10, 99):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset}, last_fetched_epoch=last_epoch)))


@pytest.mark.parametrize("limit", [0, 1, 60, 100, 1000, -1, 1 << 30])
@pytest.mark.parametrize("isolation", [0, 1])
def test_limits_of_a_partition_leave_whole_batches(pair: Pair, limit: int, isolation: int) -> None:
    topic = _filled(pair, partitions=2)
    for version in versions(4, 18):
        for offsets in ({0: 0, 1: 0}, {0: 10, 1: 2}):
            asked = fetched(topic, offsets, partition_max_bytes=limit)
            pair.ask(ApiKey.FETCH, version, **fetch(asked, isolation_level=isolation))


@pytest.mark.parametrize("limit", [0, 1, 60, 1 << 30, -1])
@pytest.mark.parametrize("isolation", [0, 1])
def test_the_limit_of_a_request_lets_one_batch_through(pair: Pair, limit: int, isolation: int) -> None:
    topic = _filled(pair, partitions=2)
    for version in versions(4, 18):
        for offsets in ({0: 0, 1: 0}, {0: 10, 1: 0}):
            pair.ask(
                ApiKey.FETCH, version, **fetch(fetched(topic, offsets), max_bytes=limit, isolation_level=isolation)
            )


def test_topics_and_partitions_that_are_not_there(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(4, 12):
        absent = _by_name(pair.topic("absent"), 0)
        pair.ask(ApiKey.FETCH, version, **fetch(absent))
        pair.ask(ApiKey.FETCH, version, **fetch(absent, fetched(topic, {0: 0, 1: 0, -1: 0}), _by_name("bad name", 0)))
    for version in versions(13, 18):
        absent = {**_by_name("", 0), "topic_id": unknown_id}
        pair.ask(ApiKey.FETCH, version, **fetch(absent))
        pair.ask(ApiKey.FETCH, version, **fetch(absent, fetched(topic, {0: 0, 1: 0, -1: 0})))
        pair.ask(ApiKey.FETCH, version, **fetch({**absent, "topic_id": None}))
    for version in versions(4, 18):
        pair.ask(ApiKey.FETCH, version, **fetch())
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {})))


def test_a_partition_asked_for_twice_is_read_once(pair: Pair) -> None:
    topic = _filled(pair, partitions=2)
    for version in versions(4, 18):
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0}), fetched(topic, {0: 3})))
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0}), fetched(topic, {1: 0})))


def test_what_is_deleted_is_out_of_range(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for before in (1, 5, 10):
        pair.ask(
            ApiKey.DELETE_RECORDS, 2, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": before}]}]
        )
        for version in versions(4, 18):
            for offset in range(11):
                pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset})))


def test_a_session_tells_only_what_is_new(pair: Pair) -> None:
    for version in versions(7, 18):
        topic, other = pair.topic(f"v{version}"), pair.topic(f"other-{version}")
        pair.create(topic, other, partitions=2)
        session = _Session(pair, version)
        session.full(fetched(topic, {0: 0, 1: 0}))
        session.next()
        session.next()
        _produce(pair, topic, {0: batch(2)})
        session.next()
        session.next(fetched(topic, {0: 2}))
        session.next()
        session.next(fetched(other, {0: 0}))
        session.next()
        _produce(pair, topic, {1: batch(1)})
        _produce(pair, other, {0: batch(1), 1: batch(1)})
        session.next()
        session.next(fetched(other, {1: 0}), forget=[forgotten(topic, [1])])
        session.next(forget=[forgotten(other, [0, 1]), forgotten(topic, [7])])
        session.next(fetched(topic, {0: 99}))
        session.next()
        session.next(fetched(topic, {9: 0}))
        session.next(forget=[forgotten(topic, [9])])
        session.next(fetched(topic, {0: 0}), forget=[forgotten(topic, [0])])
        session.next()
        session.next(forget=[forgotten(topic, [0, 1])])
        session.next()
        session.next(fetched(topic, {0: 0}))


def test_sessions_are_closed_and_opened_anew(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(7, 18):
        session = _Session(pair, version)
        session.full(fetched(topic, {0: 0}))
        pair.ask(ApiKey.FETCH, version, **fetch(session_id=session_id(), session_epoch=-1))
        session.next()
        session.full(fetched(topic, {0: 3}))
        session.next()
        session.full(fetched(topic, {0: 5}), reopen=True)
        session.next()
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0}), session_id=session_id(), session_epoch=-1))
        session.next()
        session.full()
        pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0}), session_id=12345, session_epoch=0))


def test_wrong_epochs_and_unknown_sessions_are_refused(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(7, 18):
        session = _Session(pair, version)
        session.full(fetched(topic, {0: 0}))
        for epoch in (2, 3, -2, 7, 2**31 - 1):
            pair.ask(ApiKey.FETCH, version, **fetch(session_id=session_id(), session_epoch=epoch))
        session.next()
        pair.ask(ApiKey.FETCH, version, **fetch(session_id=session_id(), session_epoch=1))
        for unknown in (99, -1):
            pair.ask(ApiKey.FETCH, version, **fetch(session_id=unknown, session_epoch=1))
        for epoch in (1, 5, -2):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: 0}), session_id=0, session_epoch=epoch))


@pytest.mark.parametrize(("first", "second"), [(12, 13), (13, 12), (7, 18), (18, 7)])
def test_a_session_by_name_is_not_continued_by_id(pair: Pair, first: int, second: int) -> None:
    topic = _filled(pair, partitions=1)
    session = _Session(pair, first)
    session.full(fetched(topic, {0: 0}))
    session.next()
    session.version = second
    session.next()
    session.next(fetched(topic, {0: 3}))
    session.version = first
    session.next()


def test_a_session_outlives_its_topic(pair: Pair) -> None:
    for version in (7, 12, 13, 18):
        topic = pair.topic(f"v{version}")
        pair.create(topic)
        _produce(pair, topic, {0: batch(1)})
        session = _Session(pair, version)
        session.full(fetched(topic, {0: 0}))
        pair.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}])
        session.next()
        session.next()
        pair.create(topic)
        session.next()
        session.next()


def test_a_session_may_begin_with_topics_that_are_not_there(pair: Pair) -> None:
    topic = _filled(pair, partitions=1)
    for version in versions(7, 18):
        absent: dict[str, Any] = {**_by_name(pair.topic("absent"), 0), "topic_id": unknown_id}
        session = _Session(pair, version)
        session.full(absent)
        session.next()
        session.next(fetched(topic, {0: 0}))
        session.next()


def test_sessions_let_partitions_take_turns(pair: Pair) -> None:
    topic = _filled(pair, partitions=3)
    for version in (7, 13, 18):
        session = _Session(pair, version, max_bytes=1)
        session.full(fetched(topic, {0: 0, 1: 0, 2: 0}))
        for _ in range(5):
            session.next()


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_long_poll_ends_with_its_time(pair: Pair, version: int) -> None:
    topic = _filled(pair, partitions=1)
    for offsets, is_long in [
        ({0: 10}, True),
        ({0: 10, 7: 0}, True),
        ({0: 9}, False),
        ({0: 99}, False),
        ({7: 0}, False),
    ]:
        values = fetch(fetched(topic, offsets), wait=0.3, min_bytes=1)
        waits = [_seconds_to_answer(side, version, values) for side in (pair.kafka, pair.kcoord)]
        assert [wait > 0.25 for wait in waits] == [is_long, is_long], f"{offsets}: {waits}"
        pair.ask(ApiKey.FETCH, version, **{**values, "max_wait": timedelta(0)})


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_long_poll_is_woken_by_a_produce(pair: Pair, version: int) -> None:
    topic = _filled(pair, partitions=2)
    content = batch(1)
    values = fetch(fetched(topic, {0: 10, 1: 10}), wait=8, min_bytes=len(content) + 1)
    answers = [_woken(side, version, values, topic, content) for side in (pair.kafka, pair.kcoord)]
    pair.compare(ApiKey.FETCH, version, values, *answers)


@pytest.mark.parametrize("version", [12, 18])
def test_a_long_poll_is_woken_when_its_topic_goes(pair: Pair, version: int) -> None:
    topic = _filled(pair, partitions=1)
    values = fetch(fetched(topic, {0: 10}), wait=10, min_bytes=1)
    answers = []
    for side in (pair.kafka, pair.kcoord):
        side.client.send(ApiKey.FETCH, version, **side.resolved(values))
        time.sleep(0.1)
        began = time.monotonic()
        with Client(*side.address) as other:
            other.ask(
                ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}], timeout=timedelta(seconds=10)
            )
        answers.append(plain(side.client.receive(ApiKey.FETCH, version), side.naming))
        assert time.monotonic() - began < 8, f"{side.address} was not woken"
        del answers[-1]["responses"][0]["partitions"][0]["aborted_transactions"]  # null or none
    pair.compare(ApiKey.FETCH, version, values, *answers)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_every_codec_are_read_in_every_version(pair: Pair, codec: Codec) -> None:
    topic = pair.topic()
    pair.create(topic)
    _produce(pair, topic, {0: batch(5, codec=codec)})
    _produce(pair, topic, {0: batch(2, codec=codec)})
    for version in versions(4, 18):
        for offset in (0, 3, 6):
            pair.ask(ApiKey.FETCH, version, **fetch(fetched(topic, {0: offset})))


class _Session:
    """The epochs of one fetch session."""

    def __init__(self, pair: Pair, version: int, **options: Any) -> None:
        self.version = version
        self._pair, self._options, self._epoch = pair, options, 0

    def full(self, *topics: dict[str, Any], reopen: bool = False) -> None:
        which = session_id() if reopen else 0
        self._pair.ask(ApiKey.FETCH, self.version, **fetch(*topics, session_id=which, session_epoch=0, **self._options))
        self._epoch = 1

    def next(self, *topics: dict[str, Any], forget: list[dict[str, Any]] | None = None) -> None:
        values = fetch(
            *topics,
            session_id=session_id(),
            session_epoch=self._epoch,
            forgotten_topics_data=forget or [],
            **self._options,
        )
        self._pair.ask(ApiKey.FETCH, self.version, **values)
        self._epoch += 1


def _woken(side: Side, version: int, values: dict[str, Any], topic: str, content: bytes) -> Any:
    """Returns the answer to a Fetch for which another connection produces, twice."""
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(side.ask(ApiKey.FETCH, version, values)))
    waiting.start()
    with Client(*side.address) as other:
        for partition in (0, 1):
            time.sleep(0.15)
            assert not answers, "it should still wait"
            sent = side.resolved({"acks": 1, "topic_data": [produced(topic, {partition: content})]})
            other.ask(ApiKey.PRODUCE, 13, **sent, timeout=timedelta(seconds=10))
    waiting.join(2)
    assert answers, "the second produce should have woken it"
    return answers[0]


def _seconds_to_answer(side: Side, version: int, values: dict[str, Any]) -> float:
    began = time.monotonic()
    side.ask(ApiKey.FETCH, version, values)
    return time.monotonic() - began


def _by_name(topic: str, offset: int) -> dict[str, Any]:
    return {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}


def _filled(pair: Pair, partitions: int) -> str:
    """Creates a topic with four batches, ten records in all, in each of its partitions."""
    topic = pair.topic()
    pair.create(topic, partitions=partitions)
    for count in (3, 1, 4, 2):
        _produce(pair, topic, dict.fromkeys(range(partitions), batch(count)))
    return topic


def _produce(pair: Pair, topic: str, contents: dict[int, Any]) -> None:
    pair.ask(ApiKey.PRODUCE, 13, acks=-1, topic_data=[produced(topic, contents)])
