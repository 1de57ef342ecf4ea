"""Segments become the rows that Kafka's own tool prints for them, and our dump."""

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.groups.records import GroupDeleted, GroupStored, OffsetDeleted, OffsetsStored, StoredMember
from kcoord.groups.records import Record as Fact
from kcoord.offsets_log.pending_batches import Pending, add_fact
from kcoord.offsets_log.record_schemas import CONSUMER_SUBSCRIPTION, RECORD_TYPES
from kcoord.pipeline.decoding.decode import decode_records
from kcoord.pipeline.decoding.records import Source, records_of_messages
from kcoord.pipeline.schemas import COMMITS
from kcoord.protocol.records.batch import split_batches, stamp_timestamp
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, read_records, write_batch
from tests.storage.record_segments import FOLDER, PRINTED, SEGMENT
from tests.support.logs.kafka_dump import printed_batches
from tests.support.logs.record_writers import write_key, write_value, write_versioned
from tests.support.logs.schema_values import TEXTS, values_of
from tests.support.pipeline.expected_rows import Row, comparable, decoded, expected_rows, expected_rows_of_dump, moment
from tests.support.pipeline.segment_files import AT_MS, batch, commit, in_a_row, tombstone, write_segment

A_VALUE_OF_ALL = write_value(1, {"offset": 41, "leaderEpoch": 5, "metadata": "m", "topicId": UUID(int=9)})


def decoded_commits(folder: Path, *records: Record) -> list[Row]:
    write_segment(folder, batch(*records))
    return decoded(folder)["commits"]


def reasons(rows: dict[str, list[Row]]) -> list[str]:
    return [row["reason"] for row in rows["rejected"]]


@pytest.mark.parametrize("name", ["plain", "lz4"])
def test_rows_are_what_kafkas_own_tool_prints(name: str) -> None:
    segment = FOLDER / name / SEGMENT
    theirs = expected_rows_of_dump(printed_batches(FOLDER.joinpath(name, PRINTED).read_text()), segment)
    rows = decoded(FOLDER / name)
    assert comparable(rows) == theirs
    assert all(len(theirs[table]) > 5 for table in theirs)
    assert not rows["rejected"]
    assert rows["scanned"][0]["aborted"] > 0


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_every_codec_give_the_same_rows(codec: Codec, tmp_path: Path) -> None:
    golden = FOLDER / "plain" / SEGMENT
    batches = [each for each in split_batches(golden.read_bytes()) if not each.header.is_transactional]
    again = [
        write_batch(list(read_records(each)), base_offset=each.header.base_offset, codec=codec) for each in batches
    ]
    segment = write_segment(tmp_path, *again)
    rows = decoded(tmp_path)
    assert comparable(rows) == expected_rows(segment)
    assert sum(row["records"] for row in rows["scanned"]) == sum(each.header.record_count for each in batches)


def test_batches_with_and_without_compression_may_stand_side_by_side(tmp_path: Path) -> None:
    codecs = [*Codec, *Codec]
    batches = in_a_row(*(batch(commit(index), tombstone(), codec=codec) for index, codec in enumerate(codecs)))
    write_segment(tmp_path, *batches)
    commits = decoded(tmp_path)["commits"]
    assert [row["offset"] for row in commits] == [part for index in range(len(codecs)) for part in (index, None)]
    assert [row["source_offset"] for row in commits] == list(range(2 * len(codecs)))


