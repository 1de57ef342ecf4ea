"""Why a group rebalanced, by what is different after it.

| cause                | what is observed                                                                           |
|----------------------|--------------------------------------------------------------------------------------------|
| joined               | a member that was not there before                                                         |
| left                 | one that was                                                                               |
| replaced             | one came and one went with the same client id and host: a restart                          |
| static returned      | an instance id has a new member id                                                         |
| subscription changed | a member that stayed subscribes to something else                                          |
| partitions changed   | nothing of that, but partitions are there, or gone, that never were before                 |
| handed over          | nothing of that: partitions that a cooperative rebalance took away are given to others now |
| unknown              | nothing of that, or what was before is not in the log any more                             |
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

JOINED: Final = "joined"
LEFT: Final = "left"
REPLACED: Final = "replaced"
STATIC_RETURNED: Final = "static returned"
SUBSCRIPTION_CHANGED: Final = "subscription changed"
PARTITIONS_CHANGED: Final = "partitions changed"
HANDED_OVER: Final = "handed over"
UNKNOWN: Final = "unknown"
ALL: Final = (
    *(JOINED, LEFT, REPLACED, STATIC_RETURNED),
    *(SUBSCRIPTION_CHANGED, PARTITIONS_CHANGED, HANDED_OVER, UNKNOWN),
)

MEMBER: Final = "STRUCT<member_id STRING, instance_id STRING, client_id STRING, client_host STRING>"
MEMBERS: Final = f"ARRAY<{MEMBER}>"
"""The type of `came` and `went` of a change."""

CHANGE: Final = (
    *("group", "source_partition", "source_offset", "generation", "from_generation", "started_at", "ended_at"),
    *("came", "went", "members", "members_before", "subscription_changed", "topics_changed", "kind", "is_deletion"),
)
"""The columns of a change of any kind of group. `came` and `went` are null if it is not known who was there before."""

_TEXTS: Final = "ARRAY<STRING>"


def member_causes(came: Column, went: Column) -> Column:
    """Returns a column with the causes of a rebalance that follow from which members came and went (arrays of structs).
    An instance id that did both is the same member, returned."""
    returned = f.array_intersect(_instances(came), _instances(went))
    fresh, gone = _client_keys(came, returned), _client_keys(went, returned)
    return f.array_compact(
        f.array(
            f.when(_has_more(fresh, gone), JOINED),
            f.when(_has_more(gone, fresh), LEFT),
            f.when(f.size(f.array_intersect(fresh, gone)) > 0, REPLACED),
            f.when(f.size(returned) > 0, STATIC_RETURNED),
        )
    )


def with_other_causes(
    causes: Column, *, subscription_changed: Column, partitions_changed: Column, handed_over: Column
) -> Column:
    """Adds to the column `causes` the causes other than members who joined, left or returned. "Handed over" (another
    broker became the coordinator) and "partitions changed" are added only if there is no other cause, and "unknown" if
    there is none at all."""
    known = f.concat(causes, f.when(subscription_changed, _texts(SUBSCRIPTION_CHANGED)).otherwise(_texts()))
    return (
        f.when(f.size(known) > 0, known)
        .when(handed_over, _texts(HANDED_OVER))
        .when(partitions_changed, _texts(PARTITIONS_CHANGED))
        .otherwise(_texts(UNKNOWN))
    )


def sorted_member_ids(members: Column) -> Column:
    """Returns a column with the sorted member ids of an array of members."""
    return f.array_sort(f.transform(members, lambda member: member.member_id))


def _instances(members: Column) -> Column:
    return f.array_compact(f.transform(members, lambda member: member.instance_id))


def _client_keys(members: Column, without: Column) -> Column:
    """Returns client ids and hosts, as often as they occur, without these instances; other static members differ by
    their instance id."""
    others = f.filter(members, lambda each: ~f.coalesce(f.array_contains(without, each.instance_id), f.lit(False)))
    return f.transform(others, lambda each: f.to_json(f.struct(each.instance_id, each.client_id, each.client_host)))


def _has_more(names: Column, than: Column) -> Column:
    """Whether one of the names is there more often than among the others."""
    return f.exists(
        f.array_distinct(names),
        lambda name: f.size(f.filter(names, lambda x: x == name)) > f.size(f.filter(than, lambda y: y == name)),
    )


def _texts(*texts: str) -> Column:
    return f.array(*map(f.lit, texts)).cast(_TEXTS)
