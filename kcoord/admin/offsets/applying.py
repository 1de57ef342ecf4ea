"""Applies a plan: reads the groups again, writes the undo file, changes the offsets, and reads what is committed then.

The broker decides in the end: offsets are committed without a member id, which it accepts only while the group has no
members. A member that joins after the last check is therefore not overruled, and the outcome says so. The status of
each partition is judged by what is committed afterwards, since a change may have been made although the broker answered
with an error.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import first_few
from kcoord.admin.interruption import NEVER, Stop
from kcoord.admin.model import Answers, Committed, Resource, TopicPartition
from kcoord.admin.offsets.checking import StalePlan, differences
from kcoord.admin.offsets.cluster_state import CurrentLogs, read_groups, read_logs
from kcoord.admin.offsets.files.undo_files import UndoDestination, undo_of, write_undo
from kcoord.admin.offsets.plans import GroupPlan, OffsetChange, Plan
from kcoord.errors import ErrorCode

GROUPS_AT_ONCE: Final = 10  # are read again together, before they are changed


class Status(StrEnum):
    """The status of the committed offset of one partition after its change was requested, judged by what is committed
    now."""

    DONE = "done"
    REFUSED = "refused"
    OVERWRITTEN = "overwritten"  # the broker accepted it, and something else is committed now
    UNKNOWN = "unknown"  # no definite answer, or not read again: it may be done, now or soon
    NOT_TRIED = "not-tried"  # the change was interrupted before


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the change of one partition's committed offset. `now` is the offset that is committed afterwards,
    if that could be read."""

    group: str
    change: OffsetChange
    status: Status
    now: Committed | None
    was_read: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of applying a plan: the outcome of each partition, and the path of the undo file. `undo_path` is None
    if nothing has changed, so that there is nothing to undo."""

    outcomes: tuple[Outcome, ...]
    undo_path: Path | None
    was_stopped: bool = False

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes that are not DONE."""
        return tuple(outcome for outcome in self.outcomes if outcome.status is not Status.DONE)


def apply(
    cluster: ClusterClient,
    plan: Plan,
    *,
    undo: UndoDestination,
    now: datetime,
    on_undo_written: Callable[[Path], None] = lambda _: None,
    stop: Stop = NEVER,
) -> Applied:
    """Changes committed offsets exactly as this plan says. Raises StalePlan, before anything is changed, if the cluster
    is not as the plan found it.

    `on_undo_written` gets the path of the undo file before anything is changed; from then on no failure is raised: it
    becomes an outcome. Each group is read again right before its change, as many groups may come before it: a group
    that has changed since is refused, and the others are done. No group begins after `stop` was requested. After a
    KeyboardInterrupt no further request is sent, and the changes that the broker has acknowledged count as done.
    """
    logs = check(cluster, plan)
    stop.begin()
    undo_path = write_undo(undo_of(plan, made_at=now), undo)
    on_undo_written(undo_path)
    steps = _Progress()
    committed: Mapping[str, Mapping[TopicPartition, Committed]] = {}
    is_cut_off = False
    try:
        _change_all(cluster, plan, logs, steps, stop)
        committed = _read_again(cluster, plan, steps)
    except KeyboardInterrupt:
        is_cut_off = True
    failures = {group.group: steps.failures_of(group) for group in plan.groups}
    outcomes = _outcomes(plan, failures, committed, is_cut_off=is_cut_off)
    is_untouched = all(_is_untouched(each, failures[each.group].get(each.change.tp)) for each in outcomes)
    if is_untouched:
        undo_path.unlink(missing_ok=True)
    return Applied(
        outcomes=outcomes,
        undo_path=None if is_untouched else undo_path,
        was_stopped=is_cut_off or stop.is_asked(),
    )


def check(cluster: ClusterClient, plan: Plan) -> CurrentLogs:
    """Checks that the cluster is still as a plan of offset changes found it, and returns the current logs. Raises
    StalePlan with all differences if it is not."""
    groups = read_groups(cluster, [group.group for group in plan.groups])
    logs = read_logs(
        cluster, (change.tp for group in plan.groups for change in group.changes if change.new is not None)
    )
    found = differences(plan, cluster_id=cluster.cluster_id(), groups=groups, logs=logs)
    if found:
        raise StalePlan(found)
    return logs


class Certainty(Enum):
    """How certain it is that a change of a committed offset that failed was not done nevertheless."""

    NOT_TRIED = auto()
    NOT_DONE = auto()
    POSSIBLY_DONE = auto()  # it may be done, now or soon


class Failure(NamedTuple):
    """Why the change of a committed offset failed, and whether it may have been done nevertheless."""

    reason: str
    certainty: Certainty = Certainty.NOT_DONE


