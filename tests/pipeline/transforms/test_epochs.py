"""How long epochs took and why they began, in the newer kinds of groups: consumer (KIP-848), share and streams."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.rebalances.rebalances import rebalances
from tests.support.pipeline.histories import (
    DAY,
    GROUP_EPOCH,
    PATTERN,
    SHARE_CURRENT,
    SHARE_EPOCH,
    SHARER,
    TOPIC_ID,
    Log,
    MadeTable,
    at,
    member,
)

LOG = Log()
WHEN = "generation from_generation started_at ended_at duration_ms"
WHY = "generation causes joined left members"


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[MadeTable]:
    frames = LOG.frames(spark)
    names = topic_names(frames["commits"], frames["group_events"])
    made = rebalances(frames["generations"], frames["group_events"], frames["commits"], names).cache()
    yield MadeTable(made)
    made.unpersist()


life = LOG.group("life")
life.joins(1, "a")
life.epoch(1, 1)
life.owns(1, "a", 1, [0, 1])
life.commit(2, 10)
life.joins(3, "b")
life.epoch(3, 2)
life.owns(3, "b", 2, [], state=2)
life.owns(4, "a", 1, [0], giving_back=[1], state=1)
life.owns(5, "a", 2, [0])
life.owns(6, "b", 2, [1])
life.commit(7, 11)
life.leaves(8, "a")
life.epoch(8, 3)
life.owns(9, "b", 3, [0, 1])
life.leaves(10, "b")
life.epoch(10, 4)
LOG.again("life")


def test_an_epoch_lasts_until_all_members_are_there_and_wait_for_nothing(table: MadeTable) -> None:
    table.check(
        "life",
        WHEN,
        (1, None, at(1), at(1), 0),
        (2, 1, at(3), at(6), 3000),
        (3, 2, at(8), at(9), 1000),
        (4, 3, at(10), at(10), 0),
    )


def test_what_is_written_before_an_epoch_is_its_cause(table: MadeTable) -> None:
    table.check(
        "life",
        f"{WHY} moved_partitions pause_ms",
        (1, ["joined"], ["a"], [], 1, 0, None),
        (2, ["joined"], ["b"], [], 2, 1, 5000),
        (3, ["left"], [], ["a"], 1, 1, None),
        (4, ["left"], [], ["b"], 0, 0, None),
    )


overtaken = LOG.group("overtaken")
overtaken.joins(1, "a")
overtaken.epoch(1, 1)
overtaken.owns(1, "a", 1, [0])
overtaken.joins(2, "b")
overtaken.epoch(2, 2)
overtaken.joins(3, "c")
overtaken.epoch(3, 3)
overtaken.owns(4, "a", 3, [0])


def test_an_epoch_ends_when_the_next_one_begins_and_the_last_may_not_have_ended(table: MadeTable) -> None:
    table.check(
        "overtaken",
        f"{WHEN} date",
        (1, None, at(1), at(1), 0, DAY),
        (2, 1, at(2), at(3), 1000, DAY),
        (3, 2, at(3), None, None, DAY),
    )


subscribes = LOG.group("subscribes")
subscribes.joins(1, "a", topics=["x", "y"])
subscribes.epoch(1, 1)
subscribes.joins(2, "a", topics=["y", "x"], subscribedTopicRegex="")
subscribes.epoch(2, 2)
subscribes.joins(3, "a", topics=["y"])
subscribes.epoch(3, 3)
subscribes.event(4, PATTERN, None, {"topics": ["x"], "version": 1})
subscribes.epoch(4, 4)
subscribes.epoch(5, 5, metadata_hash=2)


def test_subscriptions_patterns_and_topics_are_causes(table: MadeTable) -> None:
    table.check(
        "subscribes",
        "generation causes",
        (1, ["joined"]),
        (2, ["unknown"]),
        (3, ["subscription changed"]),
        (4, ["subscription changed"]),
        (5, ["partitions changed"]),
    )


static = LOG.group("static")
static.joins(1, "i-1", instanceId="i", clientId="c")
static.joins(1, "x-1", clientId="x")
static.epoch(1, 1)
static.owns(1, "i-1", 1, [0])
static.owns(1, "x-1", 1, [1])
static.owns(2, "i-1", -2, [0])
static.leaves(3, "x-1")
static.epoch(3, 2)
static.leaves(4, "i-1")
static.joins(4, "i-2", instanceId="i", clientId="c")
static.joins(4, "x-2", clientId="x")
static.epoch(4, 3)
static.owns(5, "i-2", 3, [0])
static.owns(5, "x-2", 3, [1])


def test_a_static_member_that_is_away_is_not_waited_for_and_returns(table: MadeTable) -> None:
    table.check(
        "static",
        f"{WHEN} members causes moved_partitions",
        (1, None, at(1), at(1), 0, 2, ["joined"], 0),
        (2, 1, at(3), at(3), 0, 0, ["left"], 0),
        (3, 2, at(4), at(5), 1000, 2, ["joined", "static returned"], 1),
    )


made_again = LOG.group("made again")
made_again.joins(1, "a")
made_again.epoch(1, 5)
made_again.owns(1, "a", 5, [0])
made_again.leaves(2, "a")
made_again.epoch(2, 6)
made_again.event(3, GROUP_EPOCH, None, None)
made_again.joins(4, "a")
made_again.epoch(4, 1)
made_again.owns(4, "a", 1, [0])


def test_a_deletion_is_no_rebalance_and_what_comes_after_it_has_nothing_before(table: MadeTable) -> None:
    table.check(
        "made again",
        "generation from_generation causes moved_partitions",
        (5, None, ["joined"], 0),
        (6, 5, ["left"], 0),
        (1, None, ["joined"], 0),
    )


upgraded = LOG.group("upgraded")
upgraded.generation(1, 1, [member("a", [0])])
upgraded.deleted(2)
upgraded.joins(2, "a")
upgraded.epoch(2, 1)
upgraded.owns(2, "a", 1, [0])
upgraded.joins(2, "b")
upgraded.epoch(2, 2)
upgraded.owns(3, "a", 2, [0])
upgraded.owns(3, "b", 2, [])


def test_a_change_of_the_groups_kind_is_no_rebalance(table: MadeTable) -> None:
    table.check(
        "upgraded",
        f"generation joined {WHEN.removeprefix('generation ')}",
        (1, ["a"], None, at(1), at(1), 0),
        (2, ["b"], 1, at(2), at(3), 1000),
    )


shares = LOG.group("shares")
for epoch, name in enumerate("ab", start=1):
    shares.event(epoch, SHARER, name, {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["orders"]})
    shares.event(epoch, SHARE_EPOCH, None, {"epoch": epoch})
    for each in "ab"[:epoch]:
        given = [{"topicId": TOPIC_ID, "partitions": [0]}]
        shares.event(epoch, SHARE_CURRENT, each, {"memberEpoch": epoch, "state": 0, "assignedPartitions": given})


def test_nothing_moves_in_a_share_group(table: MadeTable) -> None:
    table.check(
        "shares",
        "generation causes members duration_ms moved_partitions",
        (1, ["joined"], 1, 0, None),
        (2, ["joined"], 2, 0, None),
    )


streams = LOG.group("streams")
streams.event(1, 19, "a", {"clientId": "c", "clientHost": "/h", "topologyEpoch": 1})
streams.event(1, 17, None, {"epoch": 2, "metadataHash": 1})
streams.event(1, 22, "a", {"memberEpoch": 1, "state": 1, "activeTasks": []})
streams.event(2, 22, "a", {"memberEpoch": 2, "state": 2, "activeTasks": []})
streams.event(4, 22, "a", {"memberEpoch": 2, "state": 1, "activeTasks": [{"subtopologyId": "0", "partitions": [0]}]})
streams.event(5, 19, "a", {"clientId": "c", "clientHost": "/h", "topologyEpoch": 2})
streams.event(5, 17, None, {"epoch": 3, "metadataHash": 1})


def test_a_streams_group_has_epochs_too(table: MadeTable) -> None:
    table.check(
        "streams",
        "generation causes duration_ms moved_partitions",
        (2, ["joined"], 3000, None),
        (3, ["subscription changed"], None, None),
    )
