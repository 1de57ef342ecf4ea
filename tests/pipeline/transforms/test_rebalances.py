"""How long rebalances took, why they happened, and what they changed, in classic groups."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.schemas import REBALANCES
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.rebalances.rebalances import rebalances
from tests.support.pipeline.histories import DAY, Log, MadeTable, at, member, stranger, types_of, types_of_table

LOG = Log()
WHEN = "generation from_generation started_at ended_at duration_ms"
WHY = "generation causes joined left members"


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[MadeTable]:
    frames = LOG.frames(spark)
    names = topic_names(frames["commits"], frames["group_events"])
    made = rebalances(frames["generations"], frames["group_events"], frames["commits"], names).cache()
    assert types_of(made) == types_of_table(REBALANCES)
    yield MadeTable(made)
    made.unpersist()


new = LOG.group("new")
new.generation(1, 0, [])
new.generation(4.5, 1, [member("a", [0, 1])], join_ended=4)
new.generation(10, 2, [member("a", [0]), member("b", [1])], join_ended=9)
new.generation(20, 3, [member("b", [0, 1])], join_ended=19.5)
new.generation(30, 4, [])
new.deleted(40)
LOG.again("new")


def test_the_first_generation_begins_when_the_group_is_written_and_others_when_all_have_joined(
    table: MadeTable,
) -> None:
    table.check(
        "new",
        f"{WHEN} date",
        (1, 0, at(1), at(4.5), 3500, DAY),
        (2, 1, at(9), at(10), 1000, DAY),
        (3, 2, at(19.5), at(20), 500, DAY),
        (4, 3, at(30), at(30), 0, DAY),
    )


def test_members_that_come_and_go_are_causes(table: MadeTable) -> None:
    table.check(
        "new",
        f"{WHY} moved_partitions",
        (1, ["joined"], ["a"], [], 1, 0),
        (2, ["joined"], ["b"], [], 2, 1),
        (3, ["left"], [], ["a"], 1, 1),
        (4, ["left"], [], ["b"], 0, 0),
    )


long_ago = LOG.group("long ago")
long_ago.generation(1, 0, [])
long_ago.generation(500, 1, [member("a")], join_ended=499)


def test_a_group_that_was_made_longer_ago_than_members_wait_did_not_begin_to_join_then(table: MadeTable) -> None:
    table.check("long ago", WHEN, (1, 0, at(499), at(500), 1000))


old_broker = LOG.group("old broker")
old_broker.generation(1, 1, [member("a")])
old_broker.log.rows["generations"][-1]["state_since"] = None


def test_records_without_a_time_of_their_state_do_not_tell_when_it_began(table: MadeTable) -> None:
    table.check("old broker", f"{WHEN} causes", (1, None, None, at(1), None, ["joined"]))


cut = LOG.group("cut")
cut.generation(1, 57, [member("a", [0])])
cut.generation(2, 58, [member("a", [0]), member("b")])
emptied = LOG.group("cut when empty")
emptied.generation(1, 57, [])


def test_what_was_before_the_first_record_of_a_log_is_not_known(table: MadeTable) -> None:
    table.check(
        "cut",
        f"{WHY} moved_partitions from_generation",
        (57, ["unknown"], None, None, 1, None, None),
        (58, ["joined"], ["b"], [], 2, 0, 57),
    )
    table.check("cut when empty", f"{WHY} moved_partitions", (57, ["left"], None, None, 0, None))


again = LOG.group("again")
again.generation(1, 9, [member("a", [0])])
again.deleted(2)
again.generation(3, 1, [member("b", [0])])


def test_a_group_that_is_made_again_has_nothing_before_it(table: MadeTable) -> None:
    table.check(
        "again",
        f"{WHY} moved_partitions from_generation",
        (9, ["unknown"], None, None, 1, None, None),
        (1, ["joined"], ["b"], [], 1, 0, None),
    )


restart = LOG.group("restart")
restart.generation(1, 1, [member("a-1", [0], client_id="a"), member("b-1", [1], client_id="b")])
restart.generation(2, 2, [member("a-2", [0], client_id="a"), member("b-1", [1], client_id="b")])
restart.generation(3, 3, [member("a-3", client_id="a"), member("a-4", client_id="a"), member("c-1", client_id="c")])
restart.generation(4, 4, [member("a-5", client_id="a", host="/10.0.0.2")])


def test_one_that_went_and_one_that_came_from_the_same_host_with_the_same_client_id_is_replaced(
    table: MadeTable,
) -> None:
    table.check(
        "restart",
        WHY,
        (1, ["joined"], ["a-1", "b-1"], [], 2),
        (2, ["replaced"], ["a-2"], ["a-1"], 2),
        (3, ["joined", "left", "replaced"], ["a-3", "a-4", "c-1"], ["a-2", "b-1"], 3),
        (4, ["joined", "left"], ["a-5"], ["a-3", "a-4", "c-1"], 1),
    )


static = LOG.group("static")
static.generation(1, 1, [member("i-1", [0], instance_id="i"), member("j-1", [1], instance_id="j")])
static.generation(5, 1, [member("i-2", [0], instance_id="i"), member("j-1", [1], instance_id="j")], join_ended=1)
static.generation(9, 2, [member("i-3", [1], instance_id="i"), member("j-1", [0], instance_id="j")])


def test_a_static_member_that_comes_back_makes_no_generation_and_is_the_same_owner(table: MadeTable) -> None:
    table.check(
        "static",
        f"{WHEN} causes joined left moved_partitions",
        (1, None, at(1), at(1), 0, ["joined"], ["i-1", "j-1"], [], 0),
        (1, 1, at(5), at(5), 0, ["static returned"], ["i-2"], ["i-1"], 0),
        (2, 1, at(9), at(9), 0, ["static returned"], ["i-3"], ["i-2"], 2),
    )


subscribed = LOG.group("subscribed")
subscribed.generation(1, 1, [member("a", topics=["x", "y"]), member("b")])
subscribed.generation(2, 2, [member("a", topics=["y", "x"]), member("b", topics=["orders", "z"])])
subscribed.generation(3, 3, [member("a", topics=["x", "y"]), member("b", topics=["z"]), member("c", topics=["q"])])
subscribed.generation(4, 4, [member("a", topics=["x", "y"]), member("b", topics=["z"]), member("c", topics=["q"])])


def test_a_member_that_stays_and_subscribes_to_something_else_is_a_cause(table: MadeTable) -> None:
    table.check(
        "subscribed",
        "generation causes",
        (1, ["joined"]),
        (2, ["subscription changed"]),
        (3, ["joined", "subscription changed"]),
        (4, ["unknown"]),
    )


connect = LOG.group("connect")
connect.generation(1, 1, [stranger("a")], protocol_type="connect")
connect.generation(2, 2, [stranger("a")], protocol_type="connect")


def test_what_nobody_can_read_is_no_change_of_a_subscription(table: MadeTable) -> None:
    table.check("connect", "generation causes moved_partitions", (1, ["joined"], 0), (2, ["unknown"], 0))


cooperative = LOG.group("cooperative")
cooperative.generation(1, 1, [member("a", [0, 1])])
cooperative.generation(2, 2, [member("a", [0]), member("b")])
cooperative.generation(3, 3, [member("a", [0]), member("b", [1])])
cooperative.generation(4, 4, [member("a", [0]), member("b", [1, 2])])
cooperative.generation(5, 5, [member("a", [0]), member("b", [1])])


def test_a_partition_that_is_taken_in_one_generation_and_given_in_the_next_moves_once(table: MadeTable) -> None:
    table.check(
        "cooperative",
        "generation causes moved_partitions",
        (1, ["joined"], 0),
        (2, ["joined"], 0),
        (3, ["handed over"], 1),
        (4, ["partitions changed"], 0),
        (5, ["partitions changed"], 0),
    )


skipped = LOG.group("skipped")
skipped.generation(1, 1, [member("a")])
skipped.generation(2, 4, [member("a"), member("b")])
skipped.generation(3, 4, [member("a"), member("b")])


def test_generations_without_a_plan_are_left_out_and_a_record_that_says_nothing_new_is_no_rebalance(
    table: MadeTable,
) -> None:
    table.check("skipped", "generation from_generation", (1, None), (4, 1))


paused = LOG.group("paused")
paused.commit(1, 5)
paused.generation(2, 1, [member("a", [0])])
paused.commit(3, 6)
paused.commit(4, 7, partition=1)
paused.generation(6, 2, [member("a", [0]), member("b")])
paused.generation(7, 3, [member("a", [0]), member("b")])
paused.commit(8, None)
paused.commit(9, 8)
paused.generation(10, 4, [member("a", [0])])
paused.generation(11, 5, [])
paused.generation(90, 6, [member("c", [0])])
paused.commit(99, 9)
paused.generation(100, 7, [member("d", [0])])
LOG.again("paused")


def test_a_pause_is_from_the_last_commit_to_the_next_and_counts_once(table: MadeTable) -> None:
    table.check(
        "paused",
        "generation pause_ms",
        (1, None),  # the group begins
        (2, 5000),
        (3, None),  # in the same pause
        (4, None),  # and then the group is empty
        (5, None),
        (6, None),
        (7, None),  # nothing was committed again
    )


timeless = LOG.group("timeless")
timeless.commit(None, 1)
timeless.generation(None, 1, [member("a", [0])])
timeless.generation(None, 2, [member("b", [0])])


def test_what_has_no_time_has_an_order(table: MadeTable) -> None:
    table.check(
        "timeless",
        f"{WHEN} causes moved_partitions date",
        (1, None, None, None, None, ["joined"], 0, None),
        (2, 1, None, None, None, ["joined", "left"], 1, None),
    )
