"""The tables that a report is made of, as Spark has them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from pyspark.sql import DataFrame

from kcoord.pipeline.transforms.filters import of_groups

_OF_NO_GROUP: Final = ("log_ends", "rejected", "scanned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """All are read several times: what is made of others should be read from its file, or be kept."""

    commits: DataFrame
    generations: DataFrame
    group_events: DataFrame
    ownership: DataFrame
    rebalances: DataFrame
    lag: DataFrame
    """This one, and `log_ends`, of all times: who commits no more is told by what was before."""
    log_ends: DataFrame
    rejected: DataFrame
    scanned: DataFrame
    memberships: DataFrame
    """No table, but as `transforms.ownership` makes it."""

    def of_groups(self, groups: Sequence[str]) -> "Frames":
        """The same of some groups only."""
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return Frames(
            **{name: of_groups(table, groups) if name not in _OF_NO_GROUP else table for name, table in every.items()}
        )