FACTS: list[Fact] = [
    OffsetsStored("billing", "orders", (0, 1, 2), (5, 6, 7), (1, -1, 2), ("", "", ""), AT_MS, None, UUID(int=7)),
    OffsetsStored("billing", "orders", (0,), (8,), (1,), ("a note",), AT_MS, None, UUID(int=7)),
    OffsetsStored("billing", "orders", (3,), (9,), (-1,), ("ünï",), AT_MS, AT_MS + 5, None),
    OffsetDeleted(group_id="billing", topic="orders", partition=2),
    GroupStored(
        group_id="billing",
        generation=4,
        protocol_type="consumer",
        protocol="range",
        leader_id="m",
        since_ms=AT_MS,
        members=(
            StoredMember(
                member_id="m",
                instance_id="i",
                client_id="c",
                client_host="/h",
                session_timeout=10.0,
                rebalance_timeout=60.0,
                subscription=write_versioned(CONSUMER_SUBSCRIPTION, 1, {"topics": ("orders",)}),
                assignment=b"\0\1\0",
            ),
        ),
    ),
    GroupDeleted(group_id="billing"),
    OffsetsStored("many", "t", range(900), range(900), (-1,) * 900, ("",) * 900, AT_MS, None, None),
]


def test_what_our_own_journal_writes_is_decoded(tmp_path: Path) -> None:
    pending: Pending = []
    for fact in FACTS * 3:
        add_fact(pending, fact, AT_MS)
    segment = write_segment(tmp_path, *in_a_row(*(bytes(each.sealed().data) for each in pending)))
    rows = decoded(tmp_path)
    assert comparable(rows) == expected_rows(segment)
    assert (len(rows["commits"]), len(rows["generations"])) == (3 * 906, 3 * 2)
    assert rows["generations"][0]["members"][0]["assignment_bytes"] == b"\0\1\0"
    assert not rows["rejected"]


KEYS = st.fixed_dictionaries({"group": TEXTS, "topic": TEXTS, "partition": st.integers(-(2**31), 2**31 - 1)})
COMMITS_OF_ANY_VERSION = st.one_of(
    *(
        st.tuples(st.just(number), st.just(version), KEYS, st.none() | values_of(RECORD_TYPES[number].value, version))
        for number in (0, 1)
        for version in RECORD_TYPES[number].value.versions
    )
)


@settings(max_examples=60, deadline=None)
@given(drawn=st.lists(COMMITS_OF_ANY_VERSION, min_size=1, max_size=40), codec=st.sampled_from(Codec))
def test_commits_of_every_version_are_what_our_dump_tells(
    drawn: list[tuple[int, int, Row, Row | None]], codec: Codec, tmp_path_factory: pytest.TempPathFactory
) -> None:
    records = [
        Record(
            timestamp=AT_MS + index,
            key=write_key(number, key),
            value=None if value is None else write_value(number, value, version=version),
        )
        for index, (number, version, key, value) in enumerate(drawn)
    ]
    folder = tmp_path_factory.mktemp("versions")
    segment = write_segment(folder, batch(*records, codec=codec))
    rows = decoded(folder)
    assert comparable(rows) == expected_rows(segment)
    assert len(rows["commits"]) == len(records)