Failures = Mapping[TopicPartition, Failure]


@dataclass(slots=True)
class _Progress:
    """The groups that were begun, and the failures of those that are finished. It is consistent at any moment of an
    interrupt."""

    begun: set[str] = field(default_factory=set)
    over: dict[str, Failures] = field(default_factory=dict)

    def failures_of(self, group: GroupPlan) -> Failures:
        if group.group in self.over:
            return self.over[group.group]
        return _fail_all(group, _cut_off if group.group in self.begun else _stopped)


def _change_all(cluster: ClusterClient, plan: Plan, logs: CurrentLogs, steps: _Progress, stop: Stop) -> None:
    for first in range(0, len(plan.groups), GROUPS_AT_ONCE):
        if stop.is_asked():
            return
        _change_batch(cluster, replace(plan, groups=plan.groups[first : first + GROUPS_AT_ONCE]), logs, steps, stop)


def _change_batch(cluster: ClusterClient, plan: Plan, logs: CurrentLogs, steps: _Progress, stop: Stop) -> None:
    """Reads these groups again, and changes those that are as the plan found them."""
    try:
        groups = read_groups(cluster, [group.group for group in plan.groups])
    except Exception as error:  # earlier groups may be changed, so that the failure must be reported
        lost = Failure(f"not tried: {error}", Certainty.NOT_TRIED)
        steps.over |= {group.group: _fail_all(group, lost) for group in plan.groups}
        return
    for group in plan.groups:
        if stop.is_asked():
            return
        one = replace(plan, groups=(group,))
        found = differences(one, cluster_id=plan.cluster_id, groups=groups, logs=logs)
        if found:
            changed = Failure(f"not tried, changed since: {'; '.join(first_few(found))}", Certainty.NOT_TRIED)
            steps.over[group.group] = _fail_all(group, changed)
        else:
            steps.begun.add(group.group)
            steps.over[group.group] = _change(cluster, group)


def _fail_all(group: GroupPlan, failure: Failure) -> Failures:
    return {change.tp: failure for change in group.changes}


def _change(cluster: ClusterClient, plan: GroupPlan) -> Failures:
    commits = {change.tp: change.new for change in plan.changes if change.new is not None}
    deletions = [change.tp for change in plan.changes if change.new is None]
    failures: dict[TopicPartition, Failure] = {}
    asked: set[TopicPartition] = set()
    try:
        if commits:
            asked |= commits.keys()
            failures |= _failures(plan.group, cluster.commit(plan.group, commits), commits)
            asked -= commits.keys()
        if deletions and not failures:
            asked |= set(deletions)
            failures |= _failures(plan.group, cluster.delete_offsets(plan.group, deletions), deletions)
        elif deletions:
            failures |= dict.fromkeys(deletions, _not_tried)
    except Exception as error:  # any failure: the rest of the plan goes on, and what was done must be reported
        why = f"no answer came: {error}" if isinstance(error, ConnectionError) else f"it failed: {error}"
        failures |= dict.fromkeys(asked, Failure(why, Certainty.POSSIBLY_DONE))
        if not asked.issuperset(deletions):
            failures |= dict.fromkeys(deletions, _not_tried)
    return failures


def _failures(
    group: str, answers: Answers[TopicPartition, ErrorCode], asked: Collection[TopicPartition]
) -> dict[TopicPartition, Failure]:
    """Returns the failure of each partition that has an error or no answer. A message comes with the refusal of the
    whole group."""
    errors = {tp: answers.found.get(tp) for tp in asked}
    messages = {
        each.error: each.message for each in answers.refused if (each.kind, each.name) == (Resource.GROUP, group)
    }
    return {
        tp: failure_of(error, messages.get(error, "") if error is not None else "")
        for tp, error in errors.items()
        if error is not ErrorCode.none
    }


