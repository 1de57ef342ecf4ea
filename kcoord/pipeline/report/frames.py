"""The tables that a report is made of, as Spark frames."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from pyspark.sql import DataFrame

from kcoord.pipeline.transforms.filters import filter_groups

_OF_NO_GROUP: Final = ("log_ends", "rejected", "scanned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The tables that a report is made of, as Spark DataFrames. All are read several times: derived ones should be read
    from files, or be cached."""

    commits: DataFrame
    generations: DataFrame
    group_events: DataFrame
    ownership: DataFrame
    rebalances: DataFrame
    lag: DataFrame
    """Like `log_ends` it has all times: the lag of a group that stopped committing follows from earlier rows."""
    log_ends: DataFrame
    rejected: DataFrame
    scanned: DataFrame
    memberships: DataFrame
    """Not a table on disk, but the result of `transforms.ownership.memberships`."""

    def of_groups(self, groups: Sequence[str]) -> "Frames":
        """Returns these tables with the rows of some groups only; tables without groups stay whole."""
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return Frames(
            **{
                name: filter_groups(table, groups) if name not in _OF_NO_GROUP else table
                for name, table in every.items()
            }
        )
