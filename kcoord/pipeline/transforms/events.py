"""Parses the records of consumer (KIP-848), share and streams groups: three roles that all of them have, and one of
consumer groups.

| role    | states                                                          |
|---------|-----------------------------------------------------------------|
| group   | the group's epoch: one more at each change of members or topics |
| member  | who a member is, and what it subscribes to                      |
| current | which epoch a member has reached, and what it owns              |
| pattern | the topics that a regular expression matches                    |
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms import event_types
from kcoord.pipeline.transforms.history import deduplicated, log_order, up_to_current_row

GROUP: Final = "group"
MEMBER: Final = "member"
CURRENT: Final = "current"
PATTERN: Final = "pattern"

_ROLES: Final = {
    GROUP: event_types.GROUP_EPOCHS,
    MEMBER: (event_types.MEMBER, event_types.SHARE_MEMBER, event_types.STREAMS_MEMBER),
    CURRENT: (event_types.CURRENT, event_types.SHARE_CURRENT, event_types.STREAMS_CURRENT),
    PATTERN: (event_types.PATTERN,),
}
CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
_KINDS: Final = {
    CONSUMER: (event_types.EPOCH, event_types.MEMBER, event_types.CURRENT, event_types.PATTERN),
    SHARE: (event_types.SHARE_EPOCH, event_types.SHARE_MEMBER, event_types.SHARE_CURRENT),
    STREAMS: (event_types.STREAMS_EPOCH, event_types.STREAMS_MEMBER, event_types.STREAMS_CURRENT),
}
_STABLE, _STABLE_STREAMS = 0, 1  # Kafka's MemberState of modern groups, and that of streams groups

_PARTITIONS: Final = "ARRAY<STRUCT<topicId STRING, partitions ARRAY<INT>>>"
_FIELDS: Final = f"""
    epoch INT, metadataHash BIGINT,
    instanceId STRING, clientId STRING, clientHost STRING,
    subscribedTopicNames ARRAY<STRING>, subscribedTopicRegex STRING, topologyEpoch INT,
    memberEpoch INT, state INT, assignedPartitions {_PARTITIONS}, partitionsPendingRevocation {_PARTITIONS}
"""


def read_events(group_events: DataFrame) -> DataFrame:
    """Parses the table `group_events`: returns a row for each record that describes a group, a member or a member's
    current assignment, without duplicates, with the fields of its payload as columns. It adds what is known by then:
    who its member is, how often its group was deleted (`life`), and which record began the group's epoch
    (`change_offset`)."""
    values = f.from_json("payload", _FIELDS)
    stable = f.when(f.col("kind") == STREAMS, _STABLE_STREAMS).otherwise(_STABLE)
    is_epoch = f.col("role") == GROUP
    by_now = up_to_current_row(log_order("group"))
    who = f.struct(
        f.col("values.instanceId").alias("instance_id"),
        f.col("values.clientId").alias("client_id"),
        f.col("values.clientHost").alias("client_host"),
    )
    has_identity = (f.col("role") == MEMBER) & ~f.col("tombstone")
    return (
        deduplicated(group_events.withColumn("role", _by_record_type(_ROLES)).where(f.col("role").isNotNull()))
        .withColumn("kind", _by_record_type(_KINDS))
        .withColumn("values", values)
        .withColumn("who", f.when(has_identity, who))
        .select(
            "group",
            "kind",
            "role",
            f.coalesce("member_id", f.lit("")).alias("member_id"),
            "tombstone",
            "source_partition",
            "source_offset",
            f.col("appended_at").alias("at"),
            f.col("values.epoch").alias("epoch"),
            f.col("values.metadataHash").alias("metadata_hash"),
            f.col("values.memberEpoch").alias("member_epoch"),
            (f.col("values.state") == stable).alias("is_stable"),
            f.when(has_identity, _subscription()).alias("subscription"),
            f.concat(
                *(
                    f.coalesce(f"values.{name}", f.array().cast(_PARTITIONS))
                    for name in ("assignedPartitions", "partitionsPendingRevocation")
                )
            ).alias("owned"),
            f.last("who", ignorenulls=True).over(up_to_current_row(log_order("group", "member_id"))).alias("who"),
            f.sum((is_epoch & f.col("tombstone")).cast("int")).over(by_now).alias("life"),
            f.last(f.when(is_epoch, f.col("source_offset")), ignorenulls=True).over(by_now).alias("change_offset"),
        )
    )


def topic_names(commits: DataFrame, group_events: DataFrame) -> DataFrame:
    """Returns a row for each topic id that commits and records of groups contain, with the name of the topic: the
    columns `topic_id` and `topic`."""
    named = "ARRAY<STRUCT<topicId STRING, topicName STRING>>"
    lists = {4: ("topics",), 15: ("initializingTopics", "initializedTopics", "deletingTopics")}
    from_events = [
        group_events.where(f.col("record_type") == number)
        .select(f.explode(f.from_json("payload", f"{name} {named}")[name]).alias("each"))
        .select(f.col("each.topicId").alias("topic_id"), f.col("each.topicName").alias("topic"))
        for number, names in lists.items()
        for name in names
    ]
    committed = commits.where(f.col("topic_id").isNotNull()).select("topic_id", "topic")
    every = reduce(DataFrame.union, from_events, committed)
    return every.groupBy("topic_id").agg(f.max("topic").alias("topic")).select("topic_id", "topic")


def _by_record_type(words: Mapping[str, Sequence[int]]) -> Column:
    """Maps the event's record type to a word."""
    chosen = f.lit(None).cast("string")
    for word, numbers in words.items():
        chosen = f.when(f.col("record_type").isin(*numbers), word).otherwise(chosen)
    return chosen


def _subscription() -> Column:
    """Returns the subscription as text, for comparison."""
    topics = f.array_sort(f.coalesce("values.subscribedTopicNames", f.array().cast("ARRAY<STRING>")))
    return f.to_json(
        f.struct(
            topics.alias("topics"),
            # A member without a regular expression has null or an empty text here.
            f.nullif(f.col("values.subscribedTopicRegex"), f.lit("")).alias("expression"),
            f.col("values.topologyEpoch").alias("topology"),
        )
    )
