"""The time that was read, of which a part may be asked for."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kcoord.admin.times import EPOCH

_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The time that the decoded records cover, from the first record to the last one; both are None if there is no
    record."""

    first: datetime | None = None
    last: datetime | None = None

    def hours(self, since: datetime | None, until: datetime | None) -> float:
        """Returns how many hours of the time from `since` to `until` (None: no bound) the records cover. Less than an
        hour counts as one: otherwise two rebalances in a minute would be a hundred in an hour."""
        if self.first is None or self.last is None:
            return 1.0
        first = self.first if since is None else max(since, self.first)
        last = self.last if until is None else min(until, self.last)
        return max(1.0, (last - first) / _HOUR)

    def merged_with(self, other: "Period") -> "Period":
        """Returns the period from the first of both to the last of both."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        lasts = [each for each in (self.last, other.last) if each is not None]
        return Period(first=min(firsts, default=None), last=max(lasts, default=None))


def period_of(*tables: DataFrame) -> Period:
    """Returns the time that the records of these decoded tables cover. This runs a Spark job."""
    times = reduce(DataFrame.unionAll, [table.select("appended_at") for table in tables])
    at = f.unix_millis("appended_at")
    [row] = times.agg(f.min(at).alias("first"), f.max(at).alias("last")).collect()
    return Period(first=time_of(row["first"]), last=time_of(row["last"]))


def time_of(milliseconds: int | None) -> datetime | None:
    """Converts milliseconds since 1970 to an aware datetime; None stays None."""
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)
