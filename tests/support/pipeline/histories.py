"""Builds histories of groups as rows of the decoded tables, record by record.

A test module writes all its histories into one log, each with a separate group, and has the table computed once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, LOG_ENDS, spark_schema

Row = dict[str, Any]
START: Final = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY: Final = START.date()
TOPIC: Final = "orders"
TOPIC_ID: Final = "3W91GP9mSk-9w_4KmNI5RA"
GROUP_EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = 3, 5, 6, 7, 8, 16
SHARE_EPOCH, SHARER, SHARE_CURRENT = 11, 10, 14


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Makes Spark interpret plans: for small frames compiling them takes longer than it saves."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else START + timedelta(seconds=seconds)


@dataclass(slots=True)
class Log:
    """A partition of `__consumer_offsets`, and the logs of other topics."""

    rows: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in (COMMITS, GENERATIONS, GROUP_EVENTS, LOG_ENDS)}
    )
    _offset: int = 0

    def group(self, name: str) -> "History":
        return History(log=self, name=name)

    def append(self, table: str, row: Row, seconds: float | None) -> None:
        time = at(seconds)
        source = {
            "source_partition": 7,
            "source_segment": 0,
            "source_offset": self._offset,
            "appended_at": time,
            "date": None if time is None else time.date(),
        }
        self._offset += 1
        self.rows[table].append(row | source)

    def again(self, group: str) -> None:
        """Appends all of the group's records a second time, as if from another copy of the segment."""
        for rows in self.rows.values():
            rows += [row | {"source_segment": 5} for row in rows if row.get("group") == group]

    def batch(self, topic: str, base: int, end: int, seconds: float | None, partition: int = 0) -> None:
        time = at(seconds)
        row = {"topic": topic, "partition": partition, "base_offset": base, "end_offset": end, "last_at": time}
        self.rows[LOG_ENDS].append(row | {"date": None if time is None else time.date()})

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Returns the tables with the newest rows first, since nothing may depend on the order of rows."""
        return {name: frame_of(spark, name, rows[::-1]) for name, rows in self.rows.items()}


def frame_of(spark: SparkSession, table: str, rows: Sequence[Row]) -> DataFrame:
    schema = spark_schema(table)
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


@dataclass(slots=True, kw_only=True)
class History:
    """One group's records."""

    log: Log
    name: str

    def generation(
        self,
        seconds: float | None,
        generation: int,
        members: Sequence[Row],
        *,
        join_ended: float | None = None,
        protocol_type: str = "consumer",
    ) -> None:
        """Appends a plan, or the empty group if there are no members."""
        row = {
            "group": self.name,
            "generation": generation,
            "state": "Stable" if members else "Empty",
            "protocol_type": protocol_type,
            "state_since": at(seconds if join_ended is None else join_ended),
            "members": list(members),
            "tombstone": False,
            "version": 3,
        }
        self.log.append(GENERATIONS, row, seconds)

    def deleted(self, seconds: float) -> None:
        self.log.append(GENERATIONS, {"group": self.name, "state": "Dead", "tombstone": True}, seconds)

    def commit(
        self, seconds: float | None, offset: int | None, partition: int = 0, topic: str = TOPIC, **others: Any
    ) -> None:
        row = {
            "group": self.name,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "committed_at": at(seconds),
            "tombstone": offset is None,
            "transactional": False,
        }
        self.log.append(COMMITS, row | others, seconds)

    def event(self, seconds: float | None, number: int, member_id: str | None, payload: Row | None) -> None:
        row = {
            "group": self.name,
            "member_id": member_id,
            "record_type": number,
            "record_name": RECORD_TYPES[number].name,
            "key": json.dumps({"groupId": self.name} | ({"memberId": member_id} if member_id else {})),
            "payload": None if payload is None else json.dumps(payload),
            "tombstone": payload is None,
        }
        self.log.append(GROUP_EVENTS, row, seconds)

    def epoch(self, seconds: float, epoch: int, metadata_hash: int = 1) -> None:
        self.event(seconds, GROUP_EPOCH, None, {"epoch": epoch, "metadataHash": metadata_hash})

    def joins(self, seconds: float, member_id: str, *, topics: Sequence[str] = (TOPIC,), **others: Any) -> None:
        """Appends the record of a member that joins, or that changes its subscription."""
        who = {"instanceId": None, "clientId": f"{member_id}'s", "clientHost": "/10.0.0.1"}
        self.event(seconds, MEMBER, member_id, who | {"subscribedTopicNames": list(topics)} | others)

    def owns(
        self,
        seconds: float | None,
        member_id: str,
        epoch: int,
        partitions: Sequence[int],
        *,
        giving_back: Sequence[int] = (),
        state: int = 0,
        topic_id: str = TOPIC_ID,
    ) -> None:
        def of(numbers: Sequence[int]) -> list[Row]:
            return [{"topicId": topic_id, "partitions": list(numbers)}] if numbers else []

        payload = {
            "memberEpoch": epoch,
            "state": state,
            "assignedPartitions": of(partitions),
            "partitionsPendingRevocation": of(giving_back),
        }
        self.event(seconds, CURRENT, member_id, payload)

    def targets(
        self, seconds: float, member_id: str, partitions: Sequence[int] | None, *, topic_id: str = TOPIC_ID
    ) -> None:
        """Appends what a coordinator plans for a member, or that it plans nothing any more."""
        given = [{"topicId": topic_id, "partitions": list(partitions)}] if partitions else []
        self.event(seconds, TARGET, member_id, None if partitions is None else {"topicPartitions": given})

    def planned(self, seconds: float, epoch: int) -> None:
        """Appends the record by which a coordinator ends a plan."""
        self.event(seconds, TARGET_EPOCH, None, {"assignmentEpoch": epoch})

    def leaves(self, seconds: float, member_id: str) -> None:
        self.event(seconds, CURRENT, member_id, None)
        self.event(seconds, MEMBER, member_id, None)


def member(
    member_id: str,
    partitions: Sequence[int] = (),
    *,
    topic: str = TOPIC,
    topics: Sequence[str] = (TOPIC,),
    instance_id: str | None = None,
    client_id: str | None = None,
    host: str = "/10.0.0.1",
) -> Row:
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": client_id or f"{member_id}'s",
        "client_host": host,
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 60_000,
        "subscription": {"version": 1, "topics": list(topics), "owned": [], "generation": -1},
        "assignment": {"version": 1, "assigned": [{"topic": topic, "partitions": list(partitions)}]},
    }


def stranger(member_id: str) -> Row:
    """Returns a member with a protocol that the decoder does not know."""
    return member(member_id) | {"subscription": None, "assignment": None, "assignment_bytes": b"?"}


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table that was computed from all histories; tests check it group by group."""

    frame: DataFrame

    def check(self, group: str, columns: str, *rows: Sequence[Any]) -> None:
        """Checks that these are the group's rows, in any order."""
        names = columns.split()
        found = self.frame.where(self.frame["group"] == group).select(*names)
        expected = found.sparkSession.createDataFrame([tuple(row) for row in rows], found.schema)
        assertDataFrameEqual(found, expected)


def types_of(frame: DataFrame) -> Mapping[str, str]:
    return {each.name: each.dataType.simpleString() for each in frame.schema}


def types_of_table(table: str) -> Mapping[str, str]:
    return {each.name: each.dataType.simpleString() for each in spark_schema(table)}
