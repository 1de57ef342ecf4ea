"""The job behind `kcoord assign replay`: what the tables recorded of groups, for kcoord.assignors.replaying."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kcoord.assignors.plan import list_partitions
from kcoord.assignors.replaying.recording import Generation, RecordedMember, Recording
from kcoord.pipeline.decode_job import OnStep
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.derive_job import Row, derive, rows_of
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, REBALANCES
from kcoord.pipeline.tables import TablesFolder
from kcoord.pipeline.transforms.filters import filter_groups
from kcoord.pipeline.transforms.generation_log import generation_log, last_commits

CONSUMER: Final = "consumer"
"""The protocol type of groups whose subscriptions Kafka's assignors read."""

Commits: TypeAlias = Mapping[tuple[str, int], int]  # when a partition was last committed, by topic and number
Durations: TypeAlias = Mapping[tuple[int | None, int | None], Row]  # rows of `rebalances`, by generation and its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the tables have of groups: the recordings that can be replayed, and why others cannot, by group."""

    recordings: tuple[Recording, ...]
    refused: Mapping[str, str]


class _NotReplayable(Exception):
    """Raised for a group whose history strategies cannot be replayed over; the message is the reason."""


def read_recordings(
    spark: SparkSession, tables: TablesFolder, wanted: RowSelection, on_step: OnStep, *, most: int
) -> Recorded:
    """Reads what was recorded of the groups that are wanted; of the `most` groups with the most records if none is
    named. All times are read, whichever are wanted: what a group was at first depends on what was before."""
    on_step("groups")
    generations = tables.read(spark, GENERATIONS)
    groups = wanted.groups or _most_recorded(generations, most)
    selection = RowSelection(groups=tuple(groups))
    if not groups:
        return Recorded(recordings=(), refused={})
    durations = _durations(derive(spark, tables, REBALANCES, selection, on_step))
    on_step("generations")
    generations = filter_groups(generations, groups)
    rows = _by_group(rows_of(generation_log(generations)))
    on_step("commits")
    commits = _commits(last_commits(generations, filter_groups(tables.read(spark, COMMITS), groups)))
    return _recorded(groups, rows, durations, commits)


def recording_of(group: str, rows: Sequence[Row], durations: Durations, commits: Mapping[int, Commits]) -> Recording:
    """Returns the recording of a classic group from rows of `generation_log`."""
    _check(rows)
    return Recording(
        group=group,
        generations=tuple(_generation(row, durations, commits.get(row["source_offset"], {})) for row in rows),
    )


def _recorded(
    groups: Iterable[str],
    rows: Mapping[str, Sequence[Row]],
    durations: Mapping[str, Durations],
    commits: Mapping[str, Mapping[int, Commits]],
) -> Recorded:
    recordings: list[Recording] = []
    refused: dict[str, str] = {}
    for group in groups:
        try:
            recordings.append(
                recording_of(group, rows.get(group, ()), durations.get(group, {}), commits.get(group, {}))
            )
        except _NotReplayable as reason:
            refused[group] = str(reason)
    return Recorded(recordings=tuple(recordings), refused=refused)


def _check(rows: Sequence[Row]) -> None:
    """Raises _NotReplayable if Kafka's assignors could not have planned for the group."""
    with_members = [row for row in rows if row["members"]]
    if not with_members:
        raise _NotReplayable("no generation of it with members is in the tables")
    for row in with_members:
        if row["protocol_type"] != CONSUMER:
            raise _NotReplayable(f"its protocol type is {row['protocol_type']!r}, and the strategies are of consumers")
        if not all(each["is_readable"] for each in row["members"]):
            raise _NotReplayable(f"a subscription in its generation {row['generation']} cannot be read")


def _generation(row: Row, durations: Durations, commits: Commits) -> Generation:
    took = durations.get((row["generation"], row["appended_at"]), {})
    return Generation(
        number=row["generation"],
        written_ms=row["appended_at"],
        joined_ms=row["state_since"],
        took_ms=took.get("duration_ms"),
        pause_ms=took.get("pause_ms"),
        protocol=row["protocol"],
        members=tuple(_member(each, commits) for each in row["members"] or ()),
        is_deletion=row["tombstone"],
    )


def _member(row: Mapping[str, Any], commits: Commits) -> RecordedMember:
    assigned = {each["topic"]: tuple(each["partitions"]) for each in row["assigned"] or ()}
    committed = [commits[partition] for partition in list_partitions(assigned) if partition in commits]
    return RecordedMember(
        member_id=row["member_id"],
        topics=tuple(row["topics"]),
        assigned=assigned,
        instance_id=row["instance_id"],
        client_id=row["client_id"],
        client_host=row["client_host"],
        session_timeout_ms=row["session_timeout_ms"],
        rack=row["rack"],
        claims=bool(row["claims"]),
        last_commit_ms=max(committed, default=None),
    )


def _most_recorded(generations: DataFrame, most: int) -> list[str]:
    """Returns the consumer groups with the most generations."""
    counted = generations.where((f.col("protocol_type") == CONSUMER) & (f.size("members") > 0)).groupBy("group").count()
    return [row["group"] for row in counted.orderBy(f.desc("count"), "group").limit(most).collect()]


def _by_group(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"]].append(row)
    return found


def _durations(rebalances: DataFrame) -> Mapping[str, Durations]:
    rows = rows_of(rebalances.select("group", "generation", "ended_at", "duration_ms", "pause_ms"))
    return {
        group: {(row["generation"], row["ended_at"]): row for row in of_group}
        for group, of_group in _by_group(rows).items()
    }


def _commits(frame: DataFrame) -> Mapping[str, Mapping[int, Commits]]:
    found: defaultdict[str, defaultdict[int, dict[tuple[str, int], int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(frame):
        if row["last_at"] is not None:
            found[row["group"]][row["source_offset"]][row["topic"], row["partition"]] = row["last_at"]
    return found
