"""Responses that share all but one field: their bytes equal those of responses that are encoded one by one."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.api import join_group
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.groups.replies import JoinedMember, JoinReply, SyncReply
from kcoord.protocol.codec import codec, encode_response
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.response_template import ResponseTemplate
from kcoord.protocol.varint import read_uvarint, uvarint

texts = st.text(max_size=6) | st.sampled_from(["m" * 127, "m" * 200, "ü" * 64])
blobs = st.binary(max_size=6) | st.sampled_from([b"b" * 127, b"b" * 128, b"b" * 20_000])
errors = st.sampled_from([ErrorCode.none, ErrorCode.rebalance_in_progress])
throttles = st.sampled_from([0.0, 1.5])
members = st.builds(JoinedMember, member_id=texts, group_instance_id=st.none() | texts, metadata=blobs)
joins = st.builds(
    JoinReply,
    member_id=texts,
    error_code=errors,
    generation_id=st.integers(-1, 2),
    protocol_type=st.sampled_from([None, "consumer"]),
    protocol_name=st.sampled_from([None, "range"]),
    leader=st.sampled_from(["", "m"]),
    skip_assignment=st.booleans(),
    members=st.just(()) | st.lists(members, max_size=3).map(tuple),
    throttle_time=throttles,
)
syncs = st.builds(
    SyncReply,
    assignment=blobs,
    error_code=errors,
    protocol_type=st.sampled_from([None, "consumer"]),
    protocol_name=st.sampled_from([None, "range"]),
    throttle_time=throttles,
)


@given(st.sampled_from(range(10)), st.lists(joins, max_size=6), st.lists(texts, max_size=4))
def test_whoever_was_answered_before_a_join_is_answered_as_if_it_were_the_first(
    version: int, replies: Sequence[JoinReply], member_ids: Sequence[str]
) -> None:
    splice = ResponseTemplate(codec(ApiKey.JOIN_GROUP, version), join_group.API.per_member_field or "")
    crowd = [reply._replace(member_id=member_id) for reply in replies for member_id in (reply.member_id, *member_ids)]
    responses = [join_group.to_response(reply, version) for reply in crowd]
    _are_as_if_first(splice, ApiKey.JOIN_GROUP, version, responses)


@given(st.sampled_from(range(6)), st.lists(syncs, max_size=6), st.lists(blobs, max_size=4))
def test_whoever_was_answered_before_a_sync_is_answered_as_if_it_were_the_first(
    version: int, replies: Sequence[SyncReply], assignments: Sequence[bytes]
) -> None:
    splice = ResponseTemplate(codec(ApiKey.SYNC_GROUP, version), "assignment")
    crowd = [
        reply._replace(assignment=assignment) for reply in replies for assignment in (reply.assignment, *assignments)
    ]
    _are_as_if_first(splice, ApiKey.SYNC_GROUP, version, crowd)


def _are_as_if_first(splice: ResponseTemplate, api_key: int, version: int, replies: Sequence[object]) -> None:
    """Compares the template's frames with ordinary ones, for each reply by itself and then for all together."""
    ids = range(len(replies))
    anew = [encode_response(RequestHeader(api_key, version, number), replies[number]) for number in ids]
    assert [splice.frames([number], [replies[number]]) for number in ids] == [[frame] for frame in anew]
    assert splice.frames(ids, replies) == anew


@pytest.mark.parametrize("correlation_id", [0, 1, 2**31 - 1, -1, -(2**31)])
def test_every_correlation_id_comes_back(correlation_id: int) -> None:
    splice = ResponseTemplate(codec(ApiKey.JOIN_GROUP, 9), "member_id")
    for member_id in ("a", "b"):
        (frame,) = splice.frames([correlation_id], [JoinReply(member_id)])
        assert int.from_bytes(frame[4:8], signed=True) == correlation_id


def test_what_only_a_leader_is_told_is_not_kept() -> None:
    splice = ResponseTemplate(codec(ApiKey.JOIN_GROUP, 9), "member_id")
    everybody = tuple(JoinedMember(f"m{number}", None, bytes(100)) for number in range(100))
    before = sys.getrefcount(everybody)
    splice.frames([1], [JoinReply("m0", generation_id=1, members=everybody)])
    assert sys.getrefcount(everybody) == before


@given(st.integers(0, 2**32 - 1) | st.sampled_from([127, 128, 2**14 - 1, 2**14]))
def test_a_length_is_read_back_as_it_was_written(number: int) -> None:
    written = uvarint(number)
    assert read_uvarint(written, 0) == (number, len(written))
    assert len(written) == max(1, (number.bit_length() + 6) // 7)
