"""The encoder's records: byte for byte those of `record_schemas`, and read back unchanged."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.groups.records import (
    ForeignGroupTombstone,
    GroupDeleted,
    GroupKind,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    Record,
    StoredMember,
)
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.offsets_log.encoding import key_values
from kcoord.offsets_log.pending_batches import MOST_RECORDS, Pending, add_fact
from kcoord.protocol.records import record as wire
from kcoord.protocol.records.batch import has_valid_crc
from tests.support.logs.record_writers import write_key, write_value

NOW_MS = 1_700_000_000_000
GROUP_METADATA, OFFSET_COMMIT = 2, 1

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
timeouts = st.integers(0, 2**31 - 1).map(lambda ms: ms / 1000)
times_ms = st.integers(0, 2**53)


@st.composite
def offsets(draw: st.DrawFn, texts: st.SearchStrategy[str] = names) -> OffsetsStored:
    lines = draw(st.lists(st.tuples(int32, int64, int32, texts), min_size=1, max_size=70))
    expires_at_ms = draw(st.none() | times_ms)
    is_of_old = expires_at_ms is not None  # Clients that send an expiry know neither leader epochs nor topic ids.
    return OffsetsStored(
        draw(names),
        draw(names),
        tuple(partition for partition, *_ in lines),
        tuple(offset for _, offset, *_ in lines),
        tuple(-1 if is_of_old else epoch for *_, epoch, _ in lines),
        tuple(text for *_, text in lines),
        draw(times_ms),
        expires_at_ms,
        None if is_of_old else draw(st.none() | st.uuids()),
    )


members = st.builds(
    StoredMember, names, st.none() | names, names, names, timeouts, timeouts, st.binary(max_size=50), st.binary()
)
groups = st.builds(
    GroupStored,
    group_id=names,
    generation=int32,
    protocol_type=st.none() | names.filter(bool),
    protocol=st.none() | names,
    leader_id=st.none() | names,
    since_ms=st.none() | times_ms,
    members=st.lists(members, max_size=4).map(tuple),
)
deleted = st.builds(GroupDeleted, group_id=names) | st.builds(
    OffsetDeleted, group_id=names, topic=names, partition=int32
)
facts = offsets() | offsets(st.just("")) | groups | deleted


def written(facts: Sequence[Record], now_ms: int = NOW_MS) -> Pending:
    batches: Pending = []
    for fact in facts:
        add_fact(batches, fact, now_ms)
    return batches


def read_back(batches: Pending) -> list[Fact]:
    reader = FactReader()
    return [fact for batch in batches for fact in reader.read(batch.sealed())]


def single(facts: Sequence[Fact]) -> list[Fact]:
    """Splits facts into one for each offset."""
    parts: list[Fact] = []
    for fact in facts:
        if isinstance(fact, OffsetsStored):
            columns = (fact.partitions, fact.offsets, fact.leader_epochs, fact.metadata)
            parts += [
                fact._replace(partitions=(p,), offsets=(o,), leader_epochs=(e,), metadata=(t,))
                for p, o, e, t in zip(*columns, strict=True)
            ]
        else:
            parts.append(fact)
    return parts


@given(st.lists(facts, max_size=6))
def test_what_is_written_is_read_back_in_its_order(facts: list[Record]) -> None:
    assert single(read_back(written(facts))) == single(facts)


@given(st.lists(facts, max_size=6), st.lists(st.integers(-100, 200), min_size=6, max_size=6))
def test_whatever_the_clock_does_records_keep_their_order_and_batches_their_times(
    facts: list[Record], drifts: list[int]
) -> None:
    batches: Pending = []
    times = []
    for fact, drift in zip(facts, drifts, strict=False):
        before = sum(batch.count for batch in batches)
        add_fact(batches, fact, NOW_MS + drift)
        times += [NOW_MS + drift] * (sum(batch.count for batch in batches) - before)
    sealed = [batch.sealed() for batch in batches]
    assert all(has_valid_crc(batch) for batch in sealed)
    timestamps = [record.timestamp for batch in sealed for record in wire.read_records(batch)]
    assert timestamps == times
    assert single(read_back(batches)) == single(facts)


@pytest.mark.fact("O-024")
@given(st.lists(facts, min_size=1, max_size=4))
def test_every_record_is_what_the_schemas_say(facts: list[Record]) -> None:
    expected = [pair for fact in facts for pair in encoded_by_schemas(fact)]
    found = [record for batch in written(facts) for record in wire.read_records(batch.sealed())]
    assert [(record.key, record.value) for record in found] == expected


def encoded_by_schemas(fact: Record) -> list[tuple[bytes, bytes | None]]:
    match fact:
        case OffsetsStored():
            version = 4 if fact.expires_at_ms is None else 1
            return [
                (
                    write_key(OFFSET_COMMIT, {"group": fact.group_id, "topic": fact.topic, "partition": partition}),
                    write_value(
                        OFFSET_COMMIT,
                        {
                            "offset": offset,
                            "leaderEpoch": epoch,
                            "metadata": text,
                            "commitTimestamp": fact.committed_at_ms,
                            "expireTimestamp": fact.expires_at_ms,
                            "topicId": fact.topic_id or UUID(int=0),
                        },
                        version=version,
                    ),
                )
                for partition, offset, epoch, text in zip(
                    fact.partitions, fact.offsets, fact.leader_epochs, fact.metadata, strict=True
                )
            ]
        case GroupStored():
            values = {
                "protocolType": fact.protocol_type or "",
                "generation": fact.generation,
                "protocol": fact.protocol,
                "leader": fact.leader_id,
                "currentStateTimestamp": -1 if fact.since_ms is None else fact.since_ms,
                "members": [
                    {
                        "memberId": member.member_id,
                        "groupInstanceId": member.instance_id,
                        "clientId": member.client_id,
                        "clientHost": member.client_host,
                        "rebalanceTimeout": round(member.rebalance_timeout * 1000),
                        "sessionTimeout": round(member.session_timeout * 1000),
                        "subscription": member.subscription,
                        "assignment": member.assignment,
                    }
                    for member in fact.members
                ],
            }
            return [(write_key(GROUP_METADATA, {"group": fact.group_id}), write_value(GROUP_METADATA, values))]
        case GroupDeleted():
            return [(write_key(GROUP_METADATA, {"group": fact.group_id}), None)]
        case OffsetDeleted():
            names = {"group": fact.group_id, "topic": fact.topic, "partition": fact.partition}
            return [(write_key(OFFSET_COMMIT, names), None)]
        case _:
            raise AssertionError(fact)


def test_a_batch_has_no_more_records_than_it_may() -> None:
    count = MOST_RECORDS * 2 + 7
    fact = OffsetsStored("g", "t", range(count), range(count), [-1] * count, [""] * count, NOW_MS)
    batches = written([fact])
    assert [batch.count for batch in batches] == [MOST_RECORDS, MOST_RECORDS, 7]
    assert single(read_back(batches)) == single([fact._replace(partitions=tuple(range(count)))])


def test_offsets_of_one_commit_are_read_back_as_one_fact() -> None:
    fact = OffsetsStored("g", "t", (0, 1, 5), (10, 11, 12), (0, 0, 1), ("", "", ""), NOW_MS, None, UUID(int=5))
    [stored] = read_back(written([fact]))
    assert isinstance(stored, OffsetsStored)
    assert list(stored.partitions) == [0, 1, 5]


def test_a_group_of_another_kind_is_deleted_by_its_keys() -> None:
    fact = ForeignGroupTombstone("g", GroupKind.CONSUMER, b"\x00\x03\x00\x01g")
    assert key_values(fact) == [(fact.key, None)]


def test_a_topic_that_was_made_anew_is_written_under_its_new_id() -> None:
    facts = [
        OffsetsStored("g", "t", (0,), (number,), (-1,), ("",), NOW_MS, None, topic_id)
        for number, topic_id in enumerate([UUID(int=1), UUID(int=2), None, UUID(int=2)])
    ]
    assert single(read_back(written(facts))) == single(facts)
