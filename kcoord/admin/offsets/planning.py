"""Makes plans: reads the current state, lets `resetting` decide the target offsets, and adds what the change
implies."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import first_few, format_count, format_partitions
from kcoord.admin.groups.snapshot_reader import MAX_GROUPS_WITH_TIMES
from kcoord.admin.model import FoundOffset, Position, Refusal, TopicPartition
from kcoord.admin.offsets.cluster_state import (
    CurrentGroup,
    CurrentGroups,
    CurrentLogs,
    read_groups,
    read_logs,
    why_unchangeable,
)
from kcoord.admin.offsets.plans import Flag, GroupPlan, OffsetChange, Plan, RecordTimes, Risk, Verb
from kcoord.admin.offsets.resetting import (
    CannotReset,
    OffsetsFromFile,
    ResetInputs,
    ResetTarget,
    TargetOffset,
    ToTime,
    target_offsets,
)
from kcoord.admin.offsets.risks import format_uncompared, why_withheld, with_risks
from kcoord.admin.offsets.selecting import BadSelection, Selection, selected, selects


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The result of planning: a plan for all groups whose offsets can be changed, and error texts for those whose
    cannot.

    `withheld` are groups that could be changed, but only at a risk that was not accepted: they are shown and not
    changed. `warnings` are for the operator and refuse nothing.
    """

    plan: Plan
    refused: tuple[str, ...] = ()
    withheld: tuple[GroupPlan, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_reset(
    cluster: ClusterClient,
    names: Collection[str],
    *,
    scope: Collection[Selection] | None,
    target: ResetTarget,
    now: datetime,
) -> Planned:
    """Plans to reset the committed offsets of these groups to one target, such as the earliest offset. Without a scope
    the plan covers all partitions that each group has committed for."""
    groups = read_groups(cluster, names)
    named = _selected_in(cluster, scope) if scope is not None else None
    partitions = {
        name: tuple(sorted(each.committed)) if named is None else named for name, each in groups.found.items()
    }
    logs = read_logs(cluster, (tp for tps in partitions.values() for tp in tps))
    logs, found = _found_by_time(cluster, target, logs)
    unavailable = _unavailable(logs, {tp for tps in partitions.values() for tp in tps})

    def decide(group: CurrentGroup) -> dict[TopicPartition, TargetOffset]:
        if not partitions[group.name]:
            raise CannotReset("it has committed nothing: name topics with --topic")
        readable = [tp for tp in partitions[group.name] if tp not in unavailable]
        require_readable_logs(readable or partitions[group.name], logs)
        return target_offsets(target, readable, ResetInputs(committed=group.committed, bounds=logs.bounds, found=found))

    planned = _make_plan(cluster, groups, logs, decide, verb=Verb.RESET, target=str(target), now=now)
    cut = [plan.group for plan in planned.plan.groups if not unavailable.isdisjoint(partitions[plan.group])]
    return replace(planned, refused=(*planned.refused, *_format_omitted(unavailable, cut, logs)))


def plan_from_files(
    cluster: ClusterClient,
    listed: Mapping[str, OffsetsFromFile],
    *,
    verb: Verb,
    target: str,
    now: datetime,
    ignores_topic_ids: bool = False,
    accepted: Collection[Risk] = (),
) -> Planned:
    """Plans to commit the offsets that a file lists, or that another cluster has. A group with a risk that was not
    accepted is withheld as a whole."""
    groups = read_groups(cluster, list(listed))
    logs = read_logs(cluster, (tp for each in listed.values() for tp in each.offsets))

    def decide(group: CurrentGroup) -> dict[TopicPartition, TargetOffset]:
        from_file = listed[group.name]
        require_readable_logs(from_file.offsets, logs)
        topic_ids = {name: topic.id for name, topic in logs.topics.items()}
        facts = ResetInputs(committed=group.committed, bounds=logs.bounds, topic_ids=topic_ids)
        decided = target_offsets(from_file, list(from_file.offsets), facts)
        if not ignores_topic_ids:
            _refuse_other_topics(decided)
        return decided

    planned = _make_plan(cluster, groups, logs, decide, verb=verb, target=target, now=now)
    return _withhold_risky(planned, with_risks(cluster, planned.plan.groups, listed, verb), accepted)


def _withhold_risky(planned: Planned, groups: Collection[GroupPlan], accepted: Collection[Risk]) -> Planned:
    """Restricts the plan to the groups whose risks are all accepted, and withholds the others."""
    refused = {group.group: why for group in groups if (why := why_withheld(group, accepted))}
    done = tuple(group for group in groups if group.group not in refused)
    return Planned(
        plan=replace(planned.plan, groups=done, accepted=tuple(accepted)),
        refused=(*planned.refused, *(f"group {name!r}: {why}" for name, why in refused.items())),
        withheld=tuple(group for group in groups if group.group in refused),
        warnings=format_uncompared(groups),
    )


def plan_delete(
    cluster: ClusterClient, name: str, *, scope: Collection[Selection] | None, target: str, now: datetime
) -> Planned:
    """Plans to delete a group's committed offsets of these partitions, or of all (no scope). They may be of a topic
    that no longer exists."""
    groups = read_groups(cluster, [name])
    if any(each.group is None and not each.committed for each in groups.found.values()):
        raise CannotReset(f"group {name!r} does not exist")
    committed = [tp for each in groups.found.values() for tp in each.committed]
    wanted = sorted(tp for tp in committed if scope is None or selects(scope, tp))
    logs = read_logs(cluster, wanted)

    def decide(_: CurrentGroup) -> dict[TopicPartition, None]:
        if not wanted:
            raise CannotReset("nothing is committed for what was named")
        return dict.fromkeys(wanted)

    return _make_plan(cluster, groups, logs, decide, verb=Verb.DELETE, target=target, now=now)


def _selected_in(cluster: ClusterClient, scope: Collection[Selection]) -> tuple[TopicPartition, ...]:
    answers = cluster.topics(sorted({selection.topic for selection in scope}))
    try:
        return selected(scope, answers.found)
    except BadSelection as error:
        hidden = [refusal for refusal in answers.refused if refusal.error.name != "unknown_topic_or_partition"]
        raise BadSelection(", ".join(map(str, hidden)) or str(error)) from None


def _found_by_time(
    cluster: ClusterClient, target: ResetTarget, logs: CurrentLogs
) -> tuple[CurrentLogs, Mapping[TopicPartition, FoundOffset]]:
    """Returns the logs that answered, and the offset of the target time in each."""
    if not isinstance(target, ToTime):
        return logs, {}
    since_1970 = max(target.timestamp, 0)  # to a broker negative numbers mean "latest" and the like
    answers = cluster.offsets_at(dict.fromkeys(logs.bounds, since_1970))
    bounds = {tp: log_bounds for tp, log_bounds in logs.bounds.items() if tp in answers.found}
    return replace(logs, bounds=bounds, refused=(*logs.refused, *answers.refused)), answers.found


def _unavailable(logs: CurrentLogs, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """Returns the partitions that exist and whose bounds are unknown, as they have no leader now."""
    without_bounds = [tp for tp in partitions if tp not in logs.bounds and tp.topic in logs.topics]
    return {tp for tp in without_bounds if tp.partition in logs.topics[tp.topic].leaders}


def _format_omitted(unavailable: Collection[TopicPartition], groups: Collection[str], logs: CurrentLogs) -> list[str]:
    """Formats the partitions that are missing in the plans of some groups; nothing if there are no such groups."""
    if not groups:
        return []
    where = f"group {next(iter(groups))!r}" if len(groups) == 1 else format_count(len(groups), "group")
    return [f"{where}: {format_partitions(unavailable)} left out, as the logs cannot be asked{_because(logs.refused)}"]


def require_readable_logs(partitions: Collection[TopicPartition], logs: CurrentLogs) -> None:
    """Raises CannotReset unless the bounds of all these partitions' logs are known: offsets are set for all of them or
    for none."""
    unread = [tp for tp in partitions if tp not in logs.bounds]
    if not unread:
        return
    missing = [tp for tp in unread if tp.topic not in logs.topics or tp.partition not in logs.topics[tp.topic].leaders]
    if missing:
        raise CannotReset(f"the cluster does not show {format_partitions(missing)}{_because(logs.refused)}")
    raise CannotReset(f"the logs of {format_partitions(unread)} cannot be asked{_because(logs.refused)}")


def _refuse_other_topics(decided: Mapping[TopicPartition, TargetOffset]) -> None:
    for tp, target_offset in decided.items():
        for note in target_offset.notes:
            if note.flag is Flag.OTHER_TOPIC_ID:
                raise CannotReset(f"{tp} was {note.reason}: if that is meant, say --ignore-topic-ids")


def _because(refused: tuple[Refusal, ...]) -> str:
    return f": {'; '.join(first_few([str(refusal) for refusal in refused]))}" if refused else ""


Decide = Callable[[CurrentGroup], Mapping[TopicPartition, TargetOffset | None]]


def _make_plan(
    cluster: ClusterClient,
    groups: CurrentGroups,
    logs: CurrentLogs,
    decide: Decide,
    *,
    verb: Verb,
    target: str,
    now: datetime,
) -> Planned:
    refused = [str(refusal) for refusal in groups.refused]
    made: list[GroupPlan] = []
    for group in groups.found.values():
        try:
            if why_not := why_unchangeable(group):
                raise CannotReset(why_not)
            changes = tuple(
                plan_change(tp, group, target_offset, logs) for tp, target_offset in sorted(decide(group).items())
            )
        except CannotReset as error:
            refused.append(f"group {group.name!r}: {error}")
            continue
        made.append(GroupPlan(group=group.name, exists=group.group is not None, changes=changes))
    plan = Plan(
        verb=verb, target=target, cluster_id=cluster.cluster_id(), made_at=now, groups=with_record_times(cluster, made)
    )
    return Planned(plan=plan, refused=tuple(refused))


def plan_change(
    tp: TopicPartition, group: CurrentGroup, target_offset: TargetOffset | None, logs: CurrentLogs
) -> OffsetChange:
    """Returns the planned change of one partition's committed offset; a target of None deletes it."""
    return OffsetChange(
        tp=tp,
        topic_id=logs.topic_id(tp.topic),
        old=group.committed.get(tp),
        new=target_offset.new if target_offset else None,
        bounds=logs.bounds.get(tp),
        notes=target_offset.notes if target_offset else (),
    )


def with_record_times(cluster: ClusterClient, groups: Iterable[GroupPlan]) -> tuple[GroupPlan, ...]:
    """Adds to each planned change the times of the first and the last record that it replays or skips, if they can be
    read.

    It adds none for very many groups: each position is a fetch, and those of one partition come one after the other.
    """
    plans = tuple(groups)
    if len(plans) > MAX_GROUPS_WITH_TIMES:
        return plans
    wanted = {position for plan in plans for each in plan.changes for position in _ends(each)}
    found = cluster.timestamps(wanted).found if wanted else {}
    return tuple(replace(plan, changes=tuple(_timed(each, found) for each in plan.changes)) for plan in plans)


def _ends(change: OffsetChange) -> tuple[Position, ...]:
    if change.between is None:
        return ()
    first, after = change.between
    return ((change.tp, first), (change.tp, after - 1))


def _timed(change: OffsetChange, found: Mapping[Position, int]) -> OffsetChange:
    times = [found[position] for position in _ends(change) if position in found]
    return replace(change, times=RecordTimes(min(times), max(times))) if len(times) == 2 else change
