"""A topic that a stream may not read is reported once, and retriable errors are not reported at all."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.unreadable_topics import UnreadableTopics, unreadable_reported
from tests.support.admin.scripted_broker import ScriptedBroker

PATIENCE = 20.0
NAMED = TopicSelection(topics=("orders", "secret"))
SECRET = "topic secret: TOPIC_AUTHORIZATION_FAILED"


class Guarded(ScriptedBroker):
    """A broker that refuses `secret` by name, and partitions of `orders` with the errors of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = {"__consumer_offsets": {0: 1}, "orders": {0: 1, 1: 1}}
        self.errors: dict[int, ErrorCode] = {}
        self.answers[ApiKey.METADATA] = self._guarded_metadata
        self.answers[ApiKey.LIST_OFFSETS] = self._guarded_offsets

    def connection(self) -> Connection:
        return Connection(bootstrap=(self.address,), request_timeout=2.0)

    def _guarded_metadata(self, request: Any) -> Mapping[str, Any]:
        response = dict(self._metadata(request))
        refused = {"error_code": ErrorCode.topic_authorization_failed}
        response["topics"] = [{**each, **(refused if each["name"] == "secret" else {})} for each in response["topics"]]
        return response

    def _guarded_offsets(self, request: Any) -> Mapping[str, Any]:
        response = self.list_offsets(request)
        for topic in response["topics"]:
            if topic["name"] == "orders":
                for each in topic["partitions"]:
                    each["error_code"] = self.errors.get(each["partition_index"], each["error_code"])
        return response


@pytest.fixture
def broker() -> Iterator[Guarded]:
    with Guarded() as broker:
        yield broker


def test_a_topic_that_one_may_not_read_is_told_once(broker: Guarded) -> None:
    unread = UnreadableTopics(broker.connection(), NAMED)
    assert unread.new_refusals() == [SECRET]
    assert unread.new_refusals() == []
    broker.errors[1] = ErrorCode.topic_authorization_failed
    assert unread.new_refusals() == ["partition orders-1: TOPIC_AUTHORIZATION_FAILED"]
    assert unread.new_refusals() == []


def test_a_named_topic_that_is_not_there_is_told(broker: Guarded) -> None:
    unread = UnreadableTopics(broker.connection(), TopicSelection(topics=("missing",)))
    assert unread.new_refusals() == ["topic missing: UNKNOWN_TOPIC_OR_PARTITION"]


def test_the_offsets_of_groups_that_one_may_read_no_more_are_told(broker: Guarded) -> None:
    unread = UnreadableTopics(broker.connection(), TopicSelection(log_ends=False))
    assert unread.new_refusals() == []
    del broker.topics["__consumer_offsets"]
    assert unread.new_refusals() == ["the cluster has no __consumer_offsets: no group was ever there"]


def test_what_may_be_well_again_is_not_told(broker: Guarded) -> None:
    broker.errors = {0: ErrorCode.leader_not_available, 1: ErrorCode.unknown_topic_or_partition}
    assert UnreadableTopics(broker.connection(), NAMED).new_refusals() == [SECRET]
    silent = UnreadableTopics(Connection(bootstrap=("127.0.0.1:1",), request_timeout=1.0), NAMED)
    assert silent.new_refusals() == [], "a cluster that does not answer is for the stream to bear"


def test_it_is_told_at_the_beginning_and_while_the_stream_goes_on(broker: Guarded) -> None:
    warnings: list[str] = []
    with unreadable_reported(broker.connection(), NAMED, warnings.append, interval=0.01):
        assert warnings == [SECRET]
        broker.errors[0] = ErrorCode.topic_authorization_failed
        deadline = time.monotonic() + PATIENCE
        while len(warnings) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert warnings == [SECRET, "partition orders-0: TOPIC_AUTHORIZATION_FAILED"]
