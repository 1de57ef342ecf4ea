"""Follows a cluster into tables, in a process that tests can kill, and prints a line of JSON for each micro-batch."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from kcoord.admin.connecting.connection import ConnectionOptions, resolve_connection
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.follow_folder import locked
from kcoord.pipeline.following import FollowSchedule, WriteTotals, follow
from kcoord.pipeline.session import SparkConfig, open_session
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.tables import TablesFolder
from kcoord.testing.jvm.java import QUICK_FLAGS

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",  # tests read it
    "spark.driver.extraJavaOptions": " ".join(QUICK_FLAGS[2:]),  # it runs for a few seconds only
}


def main(properties: str, out: str, events: str) -> None:
    config = SparkConfig(
        master="local[1]",
        settings=SETTINGS | {"spark.eventLog.dir": Path(events).as_uri(), "spark.local.dir": events},
        shows_spark_log=True,
    )
    connection = resolve_connection(ConnectionOptions(command_config=Path(properties)), os.environ)
    tables = TablesFolder(out)
    with locked(tables), open_session(config) as spark:
        written = follow(
            spark,
            connection,
            tables,
            wanted=RowSelection(),
            choice=TopicSelection(),
            schedule=FollowSchedule(interval=0.1),
            on_batch=lambda brought: emit("batch", brought),
            warn=lambda unread: print(unread, file=sys.stderr, flush=True),
        )
    emit("summary", written)


def emit(what: str, written: WriteTotals) -> None:
    facts: dict[str, Any] = {
        "what": what,
        "records": written.records,
        "bytes": written.size,
        "rows": dict(written.rows),
        "balanced": written.summary.is_balanced,
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
