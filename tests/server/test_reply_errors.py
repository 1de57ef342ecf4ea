"""The first error of replies of every type."""

from typing import Any, get_args, get_type_hints

import pytest

from kcoord.broker.fetching import FetchReply
from kcoord.broker.fetching import PartitionResult as FetchedPartition
from kcoord.broker.fetching import TopicResult as FetchedTopic
from kcoord.errors import ErrorCode
from kcoord.groups.replies import CommitReply, HeartbeatReply, PartitionError, Reply, TopicErrors
from kcoord.server.dispatch.reply_errors import first_error


def test_there_may_be_none() -> None:
    assert first_error(HeartbeatReply()) is ErrorCode.none
    assert first_error(CommitReply(topics=())) is ErrorCode.none
    assert first_error(None) is ErrorCode.none


def test_an_error_of_the_reply_itself() -> None:
    assert first_error(HeartbeatReply(error_code=ErrorCode.illegal_generation)) is ErrorCode.illegal_generation


def test_the_first_of_the_lines_that_have_one() -> None:
    lines = (
        PartitionError(0),
        PartitionError(1, ErrorCode.offset_metadata_too_large),
        PartitionError(2, ErrorCode.unknown_topic_or_partition),
    )
    reply = CommitReply(topics=(TopicErrors("t", (PartitionError(0),)), TopicErrors("u", lines)))
    assert first_error(reply) is ErrorCode.offset_metadata_too_large


def test_that_of_the_whole_comes_before_those_of_lines() -> None:
    line = FetchedPartition(partition_index=0, error_code=ErrorCode.offset_out_of_range)
    topics = (FetchedTopic(topic="t", topic_id=None, partitions=(line,)),)
    assert first_error(FetchReply(responses=topics)) is ErrorCode.offset_out_of_range
    whole = FetchReply(error_code=ErrorCode.fetch_session_id_not_found, responses=topics)
    assert first_error(whole) is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("kind", get_args(Reply))
def test_every_reply_of_groups_can_say_an_error(kind: Any) -> None:
    """The positions of errors follow from the types of fields; a type that cannot be handled would fail here."""
    fields = {name: () for name, hint in get_type_hints(kind).items() if "tuple" in str(hint)}
    required = {**({"member_id": ""} if kind.__name__ == "JoinReply" else {}), **fields}
    assert first_error(kind(**required)) is ErrorCode.none
