"""The job that makes a report: what `kcoord pipeline report` calls."""

from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.decode_job import Say
from kcoord.pipeline.decoding.row_filter import Wanted
from kcoord.pipeline.derive_job import derive, hours_read
from kcoord.pipeline.report.facts import Asked, gather
from kcoord.pipeline.report.frames import Frames
from kcoord.pipeline.report.model import Limits, ReportFacts
from kcoord.pipeline.schemas import (
    COMMITS,
    GENERATIONS,
    GROUP_EVENTS,
    LAG,
    LOG_ENDS,
    OWNERSHIP,
    REBALANCES,
    REJECTED,
    SCANNED,
)
from kcoord.pipeline.tables import TablesFolder
from kcoord.pipeline.transforms.filters import of_groups, within
from kcoord.pipeline.transforms.ownership import memberships
from kcoord.pipeline.transforms.period import time_of


def report_facts(
    spark: SparkSession,
    tables: TablesFolder,
    wanted: Wanted,
    say: Say,
    *,
    place: str,
    made_at: datetime,
    limits: Limits,
) -> ReportFacts:
    """What the report tells of the tables. Those that are made of others are written beside them, as `derive` does."""
    since, until = time_of(wanted.since_ms), time_of(wanted.until_ms)

    def chosen(frame: DataFrame) -> DataFrame:
        return within(of_groups(frame, wanted.groups), since, until)

    made = {table: derive(spark, tables, table, wanted, say) for table in (OWNERSHIP, REBALANCES)}
    # Who commits no more was left behind by what it committed before: the time chooses afterwards, too.
    behind = derive(spark, tables, LAG, wanted, say)
    decoded = {table: tables.read(spark, table) for table in (COMMITS, GENERATIONS, GROUP_EVENTS)}
    # A member that was there before the time that is asked for was there in it: the time chooses afterwards.
    stays = memberships(*(of_groups(decoded[table], wanted.groups) for table in (GENERATIONS, GROUP_EVENTS)))
    members = within(stays, since, until).persist(StorageLevel.MEMORY_AND_DISK)
    say("report")
    try:
        return gather(
            Frames(
                **{table: chosen(frame) for table, frame in (made | decoded).items()},
                lag=behind,
                log_ends=tables.read(spark, LOG_ENDS),
                rejected=within(tables.read(spark, REJECTED), since, until),
                scanned=tables.read(spark, SCANNED),
                memberships=members,
            ),
            Asked(
                place=place,
                made_at=made_at,
                since=since,
                until=until,
                hours=hours_read(spark, tables, wanted),
            ),
            limits,
        )
    finally:
        members.unpersist()
