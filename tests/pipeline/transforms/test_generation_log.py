"""Generations and records of groups in the order of the log, the latest of them, and what was committed meanwhile."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.derive_job import rows_of
from kcoord.pipeline.transforms.event_types import MEMBERS_AND_TARGETS
from kcoord.pipeline.transforms.generation_log import (
    event_log,
    generation_log,
    last_commits,
    latest_events,
    latest_generations,
)
from tests.support.pipeline.histories import START, TOPIC, Log, member, stranger

LOG = Log()
START_MS = round(START.timestamp() * 1000)

busy = LOG.group("busy")
busy.commit(0, 1)  # before the first generation that is in the log
busy.generation(1, 7, [member("a", [0, 1], instance_id="i")])
busy.commit(2, 1)
busy.commit(4, 2)
busy.commit(3, None)
busy.commit(3, 5, partition=1)
busy.commit(None, 6, partition=1)
busy.generation(5, 8, [stranger("w")])
busy.commit(6, 9)
busy.generation(7, 9, [])
LOG.again("busy")

shared = LOG.group("shared")
shared.generation(1, 1, [member("a", [0, 1]), member("b", [2, 3]), member("c", [4]), member("idle")])
shared.commit(3, 1, partition=1)
shared.commit(2, 1, partition=0)
shared.commit(None, 1, partition=4)
shared.generation(5, 2, [member("a", [0]), member("b", [1, 2])])
shared.commit(6, 2, partition=1)
shared.commit(8, 2, partition=4)  # nobody has it
LOG.again("shared")

modern = LOG.group("modern")
modern.joins(1, "m")
modern.epoch(1, 1)
modern.owns(1, "m", 1, [0])
modern.joins(2, "m", topics=("other",))
modern.epoch(2, 2)
modern.event(3, 3, None, None)


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return LOG.frames(spark)


def test_each_record_is_there_once_and_in_the_order_of_the_log(frames: dict[str, DataFrame]) -> None:
    rows = [row for row in rows_of(generation_log(frames["generations"])) if row["group"] == "busy"]
    assert [(row["generation"], row["appended_at"] - START_MS) for row in rows] == [(7, 1000), (8, 5000), (9, 7000)]
    [known], [unknown], nobody = (row["members"] for row in rows)
    assert (known["member_id"], known["instance_id"], known["session_timeout_ms"]) == ("a", "i", 45_000)
    assert (known["is_readable"], known["topics"], known["claims"]) == (True, [TOPIC], False)
    assert known["assigned"] == [{"topic": TOPIC, "partitions": [0, 1]}]
    assert (unknown["is_readable"], unknown["assigned"]) == (False, None)
    assert nobody == []


def last(frames: dict[str, DataFrame], group: str) -> dict[tuple[int, str], int]:
    """Returns the time of the last commit by generation and member."""
    numbers = {row["source_offset"]: row["generation"] for row in LOG.rows["generations"]}
    return {
        (numbers[row["source_offset"]], row["member_id"]): row["last_at"] - START_MS
        for row in rows_of(last_commits(frames["generations"], frames["commits"]))
        if row["group"] == group
    }


def test_the_last_commit_belongs_to_the_generation_that_lasted(frames: dict[str, DataFrame]) -> None:
    assert last(frames, "busy") == {(7, "a"): 4000}


def test_the_last_commit_belongs_to_the_member_that_had_the_partition(frames: dict[str, DataFrame]) -> None:
    assert last(frames, "shared") == {(1, "a"): 3000, (2, "b"): 6000}


def test_the_latest_generation_is_the_last_one_that_had_members(frames: dict[str, DataFrame]) -> None:
    latest = rows_of(latest_generations(frames["generations"]))
    assert [(row["group"], row["generation"]) for row in latest] == [("busy", 8), ("shared", 2)]


def test_the_latest_events_are_those_that_compaction_would_leave(frames: dict[str, DataFrame]) -> None:
    every = rows_of(event_log(frames["group_events"], MEMBERS_AND_TARGETS))
    latest = rows_of(latest_events(frames["group_events"], MEMBERS_AND_TARGETS))
    assert [row["record_type"] for row in every] == [5, 3, 5, 3, 3]
    assert latest == [every[2], every[4]]
