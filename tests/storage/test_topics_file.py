"""kcoord's own file of topics: the last line of a topic counts, and a torn one does not."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kcoord.broker.log.storage import StoredTopic
from kcoord.storage.segment_files import SegmentFiles
from kcoord.storage.topics_file import NAME, BadTopicsFile, TopicsFile

orders = StoredTopic(name="orders", topic_id=UUID(int=1), replicas=((1,), (2, 1)), overrides={"retention.ms": "9"})


@pytest.fixture
def files() -> Iterator[SegmentFiles]:
    made = SegmentFiles(most_files=3)
    yield made
    made.close()


@pytest.fixture
def topics(tmp_path: Path, files: SegmentFiles) -> TopicsFile:
    return TopicsFile(tmp_path, files)


def test_a_new_file_knows_nothing(topics: TopicsFile) -> None:
    assert not topics.exists
    stored = topics.open()
    assert (stored.topics, stored.deleted, stored.producer_ids, topics.exists) == ({}, set(), 0, True)


def test_what_is_kept_is_there_again(topics: TopicsFile) -> None:
    topics.open()
    topics.persist_topic(orders)
    topics.persist_producer_ids(3000)
    for _ in range(2):
        stored = topics.open()
        assert (stored.topics, stored.producer_ids) == ({orders.topic_id: orders}, 3000)


def test_the_last_word_of_a_topic_counts(topics: TopicsFile, tmp_path: Path) -> None:
    topics.open()
    grown = StoredTopic(name="orders", topic_id=orders.topic_id, replicas=((1,),) * 3)
    topics.persist_topic(orders)
    topics.persist_topic(grown)
    before = (tmp_path / NAME).read_bytes()
    assert topics.open().topics == {orders.topic_id: grown}
    assert len((tmp_path / NAME).read_bytes()) < len(before)


def test_a_deleted_topic_is_remembered_as_such(topics: TopicsFile) -> None:
    topics.open()
    topics.persist_topic(orders)
    topics.forget_topic(orders.topic_id)
    stored = topics.open()
    assert (stored.topics, stored.deleted) == ({}, {orders.topic_id})


def test_a_line_torn_at_any_byte_is_left_out(topics: TopicsFile, tmp_path: Path) -> None:
    topics.open()
    topics.persist_topic(orders)
    whole = (tmp_path / NAME).read_bytes()
    topics.forget_topic(orders.topic_id)
    longer = (tmp_path / NAME).read_bytes()
    for end in range(len(whole), len(longer)):
        (tmp_path / NAME).write_bytes(longer[:end])
        assert topics.open().topics == {orders.topic_id: orders}


@pytest.mark.parametrize(
    "line", ["", "what?", "[]", "{}", '{"kcoord": "topics/v2"}', '{"topic": "t"}', '{"deleted": 1}', "\xff"]
)
def test_a_line_that_is_none_of_ours_is_refused_by_its_number(topics: TopicsFile, tmp_path: Path, line: str) -> None:
    topics.open()
    with (tmp_path / NAME).open("a", encoding="latin-1") as opened:
        opened.write(line + "\n")
    with pytest.raises(BadTopicsFile, match="line 3 is not what kcoord writes"):
        topics.open()
