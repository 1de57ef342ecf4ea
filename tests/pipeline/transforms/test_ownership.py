"""Who owned which partition from when to when."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.schemas import OWNERSHIP
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.ownership import memberships, ownership
from tests.support.pipeline.histories import (
    CURRENT,
    DAY,
    SHARE_CURRENT,
    SHARER,
    TOPIC_ID,
    Log,
    MadeTable,
    at,
    member,
    stranger,
    types_of,
    types_of_table,
)

LOG = Log()
OWNED = "member_id partition from_generation until_generation owned_from owned_until"
_known = LOG.group("names a topic")
_known.commit(0, 1, topic_id=TOPIC_ID)


@pytest.fixture(scope="module")
def owned(spark: SparkSession) -> Iterator[MadeTable]:
    frames = LOG.frames(spark)
    names = topic_names(frames["commits"], frames["group_events"])
    made = ownership(frames["generations"], frames["group_events"], names).cache()
    assert types_of(made) == types_of_table(OWNERSHIP)
    yield MadeTable(made)
    made.unpersist()


retained = LOG.group("keeps")
retained.generation(1, 1, [member("a", [0, 1])])
retained.generation(2, 2, [member("a", [0]), member("b", [1])])
retained.generation(3, 3, [member("a", [0]), member("b", [1])])
LOG.again("keeps")


def test_a_partition_that_is_kept_over_generations_is_one_row_also_if_records_are_read_twice(owned: MadeTable) -> None:
    owned.check(
        "keeps",
        OWNED,
        ("a", 0, 1, None, at(1), None),
        ("a", 1, 1, 2, at(1), at(2)),
        ("b", 1, 2, None, at(2), None),
    )
    owned.check(
        "keeps", "topic client_id client_host date", *[("orders", f"{name}'s", "/10.0.0.1", DAY) for name in "aab"]
    )


comes_back = LOG.group("comes back")
comes_back.generation(1, 1, [member("a", [0])])
comes_back.generation(2, 2, [member("a"), member("b", [0])])
comes_back.generation(3, 3, [member("a", [0])])


def test_a_partition_that_comes_back_to_its_owner_is_two_rows(owned: MadeTable) -> None:
    owned.check(
        "comes back",
        OWNED,
        ("a", 0, 1, 2, at(1), at(2)),
        ("b", 0, 2, 3, at(2), at(3)),
        ("a", 0, 3, None, at(3), None),
    )


dies = LOG.group("dies")
dies.generation(1, 5, [member("a", [0])])
dies.generation(2, 6, [])
dies.generation(3, 7, [member("b", [0])])
dies.deleted(4)
dies.generation(5, 1, [member("b", [0])])


def test_ownership_ends_when_the_group_is_empty_or_deleted_and_begins_anew_with_a_new_life(owned: MadeTable) -> None:
    owned.check(
        "dies",
        OWNED,
        ("a", 0, 5, 6, at(1), at(2)),
        ("b", 0, 7, None, at(3), at(4)),
        ("b", 0, 1, None, at(5), None),
    )


at_once = LOG.group("at once")
at_once.generation(1, 1, [member("a", [0])])
at_once.generation(1, 2, [member("b", [0])])
at_once.generation(1, 3, [member("c", [0])])


def test_records_of_the_same_moment_are_in_the_order_of_their_offsets(owned: MadeTable) -> None:
    owned.check(
        "at once",
        OWNED,
        ("a", 0, 1, 2, at(1), at(1)),
        ("b", 0, 2, 3, at(1), at(1)),
        ("c", 0, 3, None, at(1), None),
    )


timeless = LOG.group("timeless")
timeless.generation(None, 1, [member("a", [0])])
timeless.generation(None, 2, [member("b", [0])])


def test_a_time_that_is_not_known_is_null_and_the_order_is_kept(owned: MadeTable) -> None:
    owned.check("timeless", OWNED, ("a", 0, 1, 2, None, None), ("b", 0, 2, None, None, None))


static = LOG.group("static")
static.generation(1, 1, [member("i-1", [0], instance_id="i")])
static.generation(2, 1, [member("i-2", [0], instance_id="i")])


def test_a_static_member_that_comes_back_has_a_row_of_its_new_member_id(owned: MadeTable) -> None:
    owned.check(
        "static",
        f"{OWNED} instance_id",
        ("i-1", 0, 1, 1, at(1), at(2), "i"),
        ("i-2", 0, 1, None, at(2), None, "i"),
    )


strangers = LOG.group("strangers")
strangers.generation(1, 1, [stranger("a"), member("b", [])], protocol_type="connect")


def test_an_assignment_that_nobody_can_read_owns_nothing(owned: MadeTable) -> None:
    owned.check("strangers", OWNED)


modern = LOG.group("modern")
modern.joins(1, "a", instanceId="i")
modern.epoch(1, 1)
modern.owns(1, "a", 1, [0, 1])
modern.joins(2, "b")
modern.epoch(2, 2)
modern.owns(2, "b", 2, [], state=2)
modern.owns(3, "a", 1, [0], giving_back=[1], state=1)
modern.owns(4, "a", 2, [0])
modern.owns(5, "b", 2, [1])
modern.leaves(6, "a")
LOG.again("modern")


def test_a_member_of_a_consumer_group_owns_what_it_was_told_to_give_back_until_it_has(owned: MadeTable) -> None:
    owned.check(
        "modern",
        f"{OWNED} instance_id client_id",
        ("a", 0, 1, None, at(1), at(6), "i", "a's"),
        ("a", 1, 1, 2, at(1), at(4), "i", "a's"),
        ("b", 1, 2, None, at(5), None, None, "b's"),
    )


unnamed = LOG.group("unnamed")
unnamed.owns(1, "a", 1, [0], topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
unnamed.owns(2, "b", 1, [0])


def test_a_topic_whose_name_is_not_told_is_shown_by_its_id_and_a_member_that_is_not_has_no_client(
    owned: MadeTable,
) -> None:
    owned.check("unnamed", "topic member_id client_id", ("AAAAAAAAAAAAAAAAAAAAAQ", "a", None), ("orders", "b", None))


upgraded = LOG.group("upgraded")
upgraded.generation(1, 1, [member("a", [0])])
upgraded.deleted(2)
upgraded.joins(2, "a")
upgraded.epoch(2, 1)
upgraded.owns(2, "a", 1, [0])
upgraded.owns(3, "a", 2, [0])
upgraded.event(4, CURRENT, "a", None)


def test_a_member_that_stays_while_its_group_changes_its_kind_has_one_row(owned: MadeTable) -> None:
    owned.check("upgraded", OWNED, ("a", 0, 1, None, at(1), at(4)))


shared = LOG.group("shared")
for name in "ab":
    shared.event(1, SHARER, name, {"clientId": "c", "clientHost": "/h"})
    given = [{"topicId": TOPIC_ID, "partitions": [0]}]
    shared.event(1, SHARE_CURRENT, name, {"memberEpoch": 2, "state": 0, "assignedPartitions": given})


def test_a_partition_of_a_share_group_has_several_owners(owned: MadeTable) -> None:
    owned.check("shared", OWNED, *((name, 0, 2, None, at(1), None) for name in "ab"))


broken = LOG.group("broken")
broken.event(1, CURRENT, "a", {"memberEpoch": 1})
broken.event(2, CURRENT, "a", {"memberEpoch": 2, "assignedPartitions": None})


def test_a_payload_without_partitions_owns_nothing(owned: MadeTable) -> None:
    owned.check("broken", OWNED)


def test_memberships_are_there_of_all_kinds_of_groups(spark: SparkSession) -> None:
    frames = LOG.frames(spark)
    made = MadeTable(memberships(frames["generations"], frames["group_events"]).cache())
    columns = "member_id instance_id member_from member_until has_ended"
    made.check(
        "dies",
        columns,
        ("a", None, at(1), at(2), True),
        ("b", None, at(3), at(4), True),
        ("b", None, at(5), None, False),
    )
    made.check("modern", columns, ("a", "i", at(1), at(6), True), ("b", None, at(2), None, False))
    made.check("upgraded", columns, ("a", None, at(1), None, False))
    made.check("strangers", columns, ("a", None, at(1), None, False), ("b", None, at(1), None, False))
    made.frame.unpersist()
