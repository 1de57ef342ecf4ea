"""Files of offsets: JSON lines and Kafka's CSV, written, read and compared."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.offsets.diffing import Kind, diff
from kcoord.admin.offsets.files.documents import BadDocument, read_text
from kcoord.admin.offsets.files.exporting import CannotExport, csv_lines, json_lines
from kcoord.admin.offsets.files.importing import offsets_by_group, only_groups, read_offsets, rename_groups
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.record_marks import RecordMark
from tests.support.admin.quoted_names import QUOTED

SAMPLES = Path(__file__).parent.parent.parent.parent / "fixtures" / "offsets"


def line(group: str = "g", topic: str = "orders", partition: int = 0, offset: int = 7) -> OffsetLine:
    return OffsetLine(group=group, tp=TopicPartition(topic, partition), committed=Committed(offset))


FULL = OffsetLine(
    group="g\x1b\x7f\u2028",
    tp=TopicPartition("orders", 3),
    committed=Committed(7, 2, "note\x00"),
    topic_id="Y2F0cyBhcmUgZ29vZCBwZQ",
    bounds=Bounds(5, 9),
    cluster_id="c1",
    group_state="Empty",
    next_record=RecordMark(offset=8, timestamp=1_700_000_000_000, is_append_time=True, checksum="00c0ffee"),
)

_texts = st.text(st.characters(codec="utf-8"), min_size=1)
_int32 = st.integers(0, 2**31 - 1)
_int64 = st.integers(0, 2**63 - 1)
_marks = st.none() | st.builds(
    RecordMark,
    offset=st.none() | _int64,
    timestamp=st.none() | _int64,
    is_append_time=st.booleans(),
    checksum=st.none() | st.from_regex("[0-9a-f]{8}", fullmatch=True),
)
_lines = st.builds(
    OffsetLine,
    group=_texts,
    tp=st.builds(TopicPartition, _texts, _int32),
    committed=st.builds(
        Committed, _int64, st.integers(-1, 2**31 - 1), st.text(st.characters(codec="utf-8")), st.none()
    ),
    topic_id=st.none() | _texts,
    bounds=st.none() | st.builds(Bounds, _int64, _int64),
    cluster_id=st.none() | _texts,
    group_state=st.none() | _texts,
    next_record=_marks,
    last_record=_marks,
)


@settings(deadline=None)
@given(st.lists(_lines, min_size=1, unique_by=lambda each: (each.group, each.tp)))
def test_json_lines_bring_back_whatever_was_written(lines: list[OffsetLine]) -> None:
    text = "".join(json_lines(lines))
    assert read_offsets(text, "f") == tuple(lines)
    assert all(char.isprintable() for char in text if char != "\n")


def test_each_json_line_says_all_of_itself() -> None:
    (text,) = json_lines([FULL])
    assert json.loads(text) == {
        "kcoord": "offsets/v1",
        "group": "g\x1b\x7f\u2028",
        "topic": "orders",
        "topic_id": "Y2F0cyBhcmUgZ29vZCBwZQ",
        "partition": 3,
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "note\x00",
        "log_start": 5,
        "log_end": 9,
        "timestamp": 1_700_000_000_000,
        "cluster_id": "c1",
        "group_state": "Empty",
        "next_record": {"offset": 8, "timestamp": 1_700_000_000_000, "append_time": True, "crc32c": "00c0ffee"},
        "last_record": None,
    }


# CSV


@pytest.mark.parametrize("name", QUOTED)
def test_names_are_quoted_as_kafka_quotes_them_and_read_back(name: str) -> None:
    text = "".join(csv_lines([line(name)], with_group=True))
    assert text == f"{QUOTED[name]},orders,0,7\n"
    assert read_offsets(text, "f") == (line(name),)


def test_one_group_has_three_columns_and_needs_its_name_to_be_read() -> None:
    text = "".join(csv_lines([line(partition=0), line(partition=1)], with_group=False))
    assert text == "orders,0,7\norders,1,7\n"
    assert read_offsets(text, "f", group="g") == (line(partition=0), line(partition=1))
    with pytest.raises(BadDocument, match="f: CSV of three columns does not say which group it is of: say --group"):
        read_offsets(text, "f")


def test_several_groups_do_not_fit_into_three_columns() -> None:
    with pytest.raises(CannotExport, match="no place for several groups"):
        list(csv_lines([line("a"), line("b")], with_group=False))


@pytest.mark.parametrize("name", ["a\nb", "esc\x1b[31m", "tab\t", "del\x7f"])
def test_control_characters_do_not_go_into_csv(name: str) -> None:
    with pytest.raises(CannotExport, match="control characters, which this CSV cannot carry: use --format jsonl"):
        list(csv_lines([line(name)], with_group=True))


def test_csv_is_read_as_kafka_reads_it() -> None:
    """The file has a blank line, spaces around numbers, Windows line ends and a byte order mark."""
    text = 'g,"orders", 0 ,7\r\n"g",orders,1,7\n\n'
    assert read_offsets(text, "f") == (line(partition=0), line(partition=1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: there are no offsets in it"),
        ("\n \n", "f: there are no offsets in it"),
        ("orders,0\n", "f:1: 2 columns are neither 3 nor 4: write topic,partition,offset"),
        ("orders,0,7\norders,1\n", "f:2: 2 columns, and line 1 has 3"),
        ("orders,0,7\n\norders,1,7,8\n", "f:3: 4 columns, and line 1 has 3"),
        ("orders,0,seven\n", "f:1: 'seven' is no offset"),
        ("orders,0,-7\n", "f:1: '-7' is no offset"),
        ("orders,x,7\n", "f:1: 'x' is no partition"),
        ("orders,4294967296,7\n", "f:1: '4294967296' is no partition"),
        ("orders,0,9223372036854775808\n", "f:1: '9223372036854775808' is no offset"),
        ("orders,0,٣\n", "f:1: '٣' is no offset"),
        ("topic,partition,offset\n", "f:1: 'partition' is no partition"),
        (",0,7\n", "f:1: the topic has no name"),
        (',"orders",0,7\n', "f:1: the group has no name"),
        ('orders,0,7\n"orders,1,7\n', "f:2: this is not CSV"),
        ("orders,0,7\norders,1,8\norders,0,9\n", "f:3: group 'g', 'orders-0' is in line 1 already"),
        ("\x1b[31m,0,seven\x1b\n", r"f:1: 'seven\\x1b' is no offset"),
    ],
)
def test_csv_that_is_wrong_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(BadDocument, match=message):
        read_offsets(text, "f", group="g")


GOOD = '{"kcoord": "offsets/v1", "group": "g", "topic": "orders", "partition": 0, "offset": 7}'


def test_a_json_line_needs_only_group_topic_partition_and_offset() -> None:
    assert read_offsets(GOOD, "f") == (line(),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD}\norders,0,7", "f:2: this is not a JSON object"),
        (f"{GOOD}\n[]", "f:2 is not an object"),
        (f'{GOOD}\n{{"group": "g"}}', "f:2: this is no line of kcoord.offsets/v1, but None"),
        (GOOD.replace("offsets/v1", "offsets/v2"), "f:1: this is no line of kcoord.offsets/v1, but 'offsets/v2'"),
        (GOOD.replace("7", "-7"), "f:1: the offset -7 is negative"),
        (GOOD.replace("7", '"7"'), "f:1: 'offset' is not a whole number"),
        (GOOD.replace("7", "9" * 5000), "f:1: this is not a JSON object"),
        (GOOD.replace('"g"', '""'), "f:1: the group has no name"),
        (GOOD.replace('"g"', r'"\ud800"'), "f:1: 'group' has half a character"),
        (GOOD.replace('"partition": 0, ', ""), "f:1: 'partition' is missing"),
        (f"{GOOD}\n\n{GOOD}", "f:3: group 'g', 'orders-0' is in line 1 already"),
        ('{"a":' * 100_000, "f:1: this is not a JSON object"),
    ],
)
def test_json_lines_that_are_wrong_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(BadDocument, match=message):
        read_offsets(text, "f")


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(b"orders,0,7\norders,\xff,7\n")
    with pytest.raises(BadDocument, match=r"f\.csv:2: this is not a UTF-8 text"):
        read_text(path)
    path.write_bytes(b"\xef\xbb\xbforders,0,7\n")
    assert read_text(path) == "orders,0,7\n"


# Selecting from a file


def test_groups_are_chosen_and_renamed_by_their_names() -> None:
    lines = [line("a"), line("b"), line("a", partition=1)]
    assert [each.group for each in only_groups(lines, ["a"])] == ["a", "a"]
    assert [each.group for each in rename_groups(lines, {"a": "copy"})] == ["copy", "b", "copy"]
    for absent in (only_groups, rename_groups):
        with pytest.raises(BadDocument, match="the file has no offsets of group 'c'"):
            list(absent(lines, {"c": "d"}))


def test_targets_are_by_group_with_the_ids_of_topics() -> None:
    found = offsets_by_group([FULL, line("h")])
    assert found["h"].offsets == {TopicPartition("orders", 0): Committed(7)}
    assert found[FULL.group].topic_ids == {"orders": FULL.topic_id}


def test_two_groups_cannot_become_one_over_the_same_partition() -> None:
    with pytest.raises(BadDocument, match="two groups that both become 'a' have offsets for the same partition"):
        offsets_by_group(rename_groups([line("a"), line("b")], {"b": "a"}))


def test_a_topic_cannot_have_two_ids() -> None:
    other = OffsetLine(group=FULL.group, tp=TopicPartition("orders", 4), committed=Committed(1), topic_id="other")
    with pytest.raises(BadDocument, match="two topics that are both named 'orders'"):
        offsets_by_group([FULL, other])


# Comparing


def test_a_diff_names_what_is_in_one_only_and_by_how_much_others_differ() -> None:
    a = [line(partition=0), line(partition=1, offset=5), line(partition=2)]
    b = [line(partition=0), line(partition=1, offset=9), line("h")]
    found = diff(a, b)
    assert [(each.group, each.tp.partition, each.kind, each.by) for each in found.differences] == [
        ("g", 1, Kind.OFFSET, 4),
        ("g", 2, Kind.ONLY_A, None),
        ("h", 0, Kind.ONLY_B, None),
    ]
    assert found.same == 1


def test_epochs_and_metadata_count_only_if_it_is_to_be_exact() -> None:
    plain = OffsetLine(group=FULL.group, tp=FULL.tp, committed=Committed(7))
    assert diff([FULL], [plain]).differences == ()
    (difference,) = diff([FULL], [plain], exactly=True).differences
    assert (difference.kind, difference.by) == (Kind.DETAILS, 0)


def test_the_samples_of_both_formats_are_the_same_offsets() -> None:
    as_json = read_offsets(read_text(SAMPLES / "payments.jsonl"), "f")
    as_csv = read_offsets(read_text(SAMPLES / "payments.csv"), "f", group="payments")
    of_many = read_offsets(read_text(SAMPLES / "all-groups.csv"), "f")
    assert diff(as_json, as_csv).differences == ()
    assert diff(as_csv, only_groups(of_many, ["payments"])).differences == ()
    assert "".join(json_lines(as_json)) == read_text(SAMPLES / "payments.jsonl")
    assert "".join(csv_lines(as_csv, with_group=False)) + "\n" == read_text(SAMPLES / "payments.csv")


def test_an_export_of_before_records_were_told_is_read_as_far_as_it_tells() -> None:
    older = read_offsets(read_text(SAMPLES / "payments-older.jsonl"), "f")
    newer = read_offsets(read_text(SAMPLES / "payments.jsonl"), "f")
    assert diff(older, newer, exactly=True).differences == ()
    assert [line.timestamp for line in older] == [line.timestamp for line in newer]
    assert {(line.cluster_id, line.group_state, line.last_record) for line in older} == {(None, None, None)}
    assert [line.next_record for line in older] == [
        None if line.timestamp is None else RecordMark(timestamp=line.timestamp) for line in newer
    ]


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ({"append_time": False, "crc32c": "xyz"}, "'xyz' is not a checksum of 8 hexadecimal digits"),
        ({"append_time": False, "offset": "1"}, "'offset' is not a whole number"),
        ({"append_time": 1}, "'append_time' is not true or false"),
        ([], "is not an object"),
    ],
)
def test_a_record_that_is_not_what_it_should_be_is_refused_with_its_line(mark: object, message: str) -> None:
    fields = {"kcoord": "offsets/v1", "group": "g", "topic": "t", "partition": 0, "offset": 1, "next_record": mark}
    with pytest.raises(BadDocument, match=re.escape(message)) as raised:
        read_offsets(json.dumps(fields), "f")
    assert str(raised.value).startswith("f:1: ")
