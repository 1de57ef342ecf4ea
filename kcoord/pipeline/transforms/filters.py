"""Filters rows of a table by time and by group."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_SPANS: Final = (("owned_from", "owned_until"), ("member_from", "member_until"), ("started_at", "ended_at"))
_TIMES: Final = ("at", "appended_at", "last_at")
_DAY: Final = "date"


def filter_time(frame: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    """Returns the rows of a table from `since` to before `until`; a row that has a start and an end counts if it
    overlaps.

    A row whose time is unknown is in no such time.
    """
    if since is None and until is None:
        return frame
    for begin, end in _SPANS:
        if begin in frame.columns:
            return _overlapping(frame, f.col(begin), f.col(end), since, until)
    (time,) = [name for name in _TIMES if name in frame.columns]
    return _between(frame, time, since, until)


def filter_groups(frame: DataFrame, names: Collection[str]) -> DataFrame:
    """Returns the rows of a table that belong to these groups; all rows if no group is named."""
    return frame.where(f.col("group").isin(*names)) if names else frame


def _between(frame: DataFrame, time: str, since: datetime | None, until: datetime | None) -> DataFrame:
    """Filters by time. The day is a condition too, since files are partitioned by it."""
    if since is not None:
        frame = frame.where((f.col(time) >= f.lit(since)) & (f.col(_DAY) >= f.lit(since.astimezone(UTC).date())))
    if until is not None:
        frame = frame.where((f.col(time) < f.lit(until)) & (f.col(_DAY) <= f.lit(until.astimezone(UTC).date())))
    return frame


def _overlapping(
    frame: DataFrame, begin: Column, end: Column, since: datetime | None, until: datetime | None
) -> DataFrame:
    """Filters by overlap. A row without an end is still going on; one without a known beginning counts by its end."""
    if since is not None:
        frame = frame.where(f.coalesce(end >= f.lit(since), begin.isNotNull()))
    if until is not None:
        frame = frame.where(f.coalesce(begin, end) < f.lit(until))
    return frame
