"""Records of any Kafka since 2.0, as facts."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.groups.records import (
    ForeignGroupPart,
    ForeignGroupRecord,
    ForeignGroupTombstone,
    GroupDeleted,
    GroupKind,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    StoredMember,
)
from kcoord.offsets_log.decoding import Fact, FactReader, Unreadable
from kcoord.protocol.records.batch import Batch, CorruptBatch, read_header
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.control_records import ControlRecordType
from kcoord.protocol.records.record import ProducerStamp, Record, read_key_value, write_batch
from tests.support.logs.record_writers import write_key, write_value

LEGACY_OFFSET, OFFSET, GROUP = 0, 1, 2
KEY = {"group": "g", "topic": "t", "partition": 3}
ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT

Pair = tuple[bytes | None, bytes | None]


def batch(*pairs: Pair, codec: Codec = Codec.NONE, producer: int | None = None, is_control: bool = False) -> Batch:
    stamp = ProducerStamp(id=-1 if producer is None else producer, epoch=0, is_transactional=producer is not None)
    records = [Record(timestamp=1, key=key, value=value) for key, value in pairs]
    data = write_batch(records, codec=codec, producer=stamp, is_control=is_control)
    return Batch(header=read_header(data), data=memoryview(data))


def marker(outcome: int, producer: int) -> Batch:
    return batch((bytes(2) + outcome.to_bytes(2), bytes(6)), producer=producer, is_control=True)


def read(*batches: Batch) -> list[Fact]:
    reader = FactReader()
    return [fact for each in batches for fact in reader.read(each)]


def offset(version: int = 4, partition: int = 3, **values: Any) -> Pair:
    known = {"offset": 42, "leaderEpoch": 7, "metadata": "", "commitTimestamp": 1000, "expireTimestamp": 2000, **values}
    return write_key(OFFSET, {**KEY, "partition": partition}), write_value(OFFSET, known, version=version)


def stored_offset(
    offset: int = 42, epoch: int = 7, text: str = "", expires_at_ms: int | None = None, topic_id: UUID | None = None
) -> OffsetsStored:
    return OffsetsStored("g", "t", (3,), (offset,), (epoch,), (text,), 1000, expires_at_ms, topic_id)


def plain(facts: Sequence[Fact]) -> list[Fact]:
    """Converts columns to tuples, to compare them."""
    return [
        fact._replace(
            partitions=tuple(fact.partitions),
            offsets=tuple(fact.offsets),
            leader_epochs=tuple(fact.leader_epochs),
            metadata=tuple(fact.metadata),
        )
        if isinstance(fact, OffsetsStored)
        else fact
        for fact in facts
    ]


@pytest.mark.fact("P-049")
@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("text", ["", "text"])
def test_an_offset_of_every_version_is_read(version: int, text: str) -> None:
    expected = stored_offset(epoch=7 if version >= 3 else -1, text=text, expires_at_ms=2000 if version == 1 else None)
    assert plain(read(batch(offset(version, metadata=text)))) == [expected]


@pytest.mark.fact("P-003")
def test_the_id_of_the_topic_is_read_where_it_is_said() -> None:
    topic_id = UUID(int=9)
    assert plain(read(batch(offset(topicId=topic_id)))) == [stored_offset(topic_id=topic_id)]


@pytest.mark.fact("P-014")
def test_an_offset_of_the_oldest_kind_is_read() -> None:
    value = write_value(LEGACY_OFFSET, {"offset": 42, "metadata": "m", "commitTimestamp": 1000})
    assert plain(read(batch((write_key(LEGACY_OFFSET, KEY), value)))) == [stored_offset(epoch=-1, text="m")]


@pytest.mark.fact("P-002", "P-006", "P-008")
@pytest.mark.parametrize("version", range(5))
def test_a_group_of_every_version_is_read(version: int) -> None:
    member = {
        "memberId": "m",
        "groupInstanceId": "i",
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": b"sub",
        "assignment": b"plan",
    }
    values = {
        "protocolType": "consumer",
        "generation": 5,
        "protocol": "range",
        "leader": "m",
        "currentStateTimestamp": 1234,
        "members": [member],
    }
    [fact] = read(batch((write_key(GROUP, {"group": "g"}), write_value(GROUP, values, version=version))))
    stored = StoredMember(
        member_id="m",
        instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/h",
        session_timeout=10.0,
        rebalance_timeout=60.0 if version >= 1 else 10.0,
        subscription=b"sub",
        assignment=b"plan",
    )
    assert fact == GroupStored(
        group_id="g",
        generation=5,
        protocol_type="consumer",
        protocol="range",
        leader_id="m",
        since_ms=1234 if version >= 2 else None,
        members=(stored,),
    )


@pytest.mark.fact("P-007")
def test_no_protocol_type_is_written_as_an_empty_one() -> None:
    values = {"protocolType": "", "generation": 0, "protocol": None, "leader": None}
    [fact] = read(batch((write_key(GROUP, {"group": "g"}), write_value(GROUP, values))))
    assert isinstance(fact, GroupStored)
    assert fact.protocol_type is None


@pytest.mark.fact("P-004")
def test_a_record_without_a_value_is_a_deletion() -> None:
    facts = read(batch((write_key(OFFSET, KEY), None), (write_key(GROUP, {"group": "g"}), None)))
    assert facts == [OffsetDeleted(group_id="g", topic="t", partition=3), GroupDeleted(group_id="g")]


@pytest.mark.parametrize("codec", Codec)
def test_batches_may_be_compressed(codec: Codec) -> None:
    assert plain(read(batch(offset(), codec=codec))) == [stored_offset()]


@pytest.mark.fact("P-019", "P-020")
def test_what_a_transaction_holds_counts_once_it_is_committed() -> None:
    open_, closed = batch(offset(offset=1), producer=5), batch(offset(offset=2), producer=6)
    reader = FactReader()
    assert [fact for each in (open_, closed) for fact in reader.read(each)] == []
    assert plain(list(reader.read(marker(COMMIT, 6)))) == [stored_offset(offset=2)]
    assert reader.open_transactions == 1
    assert list(reader.read(marker(COMMIT, 7))) == [], "there is nothing of that producer"
    assert plain(list(reader.read(marker(COMMIT, 5)))) == [stored_offset(offset=1)]


def test_of_an_offset_and_one_of_a_transaction_the_later_in_the_log_counts() -> None:
    pending = batch(offset(offset=1), offset(partition=4, offset=2), producer=5)
    facts = plain(read(pending, batch(offset(offset=9)), marker(COMMIT, 5)))
    assert facts == [stored_offset(offset=9), stored_offset(offset=2)._replace(partitions=(4,))]


@pytest.mark.fact("P-015")
def test_a_deletion_takes_away_what_a_transaction_has_pending() -> None:
    deletion = (write_key(OFFSET, KEY), None)
    facts = read(batch(offset(), producer=5), batch(deletion), marker(COMMIT, 5))
    assert facts == [OffsetDeleted(group_id="g", topic="t", partition=3)]


@pytest.mark.fact("P-048")
def test_what_a_transaction_held_that_was_aborted_never_counts() -> None:
    assert read(batch(offset(), producer=5), marker(ABORT, 5), marker(COMMIT, 5)) == []


@pytest.mark.parametrize(
    ("number", "key", "value", "expected"),
    [
        (3, {"groupId": "g"}, {"epoch": 4}, (GroupKind.CONSUMER, ForeignGroupPart.GROUP, "", 4)),
        (4, {"groupId": "g"}, {}, (GroupKind.CONSUMER, ForeignGroupPart.OTHER, "", 0)),
        (5, {"groupId": "g", "memberId": "m"}, {}, (GroupKind.CONSUMER, ForeignGroupPart.MEMBER, "m", 0)),
        (6, {"groupId": "g"}, {"assignmentEpoch": 4}, (GroupKind.CONSUMER, ForeignGroupPart.TARGET, "", 4)),
        (7, {"groupId": "g", "memberId": "m"}, {}, (GroupKind.CONSUMER, ForeignGroupPart.OTHER, "m", 0)),
        (
            8,
            {"groupId": "g", "memberId": "m"},
            {"memberEpoch": 4},
            (GroupKind.CONSUMER, ForeignGroupPart.CURRENT, "m", 4),
        ),
        (16, {"groupId": "g", "regularExpression": "t.*"}, {}, (GroupKind.CONSUMER, ForeignGroupPart.OTHER, "", 0)),
        (10, {"groupId": "g", "memberId": "m"}, {}, (GroupKind.SHARE, ForeignGroupPart.MEMBER, "m", 0)),
        (11, {"groupId": "g"}, {"epoch": 4}, (GroupKind.SHARE, ForeignGroupPart.GROUP, "", 4)),
        (15, {"groupId": "g"}, {}, (GroupKind.SHARE, ForeignGroupPart.OTHER, "", 0)),
        (17, {"groupId": "g"}, {"epoch": 4}, (GroupKind.STREAMS, ForeignGroupPart.GROUP, "", 4)),
        (
            22,
            {"groupId": "g", "memberId": "m"},
            {"memberEpoch": 4},
            (GroupKind.STREAMS, ForeignGroupPart.CURRENT, "m", 4),
        ),
    ],
)
def test_records_of_other_kinds_of_groups_are_known_by_their_keys(
    number: int, key: dict[str, str], value: dict[str, Any], expected: tuple[GroupKind, ForeignGroupPart, str, int]
) -> None:
    kind, part, member_id, epoch = expected
    written = write_key(number, key)
    assert read(batch((written, write_value(number, value)), (written, None))) == [
        ForeignGroupRecord("g", kind, written, part, member_id, epoch),
        ForeignGroupTombstone("g", kind, written, part, member_id),
    ]


def test_a_member_that_has_not_let_go_of_all_is_not_settled() -> None:
    key, value = write_key(8, {"groupId": "g", "memberId": "m"}), write_value(8, {"memberEpoch": 4, "state": 1})
    [fact] = read(batch((key, value)))
    assert isinstance(fact, ForeignGroupRecord)
    assert not fact.is_reconciled


@pytest.mark.fact("P-001")
def test_records_of_unknown_types_and_with_bad_keys_are_skipped_and_counted() -> None:
    reader = FactReader()
    strange = batch(
        (b"\x03\xe7 from the future", b"x"), (b"\x00", b"x"), (None, b"x"), (b"\x00\x01\x7f\xff", b"x"), offset()
    )
    assert plain(list(reader.read(strange))) == [stored_offset()]
    assert reader.skipped == 4


@pytest.mark.parametrize(
    ("value", "why"), [(b"\x00\x63", "version 99"), (b"\x00\x04\x00", "breaks off"), (b"", "0 bytes")]
)
def test_a_value_that_cannot_be_read_tells_of_its_group(value: bytes, why: str) -> None:
    [fact] = read(batch((write_key(OFFSET, KEY), value)))
    assert isinstance(fact, Unreadable)
    assert fact.group_id == "g"
    assert why in fact.why


def test_offsets_that_only_look_usual_are_read_with_care() -> None:
    key, value = offset()
    assert value is not None
    longer = value[:-1] + b"\x01\x07\x02ab"  # An unknown tagged field.
    assert plain(read(batch((key, longer)))) == [stored_offset()]


@pytest.mark.parametrize("cut", range(1, 20))
def test_records_that_break_off_are_a_bad_batch(cut: int) -> None:
    data = bytes(write_batch([Record(key=b"key", value=b"value", headers=(("h", b"v"),))]))[61:]
    with pytest.raises(CorruptBatch):
        read_key_value(data[: len(data) - cut], 0)
    assert read_key_value(data, 0) == (b"key", b"value", len(data))


some_lines = st.lists(
    st.tuples(st.sampled_from(["g", "h"]), st.integers(0, 3), st.sampled_from([1, 2]), st.sampled_from(["", "x"]))
)


@given(some_lines)
def test_runs_of_offsets_are_what_their_records_are_one_by_one(lines: list[tuple[str, int, int, str]]) -> None:
    """Mixes neighbours: other groups, other times, metadata."""
    pairs: list[Pair] = []
    for group_id, partition, time_ms, text in lines:
        key = write_key(OFFSET, {"group": group_id, "topic": "t", "partition": partition})
        values = {"offset": partition * 7, "leaderEpoch": 1, "metadata": text, "commitTimestamp": time_ms}
        pairs.append((key, write_value(OFFSET, values)))
    together = [
        (fact.group_id, partition, offset, text, fact.committed_at_ms)
        for fact in (read(batch(*pairs)) if pairs else [])
        if isinstance(fact, OffsetsStored)
        for partition, offset, text in zip(fact.partitions, fact.offsets, fact.metadata, strict=True)
    ]
    assert together == [
        (group_id, partition, partition * 7, text, time_ms) for group_id, partition, time_ms, text in lines
    ]


def test_many_offsets_that_were_committed_at_once_are_few_facts() -> None:
    facts = read(batch(*[offset(partition=partition) for partition in range(500)]))
    assert len(facts) < 20
    partitions = [partition for fact in facts if isinstance(fact, OffsetsStored) for partition in fact.partitions]
    assert partitions == list(range(500))
