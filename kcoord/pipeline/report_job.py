"""The job behind `kcoord pipeline report`: it collects the facts of a report from the tables."""

from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.decode_job import OnStep
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.derive_job import derive, hours_read
from kcoord.pipeline.report.facts import ReportRequest, collect_facts
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
from kcoord.pipeline.transforms.filters import filter_groups, filter_time
from kcoord.pipeline.transforms.ownership import memberships
from kcoord.pipeline.transforms.period import time_of


def report_facts(
    spark: SparkSession,
    tables: TablesFolder,
    wanted: RowSelection,
    on_step: OnStep,
    *,
    source_name: str,
    made_at: datetime,
    limits: Limits,
) -> ReportFacts:
    """Collects everything that `kcoord pipeline report` shows from the tables. Derived tables are written next to the
    decoded ones, as `derive` does. `limits` bound the number of rows."""
    since, until = time_of(wanted.since_ms), time_of(wanted.until_ms)

    def chosen(frame: DataFrame) -> DataFrame:
        return filter_time(filter_groups(frame, wanted.groups), since, until)

    made = {table: derive(spark, tables, table, wanted, on_step) for table in (OWNERSHIP, REBALANCES)}
    # A group that stopped committing lags by its earlier commits, so lag is derived from all times and filtered later.
    behind = derive(spark, tables, LAG, wanted, on_step)
    decoded = {table: tables.read(spark, table) for table in (COMMITS, GENERATIONS, GROUP_EVENTS)}
    # A member may have joined before the requested time, so memberships are built from all times and filtered later.
    stays = memberships(*(filter_groups(decoded[table], wanted.groups) for table in (GENERATIONS, GROUP_EVENTS)))
    members = filter_time(stays, since, until).persist(StorageLevel.MEMORY_AND_DISK)
    on_step("report")
    try:
        return collect_facts(
            Frames(
                **{table: chosen(frame) for table, frame in (made | decoded).items()},
                lag=behind,
                log_ends=tables.read(spark, LOG_ENDS),
                rejected=filter_time(tables.read(spark, REJECTED), since, until),
                scanned=tables.read(spark, SCANNED),
                memberships=members,
            ),
            ReportRequest(
                source_name=source_name,
                made_at=made_at,
                since=since,
                until=until,
                hours=hours_read(spark, tables, wanted),
            ),
            limits,
        )
    finally:
        members.unpersist()
