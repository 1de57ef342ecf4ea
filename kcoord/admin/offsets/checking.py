"""Whether the cluster is still as a plan found it. Pure: each difference is a line of text."""

from collections.abc import Iterator

from kcoord.admin.model import Bounds, Committed
from kcoord.admin.offsets.cluster_state import CurrentGroup, CurrentGroups, CurrentLogs, why_unchangeable
from kcoord.admin.offsets.plans import GroupPlan, OffsetChange, Plan
from kcoord.exceptions import InvalidInput


class StalePlan(InvalidInput, RuntimeError):
    """An error: the cluster is no longer as a plan of offset changes found it; nothing was changed."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        self.differences = differences
        more = len(differences) - 1
        besides = f" (and {more:,} more: see above)" if more else ""
        super().__init__(f"nothing was changed, because the plan no longer holds: {differences[0]}{besides}")


def differences(plan: Plan, *, cluster_id: str | None, groups: CurrentGroups, logs: CurrentLogs) -> tuple[str, ...]:
    """Compares the cluster with the state that a plan of offset changes was made from. Returns the reasons against
    applying exactly this plan now; empty if there are none."""
    if plan.cluster_id != cluster_id:
        return (f"the plan is for the cluster {plan.cluster_id!r}, and this is {cluster_id!r}",)
    return tuple(line for group in plan.groups for line in _group_differences(group, groups, logs))


def _group_differences(plan: GroupPlan, groups: CurrentGroups, logs: CurrentLogs) -> Iterator[str]:
    now = groups.found.get(plan.group)
    if now is None:
        errors = [refusal.error for refusal in groups.refused if refusal.group_name == plan.group]
        why = errors[0].name.upper() if errors else "unknown"
        yield f"group {plan.group!r} cannot be read: {why}"
        return
    if why_not := why_unchangeable(now):
        yield f"group {plan.group!r}: {why_not}"
    for change in plan.changes:
        for line in _change_differences(change, now, logs):
            yield f"group {plan.group!r}, {change.tp}: {line}"


def _change_differences(change: OffsetChange, now: CurrentGroup, logs: CurrentLogs) -> Iterator[str]:
    committed = now.committed.get(change.tp)
    if committed != change.old:
        yield f"the plan found {format_committed(change.old)}, and now there is {format_committed(committed)}"
    if change.new is None:  # deleting an offset needs no log
        return
    topic = logs.topics.get(change.tp.topic)
    if topic is None:
        yield "the topic does not exist"
        return
    if change.topic_id is not None and topic.id is not None and change.topic_id != topic.id:
        yield f"the topic was made anew: its id was {change.topic_id} and is {topic.id}"
    bounds = logs.bounds.get(change.tp)
    if bounds is None:
        yield "the log cannot be asked where it begins and ends"
    elif _is_in_range(change.new, change.bounds) and not _is_in_range(change.new, bounds):
        yield f"{change.new.offset} is no longer in the log, which is from {bounds.start} to {bounds.end}"


def _is_in_range(committed: Committed, bounds: Bounds | None) -> bool:
    """Whether an offset is in range. One that was out of range when it was planned, and was shown so, may still be
    so."""
    return bounds is not None and bounds.start <= committed.offset <= bounds.end


def format_committed(committed: Committed | None) -> str:
    """Formats a committed offset with leader epoch and metadata, for people."""
    if committed is None:
        return "nothing committed"
    epoch = f" of leader epoch {committed.leader_epoch}" if committed.leader_epoch >= 0 else ""
    metadata = f" with the metadata {committed.metadata!r}" if committed.metadata else ""
    return f"offset {committed.offset}{epoch}{metadata}"