@pytest.mark.parametrize("number", [number for number in RECORD_TYPES if number > 1])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_records_of_groups_of_every_type_and_version_are_what_our_dump_tells(
    number: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    record_type = RECORD_TYPES[number]
    folder = tmp_path_factory.mktemp("types")
    records = []
    for version in record_type.value.versions:
        key = write_key(number, data.draw(values_of(record_type.key, 0)))
        value = write_value(number, data.draw(values_of(record_type.value, version)), version=version)
        records += [Record(timestamp=AT_MS, key=key, value=value), Record(timestamp=AT_MS, key=key, value=None)]
    segment = write_segment(folder, batch(*records))
    rows = decoded(folder)
    assert comparable(rows) == expected_rows(segment)
    assert not rows["rejected"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record(timestamp=AT_MS, key=None, value=b"v"), "a record without a key"),
        (Record(timestamp=AT_MS, key=b"", value=b"v"), "a key of 0 bytes"),
        (Record(timestamp=AT_MS, key=b"\0", value=None), "a key of 1 bytes"),
        (Record(timestamp=AT_MS, key=b"\0\x63g", value=b"v"), "no record type has the number 99"),
        (Record(timestamp=AT_MS, key=b"\0\1\0\5g", value=None), "claims a length of 5"),
        (Record(timestamp=AT_MS, key=b"\0\1\xff\xff\0\1t", value=None), "claims a length of -1"),
        (Record(timestamp=AT_MS, key=commit(1).key, value=b""), "OffsetCommit of 0 bytes"),
        (Record(timestamp=AT_MS, key=commit(1).key, value=b"\0\5more"), "OffsetCommit has no version 5"),
        (Record(timestamp=AT_MS, key=commit(1).key, value=b"\xff\xffmore"), "OffsetCommit has no version -1"),
        (Record(timestamp=AT_MS, key=write_key(0, {}), value=A_VALUE_OF_ALL), "LegacyOffsetCommit has no version 4"),
        *(
            (Record(timestamp=AT_MS, key=commit(1).key, value=A_VALUE_OF_ALL[:size]), "OffsetCommit")
            for size in range(2, len(A_VALUE_OF_ALL))
        ),
        (Record(timestamp=AT_MS, key=write_key(2, {}), value=b"\0\3\0"), "GroupMetadata breaks off"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_rejected_and_the_others_are_not(
    record: Record, reason: str, tmp_path: Path
) -> None:
    write_segment(tmp_path, batch(commit(1), record, commit(2), at=10))
    rows = decoded(tmp_path)
    assert [(row["offset"], row["source_offset"]) for row in rows["commits"]] == [(1, 10), (2, 12)]
    (rejected,) = rows["rejected"]
    assert reason in rejected["reason"]
    assert (rejected["what"], rejected["records"], rejected["position"]) == ("record", 1, 0)
    assert (rejected["key"], rejected["value"]) == (record.key, record.value)
    assert (rejected["source_offset"], rejected["appended_at"]) == (11, moment(AT_MS))


@pytest.mark.parametrize(
    "value",
    [
        A_VALUE_OF_ALL + b"bytes behind the last field",
        write_value(1, {"offset": 41})[:-1] + b"\1\7\1x",  # one unknown tag
        write_value(1, {"offset": 41})[:-1] + b"\2\0\x10" + bytes(15) + b"\3" + b"\7\0",  # a known one and another
        write_value(1, {"offset": 41})[:-1] + b"\x80\0",  # a tag count of zero, encoded in two bytes
    ],
)
def test_what_kafka_lets_be_is_decoded_as_well(value: bytes, tmp_path: Path) -> None:
    odd = Record(timestamp=AT_MS, key=commit(1).key, value=value)
    segment = write_segment(tmp_path, batch(commit(1), odd, tombstone(), commit(3)))
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [1, 41, None, 3]
    assert comparable(rows) == expected_rows(segment)


def test_bytes_that_are_no_text_are_replaced_as_everywhere_else(tmp_path: Path) -> None:
    good = commit(1, metadata="long enough")
    assert good.key is not None
    assert good.value is not None
    broken = Record(
        timestamp=AT_MS, key=good.key[:4] + b"\xff" + good.key[5:], value=good.value.replace(b"long", b"\xc3(\xa0\xa1")
    )
    segment = write_segment(tmp_path, batch(good, broken))
    rows = decoded(tmp_path)
    assert [row["group"] for row in rows["commits"]] == ["g", "\N{REPLACEMENT CHARACTER}"]
    assert comparable(rows) == expected_rows(segment)


def test_a_record_with_headers_is_decoded_and_so_are_its_neighbours(tmp_path: Path) -> None:
    headed = commit(2)
    headed = Record(timestamp=AT_MS, key=headed.key, value=headed.value, headers=(("trace", b"1"), ("none", None)))
    segment = write_segment(tmp_path, *in_a_row(batch(commit(1), headed, commit(3)), batch(commit(4))))
    rows = decoded(tmp_path)
    assert [row["offset"] for row in rows["commits"]] == [1, 2, 3, 4]
    assert comparable(rows) == expected_rows(segment)


def test_the_time_of_a_row_is_that_of_its_record_or_of_the_append(tmp_path: Path) -> None:
    records = [Record(timestamp=AT_MS + delta, key=commit(1).key, value=None) for delta in (0, 86_400_000 * 400, -5)]
    created = batch(*records)
    appended = bytearray(created)
    stamp_timestamp(appended, 0, len(appended), max_timestamp=AT_MS + 99, uses_append_time=True)
    write_segment(tmp_path, *in_a_row(created, bytes(appended)))
    times = [row["appended_at"] for row in decoded(tmp_path)["commits"]]
    assert times == [*(moment(record.timestamp) for record in records), *[moment(AT_MS + 99)] * 3]


@pytest.mark.parametrize("timestamp", [-1, -(2**62), 2**62, 253_402_300_800_000, -62_135_596_800_001])
def test_a_time_that_no_calendar_has_is_none(timestamp: int, tmp_path: Path) -> None:
    odd = commit(1, commitTimestamp=timestamp)
    (row, _) = decoded_commits(tmp_path, Record(timestamp=timestamp, key=odd.key, value=odd.value), odd)
    assert (row["committed_at"], row["appended_at"], row["date"]) == (None, None, None)


@pytest.mark.parametrize("timestamp", [0, 1, -2, 253_402_300_799_999, -62_135_596_800_000])
def test_any_time_that_a_calendar_has_is_kept(timestamp: int, tmp_path: Path) -> None:
    odd = commit(1, commitTimestamp=timestamp)
    (row,) = decoded_commits(tmp_path, Record(timestamp=timestamp, key=odd.key, value=odd.value))
    at = moment(timestamp)
    assert at is not None
    assert (row["committed_at"], row["appended_at"], row["date"]) == (at, at, at.date())


def test_a_newer_version_of_a_subscription_is_read_as_the_newest_that_is_known(tmp_path: Path) -> None:
    content = b"\0\x09" + write_versioned(CONSUMER_SUBSCRIPTION, 3, {"topics": ("t",), "rackId": "r"})[2:] + b"and more"
    member = {"memberId": "m", "subscription": content, "assignment": b""}
    value = write_value(2, {"protocolType": "consumer", "members": (member,)})
    write_segment(tmp_path, batch(Record(timestamp=AT_MS, key=write_key(2, {"group": "g"}), value=value)))
    (found,) = decoded(tmp_path)["generations"][0]["members"]
    assert (found["subscription"]["version"], found["subscription"]["topics"]) == (9, ["t"])
    assert found["subscription"]["rack"] == "r"
    assert (found["assignment"], found["assignment_bytes"]) == (None, b"")


def test_of_other_topics_it_is_told_how_their_logs_grew(tmp_path: Path) -> None:
    records = [Record(timestamp=AT_MS + index, key=b"k", value=b"v") for index in range(3)]
    write_segment(tmp_path, batch(*records, at=5, codec=Codec.ZSTD), batch(records[0], at=8), log="orders-1")
    rows = decoded(tmp_path)
    assert [(row["base_offset"], row["end_offset"], row["last_at"]) for row in rows["log_ends"]] == [
        (5, 8, moment(AT_MS + 2)),
        (8, 9, moment(AT_MS)),
    ]
    assert {(row["topic"], row["partition"]) for row in rows["log_ends"]} == {("orders", 1)}
    assert (rows["scanned"][0]["plain"], rows["scanned"][0]["records"]) == (4, 4)
    assert not rows["rejected"]


def test_records_of_a_client_give_the_same_rows_as_those_of_a_segment(tmp_path: Path) -> None:
    records = [commit(1), tombstone(), commit(2, metadata="m", version=1, expireTimestamp=AT_MS)]
    write_segment(tmp_path, batch(*records))
    ours = records_of_messages(
        Source(partition=7),
        [record.key for record in records],
        [record.value for record in records],
        offsets=range(3),
        timestamps=[AT_MS] * 3,
    )
    ((name, rows),) = decode_records(ours)
    assert name == COMMITS
    assert rows.to_pylist() == [row | {"source_segment": None} for row in decoded(tmp_path)["commits"]]
