"""The records of __consumer_offsets, decoded and encoded again: a broker's, all that are possible, and random bytes."""

from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.offsets_log.record_codec import (
    CorruptRecord,
    UnknownType,
    UnknownVersion,
    UnreadableRecord,
    read_key,
    read_value,
    read_versioned,
)
from kcoord.offsets_log.record_schemas import (
    CONSUMER_ASSIGNMENT,
    CONSUMER_SUBSCRIPTION,
    RECORD_TYPES,
    default_of,
)
from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.record import Record, read_records
from kcoord.protocol.schema.notation import Schema
from kcoord.protocol.schema.writers import Unwritable
from tests.support.logs.record_writers import write_key, write_value, write_versioned
from tests.support.logs.schema_values import EVERY_VERSION, values_of

SEGMENTS = sorted(Path(__file__).parent.parent.parent.joinpath("fixtures", "segments").glob("*/*/*.log"))
OFFSET_COMMIT, GROUP_METADATA, MEMBER_METADATA, STREAMS_METADATA = 1, 2, 5, 17


def records_of(segment: Path) -> list[Record]:
    """Returns all records but the markers of transactions."""
    batches = [batch for batch in split_batches(segment.read_bytes()) if not batch.header.is_control]
    return [record for batch in batches for record in read_records(batch)]


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda path: path.parent.parent.name)
def test_each_record_of_a_broker_is_written_as_the_broker_wrote_it(segment: Path) -> None:
    seen = set()
    for record in records_of(segment):
        assert record.key is not None
        number, key = read_key(record.key)
        assert write_key(number, key) == record.key
        if record.value is not None:
            version, value = read_value(number, record.value)
            assert write_value(number, value, version=version) == record.value
            assert version == RECORD_TYPES[number].written
            seen.add(number)
    assert seen == set(RECORD_TYPES) - {0, 4}, "what Kafka 4.3 no longer writes"


@pytest.mark.parametrize(
    ("name", "schema", "version"), EVERY_VERSION, ids=lambda each: each if isinstance(each, str) else ""
)
@settings(max_examples=20)
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, schema: Schema, version: int, data: st.DataObject) -> None:
    values = data.draw(values_of(schema, version))
    assert read_versioned(schema, write_versioned(schema, version, values), what=name) == (version, values)


@pytest.mark.parametrize("schema", [CONSUMER_SUBSCRIPTION, CONSUMER_ASSIGNMENT], ids=["subscription", "assignment"])
@pytest.mark.parametrize("version", range(4))
@settings(max_examples=20)
@given(data=st.data())
def test_what_consumers_put_into_their_bytes_is_read_back(schema: Schema, version: int, data: st.DataObject) -> None:
    values = data.draw(values_of(schema, version))
    assert read_versioned(schema, write_versioned(schema, version, values), what="bytes") == (version, values)


@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [
        (0, "0000 0000000000000007 0001 6d 0000000000000009", {"offset": 7, "metadata": "m"}),
        (1, "0000 0000000000000007 0001 6d 0000000000000009", {"leaderEpoch": -1, "expireTimestamp": -1}),
        (1, "0001 0000000000000007 0000 0000000000000009 000000000000000b", {"expireTimestamp": 11}),
        (1, "0002 0000000000000007 0000 0000000000000009", {"commitTimestamp": 9, "expireTimestamp": -1}),
        (1, "0003 0000000000000007 00000005 0000 0000000000000009", {"leaderEpoch": 5, "metadata": ""}),
        (1, "0004 0000000000000007 00000005 02 6d 0000000000000009 00", {"topicId": UUID(int=0)}),
        (1, "0004 0000000000000007 00000005 01 0000000000000009 01 0010" + "ab" * 16, {"topicId": UUID("ab" * 16)}),
        (2, "0000 0000 00000003 ffff ffff 00000000", {"protocol": None, "currentStateTimestamp": -1}),
        (2, "0002 0000 00000003 ffff ffff 0000000000000009 00000000", {"currentStateTimestamp": 9}),
        (2, "0004 01 00000003 00 00 0000000000000009 01 00", {"leader": None, "members": ()}),
        (3, "0000 00000004 00", {"epoch": 4, "metadataHash": 0}),
    ],
)
def test_values_of_each_age_are_read(number: int, value: str, expected: dict[str, Any]) -> None:
    version, values = read_value(number, bytes.fromhex(value))
    assert version == int(value[:4], 16)
    assert values.items() >= expected.items()
    assert values.keys() == {field.name for field in RECORD_TYPES[number].value.fields}
    assert write_value(number, values, version=version).hex() == value.replace(" ", "")


def test_a_member_without_a_word_of_the_classic_protocol_gets_what_kafka_takes_it_for() -> None:
    """Kafka writes null, and reads absence as a struct of zeros: its generator ignores the default of the schema."""
    absent = write_value(MEMBER_METADATA, {})
    null = write_value(MEMBER_METADATA, {"classicMemberMetadata": None})
    assert null.removeprefix(absent[:-1]) == bytes([1, 0, 1, 0])  # One tagged field: tag 0, one byte, null.
    assert read_value(MEMBER_METADATA, null)[1]["classicMemberMetadata"] is None
    zeros = {"sessionTimeoutMs": 0, "supportedProtocols": ()}
    assert read_value(MEMBER_METADATA, absent)[1]["classicMemberMetadata"] == zeros


def test_values_that_share_a_default_do_not_share_it() -> None:
    value = write_value(MEMBER_METADATA, {})
    first, second = (read_value(MEMBER_METADATA, value)[1] for _ in range(2))
    first["classicMemberMetadata"]["sessionTimeoutMs"] = 1
    assert second["classicMemberMetadata"]["sessionTimeoutMs"] == 0


