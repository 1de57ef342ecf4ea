"""Rows of the table `lag`, and checks of the findings in them."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.testing import assertDataFrameEqual

from tests.support.pipeline.histories import at


def check(frame: DataFrame, columns: str, *rows: Sequence[Any]) -> None:
    """Checks that the frame has these rows, in this order."""
    found = frame.select(*columns.split())
    assertDataFrameEqual(found, frame.sparkSession.createDataFrame(list(rows), found.schema), checkRowOrder=True)


def behind(group: str, seconds: float, committed: int, lag: int | None, **others: Any) -> dict[str, Any]:
    facts = {"topic": "orders", "partition": 0, "lag_ms": None if lag is None else lag * 10}
    end = None if lag is None else committed + lag
    return {"group": group, "at": at(seconds), "committed": committed, "lag": lag, "log_end": end} | facts | others


def deleted(group: str, seconds: float, **others: Any) -> dict[str, Any]:
    """Returns the row of a deleted offset."""
    return {"group": group, "topic": "orders", "partition": 0, "at": at(seconds)} | others
