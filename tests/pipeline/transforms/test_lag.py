"""Commits compared with the end of the log at that time."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.schemas import LAG
from kcoord.pipeline.transforms.lag.lag import lag
from tests.support.pipeline.histories import DAY, Log, MadeTable, at, types_of, types_of_table

LOG = Log()
BEHIND = "at committed log_end lag lag_ms next_at"


@pytest.fixture(scope="module")
def behind(spark: SparkSession) -> Iterator[MadeTable]:
    frames = LOG.frames(spark)
    made = lag(frames["commits"], frames["log_ends"]).cache()
    assert types_of(made) == types_of_table(LAG)
    yield MadeTable(made)
    made.unpersist()


for base, seconds in ((0, 10), (100, 20), (200, 30)):
    LOG.batch("steady", base, base + 100, seconds)
    LOG.batch("steady", base, base + 100, seconds)  # read twice
LOG.batch("steady", 0, 5, 1, partition=1)
reader = LOG.group("reader")
reader.commit(10, 100, topic="steady")
reader.commit(25, 100, topic="steady")
reader.commit(30, 150, topic="steady")
reader.commit(40, 300, topic="steady")
reader.commit(50, None, topic="steady")
LOG.again("reader")


def test_a_commit_has_the_end_that_the_log_had_and_the_age_of_the_first_record_that_was_not_read(
    behind: MadeTable,
) -> None:
    behind.check(
        "reader",
        f"{BEHIND} date",
        (at(10), 100, 100, 0, 0, at(20), DAY),
        (at(25), 100, 200, 100, 5000, at(20), DAY),
        (at(30), 150, 300, 150, 10_000, at(20), DAY),
        (at(40), 300, 300, 0, 0, None, DAY),
        (at(50), None, 300, None, None, None, DAY),
    )


same = LOG.group("same offset, other group")
same.commit(25, 100, topic="steady")
same.commit(25, 2, topic="steady", partition=1)


def test_groups_and_partitions_do_not_mix(behind: MadeTable) -> None:
    behind.check(
        "same offset, other group",
        f"partition {BEHIND}",
        (0, at(25), 100, 200, 100, 5000, at(20)),
        (1, at(25), 2, 5, 3, 24_000, at(1)),
    )


early = LOG.group("early")
early.commit(5, 50, topic="steady")
early.commit(5, 50, topic="unseen")


def test_what_is_not_known_of_a_log_is_null(behind: MadeTable) -> None:
    behind.check(
        "early",
        f"topic {BEHIND}",
        ("steady", at(5), 50, None, None, None, at(10)),
        ("unseen", at(5), 50, None, None, None, None),
    )


ahead = LOG.group("ahead")
ahead.commit(15, 180, topic="steady")


def test_a_commit_ahead_of_what_the_times_tell_has_no_lag(behind: MadeTable) -> None:
    behind.check("ahead", BEHIND, (at(15), 180, 100, 0, 0, at(20)))


LOG.batch("holes", 50, 60, 10)
LOG.batch("holes", 80, 90, 20)
holes = LOG.group("holes")
holes.commit(30, 7, topic="holes")
holes.commit(30, 65, topic="holes")


def test_a_record_that_is_not_there_any_more_is_not_waited_for(behind: MadeTable) -> None:
    behind.check("holes", BEHIND, (at(30), 7, 90, 83, 20_000, at(10)), (at(30), 65, 90, 25, 10_000, at(20)))


LOG.batch("backfilled", 0, 10, 100)
LOG.batch("backfilled", 10, 20, 1)  # records with old timestamps
LOG.batch("backfilled", 20, 30, None)
LOG.batch("backfilled", 30, 40, 200)
backfilled = LOG.group("backfilled")
backfilled.commit(50, 0, topic="backfilled")
backfilled.commit(150, 10, topic="backfilled")
backfilled.commit(150, 20, topic="backfilled")


def test_a_batch_is_written_after_those_before_it_whatever_its_own_time_is(behind: MadeTable) -> None:
    behind.check(
        "backfilled",
        BEHIND,
        (at(50), 0, None, None, None, at(100)),
        (at(150), 10, 30, 20, 149_000, at(1)),
        (at(150), 20, 30, 10, None, None),
    )


timeless = LOG.group("timeless")
timeless.commit(25, 100, topic="steady", committed_at=None)
timeless.commit(None, 100, topic="steady")


def test_a_commit_without_a_time_has_that_of_its_record_or_is_left_out(behind: MadeTable) -> None:
    behind.check("timeless", "at lag", (at(25), 100))


twice = LOG.group("twice")
twice.commit(25, 100, topic="steady")
twice.commit(25, 100, topic="steady")


def test_two_commits_of_the_same_moment_are_two_rows(behind: MadeTable) -> None:
    behind.check("twice", "at lag", (at(25), 100), (at(25), 100))


LOG.batch("anew", 0, 1000, 10)
LOG.batch("anew", 0, 10, 200)
anew = LOG.group("anew")
anew.commit(100, 400, topic="anew")
anew.commit(250, 10, topic="anew")


def test_a_topic_that_was_made_anew_ends_where_its_newest_batch_does(behind: MadeTable) -> None:
    behind.check("anew", "at committed log_end lag", (at(100), 400, 1000, 600), (at(250), 10, 10, 0))


expired = LOG.group("expired")
expired.commit(25, 100, topic="steady")
expired.commit(35, None, topic="steady", committed_at=None)


def test_a_tombstone_has_the_time_of_its_record(behind: MadeTable) -> None:
    behind.check("expired", "at committed lag", (at(25), 100, 100), (at(35), None, None))