_not_tried: Final = Failure("not tried, after others were refused", Certainty.NOT_TRIED)
_stopped: Final = Failure("not tried: interrupted before", Certainty.NOT_TRIED)
_cut_off: Final = Failure(
    "interrupted before the broker had answered: it may be done, now or soon", Certainty.POSSIBLY_DONE
)
_MEMBER_JOINED: Final = "a member has joined the group meanwhile, and the broker took nothing from outside"
_WHY: Final = {
    ErrorCode.unknown_member_id: _MEMBER_JOINED,
    ErrorCode.illegal_generation: _MEMBER_JOINED,
    ErrorCode.stale_member_epoch: _MEMBER_JOINED,
    ErrorCode.rebalance_in_progress: _MEMBER_JOINED,
    ErrorCode.non_empty_group: "the group has members that are no consumers: stop them first",
    ErrorCode.group_subscribed_to_topic: "a member of the group subscribes to this topic: stop it first",
    ErrorCode.group_id_not_found: "the group does not exist",
    ErrorCode.unknown_topic_or_partition: "the cluster does not have this partition",
    ErrorCode.group_authorization_failed: "not allowed: READ on the group is needed, and DELETE to delete offsets",
    ErrorCode.topic_authorization_failed: "not allowed: READ on the topic is needed",
    ErrorCode.offset_metadata_too_large: "the metadata is larger than the broker takes (offset.metadata.max.bytes)",
}
# With these errors nothing was done. After others it may be done: a coordinator also answers COORDINATOR_NOT_AVAILABLE,
# for instance, when offsets were written and not replicated in time.
_DEFINITELY_NOT_DONE: Final = frozenset(_WHY) | {
    ErrorCode.broker_not_available,  # it did not answer while connecting, so that nothing was sent
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.fenced_instance_id,
    ErrorCode.fenced_member_epoch,
    ErrorCode.invalid_commit_offset_size,
    ErrorCode.invalid_group_id,
    ErrorCode.invalid_request,
    ErrorCode.unknown_topic_id,
    ErrorCode.unsupported_version,
}


def failure_of(error: ErrorCode | None, message: str = "") -> Failure:
    """Returns why a change of a committed offset failed, by the broker's error code; None means that its response did
    not mention the partition."""
    if error is None:
        return Failure("the broker said nothing of it", Certainty.POSSIBLY_DONE)
    if error is ErrorCode.operation_not_attempted:
        return _not_tried
    name = error.name.upper()
    words = _WHY.get(error) or message
    certainty = Certainty.NOT_DONE if error in _DEFINITELY_NOT_DONE else Certainty.POSSIBLY_DONE
    return Failure(f"{words} ({name})" if words else name, certainty)


def _read_again(
    cluster: ClusterClient, plan: Plan, steps: _Progress
) -> Mapping[str, Mapping[TopicPartition, Committed]]:
    """Reads what is committed now, for the groups that are finished."""
    names = [group.group for group in plan.groups if group.group in steps.over]
    try:
        return cluster.committed(names).found
    except Exception:  # then nothing is known, and the outcomes say so
        return {}


def _outcomes(
    plan: Plan,
    failures: Mapping[str, Failures],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    *,
    is_cut_off: bool,
) -> tuple[Outcome, ...]:
    return tuple(
        _outcome(group.group, change, failures[group.group].get(change.tp), committed.get(group.group), is_cut_off)
        for group in plan.groups
        for change in group.changes
    )


def _outcome(
    group: str,
    change: OffsetChange,
    failure: Failure | None,
    committed: Mapping[TopicPartition, Committed] | None,
    is_cut_off: bool,
) -> Outcome:
    """Judges by what is committed now; the broker's answer becomes the reason."""
    if failure is _stopped:
        return Outcome(
            group=group, change=change, status=Status.NOT_TRIED, now=None, was_read=False, reason=failure.reason
        )
    if committed is None:
        status = Status.REFUSED if failure and failure.certainty is Certainty.NOT_TRIED else Status.UNKNOWN
        why = f"{failure.reason if failure else 'the broker took it'}; it could not be read again"
        if is_cut_off:
            status, why = _unverified_status(failure)
        return Outcome(group=group, change=change, status=status, now=None, was_read=False, reason=why)
    done = Outcome(group=group, change=change, status=Status.DONE, now=committed.get(change.tp))
    if failure is None:
        if done.now == change.new:
            return done
        return replace(done, status=Status.OVERWRITTEN, reason="the broker took it, and someone has changed it since")
    if failure.certainty is not Certainty.NOT_TRIED and done.now == change.new != change.old:
        return done
    status = Status.UNKNOWN if failure.certainty is Certainty.POSSIBLY_DONE else Status.REFUSED
    return replace(done, status=status, reason=failure.reason)


def _unverified_status(failure: Failure | None) -> tuple[Status, str]:
    """Judges by the broker's answer alone, after an interrupt that leaves no time to read the offsets again."""
    if failure is None:
        return Status.DONE, "the broker took it; it was not read again"
    return Status.UNKNOWN if failure.certainty is Certainty.POSSIBLY_DONE else Status.REFUSED, failure.reason


def _is_untouched(outcome: Outcome, failure: Failure | None) -> bool:
    """Whether it is certain that this partition needs no undo."""
    if failure is not None and failure.certainty is Certainty.NOT_TRIED:
        return True
    is_known = outcome.was_read and outcome.status in (Status.DONE, Status.REFUSED)
    return is_known and outcome.now == outcome.change.old