def test_fields_that_are_not_given_are_written_as_their_defaults() -> None:
    assert read_value(OFFSET_COMMIT, write_value(OFFSET_COMMIT, {}))[1]["leaderEpoch"] == -1
    assert write_value(STREAMS_METADATA, {"lastAssignmentConfigs": []}) == write_value(STREAMS_METADATA, {})
    fields = RECORD_TYPES[GROUP_METADATA].value.fields
    assert read_value(GROUP_METADATA, write_value(GROUP_METADATA, {}, version=0))[1] == {
        field.name: default_of(field) for field in fields
    }


def test_unknown_tagged_fields_and_bytes_behind_the_last_field_are_let_be() -> None:
    plain = write_value(OFFSET_COMMIT, {"offset": 7})
    tagged = plain[:-1] + bytes([2, 0, 16, *range(16), 99, 3, 1, 2, 3])
    _, values = read_value(OFFSET_COMMIT, tagged + b"behind")
    assert (values["offset"], values["topicId"]) == (7, UUID(bytes=bytes(range(16))))


def test_bytes_that_are_no_text_are_replaced_as_java_does() -> None:
    assert read_key(bytes.fromhex("0002 0003 61ff62"))[1] == {"group": "a\N{REPLACEMENT CHARACTER}b"}


def test_a_record_type_that_is_not_known_is_told_from_bytes_that_are_wrong() -> None:
    with pytest.raises(UnknownType) as unknown:
        read_key(bytes.fromhex("0063 00"))
    assert unknown.value.number == 99
    with pytest.raises(UnknownType):
        read_value(99, b"")


def test_a_version_that_is_not_known_is_told_from_bytes_that_are_wrong() -> None:
    for version in (-1, 5):
        with pytest.raises(UnknownVersion, match="OffsetCommit has no version") as unknown:
            read_value(OFFSET_COMMIT, version.to_bytes(2, signed=True))
        assert unknown.value.version == version


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", "a key of 0 bytes"),
        ("00", "a key of 1 bytes"),
        ("0002 0003 6162", "group claims a length of 3, 2 bytes are left"),
        ("0002 ffff", "group claims a length of -1"),
        ("0002 00", "breaks off"),
        ("0001 0000 0000 000000", "breaks off"),
    ],
)
def test_a_malformed_key_says_what_is_wrong(key: str, expected: str) -> None:
    with pytest.raises(CorruptRecord, match=expected):
        read_key(bytes.fromhex(key))


@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [
        (1, "00", "OffsetCommit of 1 bytes"),
        (1, "0004 0000000000000007 00000005 ffffffff0f", "metadata claims a length"),
        (1, "0004 0000000000000007 00000005 ffffffffffff", "varint of more than 5 bytes"),
        (1, "0004 0000000000000007 00000005 00 0000000000000009 00", "metadata claims a length of -1"),
        (1, "0004 0000000000000007 00000005 01 0000000000000009 01 00ffffffff07", "tagged field 0 claims"),
        (1, "0004 0000000000000007 00000005 01 0000000000000009 01 0011" + "ab" * 17, "topicId does not take"),
        (1, "0004 0000000000000007 00000005 01 0000000000000009 ffffffff07", "breaks off"),
        (2, "0000 0000 00000003 ffff ffff 7fffffff", "members claims a length of 2147483647"),
        (2, "0000 0000 00000003 ffff ffff 80000000", "members claims a length of -2147483648"),
        (7, "0000 02" + "ab" * 16 + "05 0000000000000001 00", "breaks off"),
    ],
)
def test_a_malformed_value_says_what_is_wrong(number: int, value: str, expected: str) -> None:
    with pytest.raises(CorruptRecord, match=expected):
        read_value(number, bytes.fromhex(value))


@given(number=st.sampled_from(sorted(RECORD_TYPES)), content=st.binary(max_size=200), version=st.integers(0, 4))
def test_any_bytes_give_values_or_a_bad_record(number: int, content: bytes, version: int) -> None:
    read_or_refused(number, version.to_bytes(2) + content)
    with suppress(UnreadableRecord):
        _, key = read_key(number.to_bytes(2) + content)
        assert read_key(write_key(number, key)) == (number, key)


@given(data=st.data())
def test_a_broken_record_gives_values_or_a_bad_record(data: st.DataObject) -> None:
    """Bytes of real records with changes or cut short get further into the readers than random bytes."""
    record = data.draw(st.sampled_from([each for each in records_of(SEGMENTS[0]) if each.value]))
    assert record.key is not None
    assert record.value is not None
    number, _ = read_key(record.key)
    broken = bytearray(record.value[: data.draw(st.integers(2, len(record.value)))])
    for _ in range(data.draw(st.integers(0, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    read_or_refused(number, bytes(broken))


def test_a_record_that_is_cut_short_is_refused() -> None:
    records = [each for each in records_of(SEGMENTS[0]) if each.key and each.value]
    assert records
    for record in records:
        assert record.key is not None
        assert record.value is not None
        number, _ = read_key(record.key)
        for end in range(len(record.value)):
            with pytest.raises(UnreadableRecord):
                read_value(number, record.value[:end])
        for end in range(len(record.key)):
            with pytest.raises(UnreadableRecord):
                read_key(record.key[:end])


def read_or_refused(number: int, value: bytes) -> None:
    """Checks that whatever can be read can be written."""
    with suppress(UnreadableRecord):
        version, values = read_value(number, value)
        assert read_value(number, write_value(number, values, version=version)) == (version, values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"metadata": None}, "metadata is never null"),
        ({"metadata": "m" * 32_768}, "metadata is too long: 32768 bytes"),
        ({"offset": 2**63}, "int too large|argument out of range"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(Unwritable, match=expected):
        write_value(OFFSET_COMMIT, values)
