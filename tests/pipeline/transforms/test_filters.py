"""Which rows of a table the filters select."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.schemas import COMMITS, LAG, LOG_ENDS, OWNERSHIP, REBALANCES, TABLES
from kcoord.pipeline.transforms.filters import filter_groups, filter_time
from tests.support.pipeline.histories import at, frame_of

SINCE, UNTIL = at(100), at(200)
MOMENTS = {COMMITS: "appended_at", LAG: "at", LOG_ENDS: "last_at"}
SPANS = {OWNERSHIP: ("owned_from", "owned_until"), REBALANCES: ("started_at", "ended_at")}


def selected(
    spark: SparkSession, table: str, rows: list[dict[str, Any]], since: datetime | None, until: datetime | None
) -> set[int]:
    """Returns the partitions, or generations, of the selected rows."""
    name = "partition" if "partition" in TABLES[table].schema.names else "generation"
    always = {each.name: _anything(str(each.type)) for each in TABLES[table].schema if not each.nullable}
    numbered = [always | {"group": "g"} | row | {name: number} for number, row in enumerate(rows)]
    return {row[0] for row in filter_time(frame_of(spark, table, numbered), since, until).select(name).collect()}


def _anything(kind: str) -> Any:
    return {"string": "x", "bool": False}.get(kind, at(0) if "timestamp" in kind else 0)


@pytest.mark.parametrize("table", MOMENTS)
def test_moments_are_from_since_to_before_until(spark: SparkSession, table: str) -> None:
    times = [at(99), at(100), at(199), at(200), at(90_000), None]
    if table == LAG:
        times.pop()  # `at` is never null in this table
    rows = [{MOMENTS[table]: time, "date": None if time is None else time.date()} for time in times]
    assert selected(spark, table, rows, SINCE, UNTIL) == {1, 2}
    assert selected(spark, table, rows, SINCE, None) == {1, 2, 3, 4}
    assert selected(spark, table, rows, None, UNTIL) == {0, 1, 2}
    assert selected(spark, table, rows, None, None) == set(range(len(rows)))


@pytest.mark.parametrize("table", SPANS)
def test_what_lasts_is_wanted_if_it_was_going_on(spark: SparkSession, table: str) -> None:
    spans = [(1, 50), (1, 150), (1, None), (150, 160), (150, None), (250, 300), (None, 150), (None, None), (1, 900)]
    begin, end = SPANS[table]
    rows = [{begin: at(first), end: at(last)} for first, last in spans]
    assert selected(spark, table, rows, SINCE, UNTIL) == {1, 2, 3, 4, 6, 8}
    assert selected(spark, table, rows, SINCE, None) == {1, 2, 3, 4, 5, 6, 8}
    assert selected(spark, table, rows, None, UNTIL) == {0, 1, 2, 3, 4, 6, 8}


def test_groups_are_chosen_by_name_and_all_if_none_is_named(spark: SparkSession) -> None:
    rows = [{"group": name, "topic": "t", "partition": 0, "member_id": "m"} for name in ("a", "a.b", "c")]
    frame = frame_of(spark, OWNERSHIP, rows)
    assert {row["group"] for row in filter_groups(frame, ["a", "c", "z"]).collect()} == {"a", "c"}
    assert filter_groups(frame, []).count() == 3
