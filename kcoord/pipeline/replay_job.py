"""The job behind `kcoord assign replay`: reads what the tables recorded of groups."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kcoord.assignors.replaying.recording import Generation, Recording
from kcoord.pipeline.decode_job import OnStep
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.derive_job import derive, rows_of
from kcoord.pipeline.recordings.classic import CONSUMER, Commits, Durations, NotReplayable, classic_generations
from kcoord.pipeline.recordings.modern import modern_generations
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, REBALANCES, Row
from kcoord.pipeline.tables import TablesFolder
from kcoord.pipeline.transforms.event_types import EPOCH, MEMBERS_AND_TARGETS
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.filters import filter_groups
from kcoord.pipeline.transforms.generation_log import event_log, generation_log, last_commits


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the tables have of groups: the recordings that can be replayed, and why others cannot, by group."""

    recordings: tuple[Recording, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows of all groups, by group: what a recording is made of."""

    classic: Mapping[str, Sequence[Row]]
    modern: Mapping[str, Sequence[Row]]
    durations: Mapping[str, Durations]
    commits: Mapping[str, Mapping[int, Commits]]
    names: Mapping[str, str]


def read_recordings(
    spark: SparkSession, tables: TablesFolder, wanted: RowSelection, on_step: OnStep, *, most: int
) -> Recorded:
    """Reads what was recorded of the groups that are wanted; of the `most` groups with the most generations if none is
    named. All times are read, whichever are wanted: what a group was at first follows from what was before."""
    on_step("groups")
    whole = {name: tables.read(spark, name) for name in (COMMITS, GENERATIONS, GROUP_EVENTS)}
    groups = tuple(dict.fromkeys(wanted.groups)) or _most_recorded(whole[GENERATIONS], whole[GROUP_EVENTS], most)
    if not groups:
        return Recorded()
    rebalances = derive(spark, tables, REBALANCES, RowSelection(groups=groups), on_step)
    chosen = {name: filter_groups(frame, groups) for name, frame in whole.items()}
    on_step("generations")
    rows = _Rows(
        classic=_by_group(rows_of(generation_log(chosen[GENERATIONS]))),
        modern=_by_group(rows_of(event_log(chosen[GROUP_EVENTS], MEMBERS_AND_TARGETS))),
        durations=_durations(rebalances),
        commits=_commits(last_commits(chosen[GENERATIONS], chosen[COMMITS])),
        names={row["topic_id"]: row["topic"] for row in rows_of(topic_names(whole[COMMITS], whole[GROUP_EVENTS]))},
    )
    return _recorded(groups, rows)


def _recorded(groups: Iterable[str], rows: _Rows) -> Recorded:
    recordings: list[Recording] = []
    refused: dict[str, str] = {}
    for group in groups:
        try:
            recordings.append(_recording(group, rows))
        except NotReplayable as reason:
            refused[group] = str(reason)
    return Recorded(recordings=tuple(recordings), refused=refused)


def _recording(group: str, rows: _Rows) -> Recording:
    durations = rows.durations.get(group, {})
    classic = classic_generations(rows.classic.get(group, ()), durations, rows.commits.get(group, {}))
    modern = modern_generations(rows.modern.get(group, ()), durations, rows.names)
    generations = [each for _, each in sorted([*classic, *modern], key=lambda pair: pair[0])]
    if not any(each.members for each in generations):
        raise NotReplayable("no generation of it with members is in the tables")
    return Recording(group=group, generations=tuple(_without_conversions(generations)))


def _without_conversions(generations: Sequence[Generation]) -> list[Generation]:
    """Removes deletions by which a group only changed its kind: it was written anew at the same moment."""
    is_conversion = [
        before.is_deletion and after.members != () and before.written_ms == after.written_ms
        for before, after in pairwise(generations)
    ]
    return [each for each, is_left_out in zip(generations, [*is_conversion, False], strict=True) if not is_left_out]


def _most_recorded(generations: DataFrame, group_events: DataFrame, most: int) -> tuple[str, ...]:
    """Returns the groups of consumers with the most generations, or epochs."""
    classic = generations.where((f.col("protocol_type") == CONSUMER) & (f.size("members") > 0)).select("group")
    modern = group_events.where((f.col("record_type") == EPOCH) & ~f.col("tombstone")).select("group")
    counted = classic.unionByName(modern).groupBy("group").agg(f.count("*").alias("records"))
    return tuple(row["group"] for row in counted.orderBy(f.desc("records"), "group").limit(most).collect())


def _by_group(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"]].append(row)
    return found


def _durations(rebalances: DataFrame) -> Mapping[str, Durations]:
    """Returns the rows of `rebalances` by group, and by generation and time: the end of a classic group's rebalance,
    the beginning of an epoch."""
    rows = rows_of(rebalances.select("group", "generation", "started_at", "ended_at", "duration_ms", "pause_ms"))
    return {
        group: {(row["generation"], row[at]): row for at in ("started_at", "ended_at") for row in of_group}
        for group, of_group in _by_group(rows).items()
    }


def _commits(frame: DataFrame) -> Mapping[str, Mapping[int, Commits]]:
    """Returns the rows of `last_commits` by group, generation and member."""
    found: defaultdict[str, defaultdict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(frame):
        found[row["group"]][row["source_offset"]][row["member_id"]] = row["last_at"]
    return found
