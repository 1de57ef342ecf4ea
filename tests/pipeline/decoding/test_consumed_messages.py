"""Messages that another client has consumed become the rows that a segment of the same log gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kcoord.pipeline.decoding.consumed_messages import decode_consumed
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import TABLES
from kcoord.protocol.records.record import Record
from tests.support.pipeline.expected_rows import Rows, decoded
from tests.support.pipeline.segment_files import AT_MS, batch, commit, tombstone, write_segment

NOBODYS = Record(timestamp=AT_MS, key=b"\x00\x63", value=b"?")
KEYLESS = Record(timestamp=AT_MS, key=None, value=b"")
RECORDS = [commit(1), tombstone(), NOBODYS, commit(2, group="other", version=1, expireTimestamp=AT_MS), KEYLESS]
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def handed_out(records: Sequence[Record], *, partition: int = 7, first: int = 0) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "partition": partition,
            "offset": first + at,
            "timestamp": each.timestamp,
            "key": each.key,
            "value": each.value,
        }
        for at, each in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def rows_of(*batches: pa.RecordBatch, wanted: RowSelection | None = None) -> Rows:
    rows: Rows = {name: [] for name in TABLES}
    for table, found in decode_consumed(batches, wanted or RowSelection()):
        found.validate(full=True)
        assert found.schema.equals(TABLES[table].schema)
        rows[table] += found.to_pylist()
    for row in rows["scanned"]:
        assert row["records"] == sum(row[name] for name in list(row)[8:]), row
    return rows


def test_rows_are_those_of_a_segment_but_for_where_in_a_file_they_stand(tmp_path: Path) -> None:
    write_segment(tmp_path, batch(*RECORDS))
    theirs, ours = decoded(tmp_path), rows_of(handed_out(RECORDS))
    assert len(ours["commits"]) == 3
    assert len(ours["rejected"]) == 2
    for table in ("commits", "generations", "group_events", "rejected"):
        no_file = {"source_segment": None} | ({"position": None} if table == "rejected" else {})
        assert ours[table] == [row | no_file for row in theirs[table]], table


@pytest.mark.parametrize("cut", range(1, len(RECORDS)))
def test_it_does_not_matter_how_they_are_cut_into_batches(cut: int) -> None:
    pieces = handed_out(RECORDS[:cut]), handed_out(RECORDS[cut:], first=cut)
    assert rows_of(*pieces) == rows_of(handed_out(RECORDS))


def test_what_was_read_is_told_from_the_first_record_to_the_last_of_each_partition() -> None:
    both = pa.Table.from_batches([handed_out(RECORDS, first=40), handed_out([commit(5)], partition=2, first=9)])
    [mixed] = both.combine_chunks().to_batches()
    scanned = {row["partition"]: row for row in rows_of(mixed)["scanned"]}
    assert {partition: (row["start"], row["end"], row["records"]) for partition, row in scanned.items()} == {
        7: (40, 45, 5),
        2: (9, 10, 1),
    }
    assert {row["topic"] for row in scanned.values()} == {"__consumer_offsets"}
    assert scanned[7]["bytes"] == sum(len(each.key or b"") + len(each.value or b"") for each in RECORDS)
    assert scanned[7]["batches"] == 0


def test_what_is_not_wanted_is_left_out_and_counted() -> None:
    rows = rows_of(handed_out(RECORDS), wanted=RowSelection(groups=("other",)))
    assert [row["group"] for row in rows["commits"]] == ["other"]
    [scanned] = rows["scanned"]
    assert (scanned["commits"], scanned["left_out"], scanned["rejected"]) == (1, 2, 2)


def test_of_nothing_there_are_no_rows() -> None:
    assert not any(rows_of().values())
    assert not any(rows_of(handed_out([])).values())


def test_a_record_without_a_time_has_none() -> None:
    [row] = rows_of(handed_out([Record(timestamp=-1, key=commit(1).key, value=commit(1).value)]))["commits"]
    assert (row["appended_at"], row["date"]) == (None, None)
