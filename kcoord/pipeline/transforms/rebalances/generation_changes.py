"""Changes of classic groups, from one generation to the next.

A coordinator writes a group when the leader's plan has come, when its last member is gone, and when a static member
comes back into a stable group, which makes no new generation (Kafka's GroupMetadataManager). When it writes a plan the
group is not stable yet, so that `state_since` is then the end of the join phase. When that phase began is not in the
log; only a new group is written, empty, as soon as its first member comes. A generation that is superseded before its
plan has come is not written at all: its number is missing.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import deduplicated, log_order, milliseconds_between, null_as_false
from kcoord.pipeline.transforms.ownership_spans import CLASSIC, FACTS
from kcoord.pipeline.transforms.rebalances.causes import CHANGE, MEMBER

_DEAD, _EMPTY = "Dead", "Empty"
_SEPARATOR: Final = "\0"
_TEXTS: Final = "ARRAY<STRING>"


def generation_changes(generations: DataFrame) -> DataFrame:
    """Returns a row for each change of a classic group (a new generation, a static member that came back, a deletion),
    with the columns CHANGE: who came and went, and when it began and ended."""
    before = f.lag(f.struct("state", "generation", "at", "who", "subscribed")).over(log_order("group"))
    is_empty_from_the_start = _is_new() & (f.col("state") == _EMPTY)
    is_the_same = (f.col("generation") == f.col("from_generation")) & (f.size("came") == 0) & (f.size("went") == 0)
    return (
        _group_states(generations)
        .withColumn("before", before)
        .withColumn("who_before", _who_before())
        .withColumn("from_generation", f.when(~_is_new(), f.col("before.generation")))
        .withColumn("came", _difference("who", "who_before"))
        .withColumn("went", _difference("who_before", "who"))
        .where(~null_as_false(is_empty_from_the_start) & ~null_as_false(is_the_same))
        .withColumn("is_deletion", f.col("state") == _DEAD)
        .withColumn("started_at", _started_at())
        .withColumn("ended_at", f.col("at"))
        .withColumn("members", f.size("who"))
        .withColumn("members_before", f.when(f.col("who_before").isNotNull(), f.size("who_before")))
        .withColumn("subscription_changed", _is_subscription_changed())
        .withColumn("topics_changed", f.lit(False))
        .withColumn("kind", f.lit(CLASSIC))
        .select(*CHANGE)
    )


def _group_states(generations: DataFrame) -> DataFrame:
    who = f.transform("members", lambda each: f.to_json(f.struct(each.member_id, *(each[name] for name in FACTS))))
    longest = f.array_max(f.transform("members", lambda each: each.rebalance_timeout_ms))
    return deduplicated(generations).select(
        "group",
        "source_partition",
        "source_offset",
        "state",
        "generation",
        "state_since",
        f.col("appended_at").alias("at"),
        f.coalesce(who, f.array().cast(_TEXTS)).alias("who"),
        f.transform("members", _subscribed).alias("subscribed"),
        longest.alias("rebalance_timeout_ms"),
    )


def _subscribed(member: Column) -> Column:
    """Returns a member with its topics as one text, since only simple values are compared quickly; null if its topics
    are unknown."""
    topics = f.array_join(f.array_sort(member.subscription.topics), _SEPARATOR)
    return f.concat(member.member_id, f.lit(_SEPARATOR), topics)


def _is_new() -> Column:
    """Whether nothing was before: the group was deleted, or is at its beginning."""
    is_first = f.col("before").isNull() & (f.col("generation") <= 1)
    return is_first | null_as_false(f.col("before.state") == _DEAD)


def _who_before() -> Column:
    """Returns the members before the change; null if the log does not contain them."""
    return f.when(_is_new(), f.array().cast(_TEXTS)).otherwise(f.col("before.who"))


def _difference(these: str, others: str) -> Column:
    """Returns the members that are not among the others; null if either list is unknown.

    They are compared as texts, which Spark looks up by their hashes; other types it compares one with all.
    """
    found = f.array_except(f.col(these), f.col(others))
    return f.transform(found, lambda text: f.from_json(text, MEMBER))


def _started_at() -> Column:
    """Returns the latest time at which the change can have begun: see the module. No first join phase lasts longer
    than the members' rebalance timeout."""
    at, join_ended = f.col("at"), f.col("state_since")
    is_static_return = f.col("generation") == f.col("from_generation")
    first_member = f.when((f.col("before.state") == _EMPTY) & (f.col("from_generation") == 0), f.col("before.at"))
    is_one_phase = milliseconds_between(first_member, join_ended) <= f.col("rebalance_timeout_ms")
    return (
        f.when(is_static_return, at)
        .when(is_one_phase, first_member)
        .when(join_ended.isNotNull(), f.least(join_ended, at))
    )


def _is_subscription_changed() -> Column:
    """Whether a member that stayed has another subscription."""
    changed = f.array_except(f.array_compact("subscribed"), f.array_compact("before.subscribed"))
    new_ids = f.transform("came", lambda each: each.member_id)
    of_stayed = f.filter(changed, lambda text: ~f.array_contains(new_ids, f.substring_index(text, _SEPARATOR, 1)))
    return null_as_false(f.size(of_stayed) > 0)
