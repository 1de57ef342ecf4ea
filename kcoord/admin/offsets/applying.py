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

from kcoord.admin.cluster_client import LiveCluster
from kcoord.admin.formatting import say_some
from kcoord.admin.interruption import NEVER, Stop
from kcoord.admin.model import Answers, Committed, TopicPartition
from kcoord.admin.offsets.checking import WorldChanged, differences
from kcoord.admin.offsets.cluster_state import Logs, read_groups, read_logs
from kcoord.admin.offsets.files.undo_files import UndoPlace, undo_of, write_undo
from kcoord.admin.offsets.plans import Change, GroupPlan, Plan
from kcoord.errors import ErrorCode

GROUPS_AT_ONCE: Final = 10  # are read again together, before they are changed


class Fate(StrEnum):
    """The status of one partition after the change, judged by what is committed now."""

    DONE = "done"
    REFUSED = "refused"
    OVERWRITTEN = "overwritten"  # the broker accepted it, and something else is committed now
    UNKNOWN = "unknown"  # no definite answer, or not read again: it may be done, now or soon
    NOT_TRIED = "not-tried"  # the change was interrupted before


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The status of one partition. `now` is the offset that is committed afterwards, if that could be read."""

    group: str
    change: Change
    fate: Fate
    now: Committed | None
    was_read: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The outcome of each partition. `undo_path` is None if nothing has changed, so that there is nothing to undo."""

    outcomes: tuple[Outcome, ...]
    undo_path: Path | None
    was_stopped: bool = False

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.fate is not Fate.DONE)


def apply(
    cluster: LiveCluster,
    plan: Plan,
    *,
    undo: UndoPlace,
    now: datetime,
    wrote: Callable[[Path], None] = lambda _: None,
    stop: Stop = NEVER,
) -> Applied:
    """Applies exactly this plan. Raises StalePlan, before anything is changed, if the cluster is not as the plan found
    it.

    `on_undo_written` gets the path of the undo file before anything is changed; from then on no failure is raised: it
    becomes an outcome. Each group is read again right before its change, as many groups may come before it: a group
    that has changed since is refused, and the others are done. No group begins after `stop` was requested. After a
    KeyboardInterrupt no further request is sent, and the changes that the broker has acknowledged count as done.
    """
    logs = check(cluster, plan)
    stop.begin()
    undo_path = write_undo(undo_of(plan, made_at=now), undo)
    wrote(undo_path)
    steps = _Steps()
    committed: Mapping[str, Mapping[TopicPartition, Committed]] = {}
    is_cut_off = False
    try:
        _change_all(cluster, plan, logs, steps, stop)
        committed = _read_again(cluster, plan, steps)
    except KeyboardInterrupt:
        is_cut_off = True
    refusals = {group.group: steps.refusals_of(group) for group in plan.groups}
    outcomes = _outcomes(plan, refusals, committed, is_cut_off=is_cut_off)
    is_untouched = all(_is_untouched(each, refusals[each.group].get(each.change.tp)) for each in outcomes)
    if is_untouched:
        undo_path.unlink(missing_ok=True)
    return Applied(
        outcomes=outcomes,
        undo_path=None if is_untouched else undo_path,
        was_stopped=is_cut_off or stop.is_asked(),
    )


def check(cluster: LiveCluster, plan: Plan) -> Logs:
    """Returns the current logs. Raises StalePlan with all differences if the cluster is not as the plan found it."""
    groups = read_groups(cluster, [group.group for group in plan.groups])
    logs = read_logs(
        cluster, (change.tp for group in plan.groups for change in group.changes if change.new is not None)
    )
    found = differences(plan, cluster_id=cluster.cluster_id(), groups=groups, logs=logs)
    if found:
        raise WorldChanged(found)
    return logs


class Said(Enum):
    """What a failure implies for the change."""

    NOT_TRIED = auto()
    NOT_DONE = auto()
    PERHAPS = auto()  # it may be done, now or soon


class Refused(NamedTuple):
    """Why a change failed, and whether it may have been done nevertheless."""

    why: str
    said: Said = Said.NOT_DONE


Refusals = Mapping[TopicPartition, Refused]


@dataclass(slots=True)
class _Steps:
    """The groups that were begun, and the failures of those that are finished. It is consistent at any moment of an
    interrupt."""

    begun: set[str] = field(default_factory=set)
    over: dict[str, Refusals] = field(default_factory=dict)

    def refusals_of(self, group: GroupPlan) -> Refusals:
        if group.group in self.over:
            return self.over[group.group]
        return _all_refused(group, _cut_off if group.group in self.begun else _stopped)


def _change_all(cluster: LiveCluster, plan: Plan, logs: Logs, steps: _Steps, stop: Stop) -> None:
    for first in range(0, len(plan.groups), GROUPS_AT_ONCE):
        if stop.is_asked():
            return
        _change_batch(cluster, replace(plan, groups=plan.groups[first : first + GROUPS_AT_ONCE]), logs, steps, stop)


def _change_batch(cluster: LiveCluster, plan: Plan, logs: Logs, steps: _Steps, stop: Stop) -> None:
    """Reads these groups again, and changes those that are as the plan found them."""
    try:
        groups = read_groups(cluster, [group.group for group in plan.groups])
    except Exception as error:  # earlier groups may be changed, so that the failure must be reported
        lost = Refused(f"not tried: {error}", Said.NOT_TRIED)
        steps.over |= {group.group: _all_refused(group, lost) for group in plan.groups}
        return
    for group in plan.groups:
        if stop.is_asked():
            return
        one = replace(plan, groups=(group,))
        found = differences(one, cluster_id=plan.cluster_id, groups=groups, logs=logs)
        if found:
            changed = Refused(f"not tried, changed since: {'; '.join(say_some(found))}", Said.NOT_TRIED)
            steps.over[group.group] = _all_refused(group, changed)
        else:
            steps.begun.add(group.group)
            steps.over[group.group] = _change(cluster, group)


def _all_refused(group: GroupPlan, refused: Refused) -> Refusals:
    return {change.tp: refused for change in group.changes}


def _change(cluster: LiveCluster, plan: GroupPlan) -> Refusals:
    commits = {change.tp: change.new for change in plan.changes if change.new is not None}
    deletions = [change.tp for change in plan.changes if change.new is None]
    refused: dict[TopicPartition, Refused] = {}
    asked: set[TopicPartition] = set()
    try:
        if commits:
            asked |= commits.keys()
            refused |= _refused(plan.group, cluster.commit(plan.group, commits), commits)
            asked -= commits.keys()
        if deletions and not refused:
            asked |= set(deletions)
            refused |= _refused(plan.group, cluster.delete_offsets(plan.group, deletions), deletions)
        elif deletions:
            refused |= dict.fromkeys(deletions, _not_tried)
    except Exception as error:  # any failure: the rest of the plan goes on, and what was done must be reported
        why = f"no answer came: {error}" if isinstance(error, ConnectionError) else f"it failed: {error}"
        refused |= dict.fromkeys(asked, Refused(why, Said.PERHAPS))
        if not asked.issuperset(deletions):
            refused |= dict.fromkeys(deletions, _not_tried)
    return refused


def _refused(
    group: str, answers: Answers[TopicPartition, ErrorCode], asked: Collection[TopicPartition]
) -> dict[TopicPartition, Refused]:
    """Returns the failure of each partition that has an error or no answer. A message comes with the refusal of the
    whole group."""
    errors = {tp: answers.found.get(tp) for tp in asked}
    said = {refusal.error: refusal.message for refusal in answers.refused if refusal.what == f"group {group}"}
    return {
        tp: why_refused(error, said.get(error, "") if error is not None else "")
        for tp, error in errors.items()
        if error is not ErrorCode.none
    }


_not_tried: Final = Refused("not tried, after others were refused", Said.NOT_TRIED)
_stopped: Final = Refused("not tried: interrupted before", Said.NOT_TRIED)
_cut_off: Final = Refused("interrupted before the broker had answered: it may be done, now or soon", Said.PERHAPS)
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
_SURELY_NOT: Final = frozenset(_WHY) | {
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


def why_refused(error: ErrorCode | None, message: str = "") -> Refused:
    if error is None:
        return Refused("the broker said nothing of it", Said.PERHAPS)
    if error is ErrorCode.operation_not_attempted:
        return _not_tried
    name = error.name.upper()
    words = _WHY.get(error) or message
    said = Said.NOT_DONE if error in _SURELY_NOT else Said.PERHAPS
    return Refused(f"{words} ({name})" if words else name, said)


def _read_again(cluster: LiveCluster, plan: Plan, steps: _Steps) -> Mapping[str, Mapping[TopicPartition, Committed]]:
    """Reads what is committed now, for the groups that are finished."""
    names = [group.group for group in plan.groups if group.group in steps.over]
    try:
        return cluster.committed(names).found
    except Exception:  # then nothing is known, and the outcomes say so
        return {}


def _outcomes(
    plan: Plan,
    refusals: Mapping[str, Refusals],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
    *,
    is_cut_off: bool,
) -> tuple[Outcome, ...]:
    return tuple(
        _outcome(group.group, change, refusals[group.group].get(change.tp), committed.get(group.group), is_cut_off)
        for group in plan.groups
        for change in group.changes
    )


def _outcome(
    group: str,
    change: Change,
    refused: Refused | None,
    committed: Mapping[TopicPartition, Committed] | None,
    is_cut_off: bool,
) -> Outcome:
    """Judges by what is committed now; the broker's answer becomes the reason."""
    if refused is _stopped:
        return Outcome(group=group, change=change, fate=Fate.NOT_TRIED, now=None, was_read=False, reason=refused.why)
    if committed is None:
        fate = Fate.REFUSED if refused and refused.said is Said.NOT_TRIED else Fate.UNKNOWN
        why = f"{refused.why if refused else 'the broker took it'}; it could not be read again"
        if is_cut_off:
            fate, why = _by_word(refused)
        return Outcome(group=group, change=change, fate=fate, now=None, was_read=False, reason=why)
    done = Outcome(group=group, change=change, fate=Fate.DONE, now=committed.get(change.tp))
    if refused is None:
        if done.now == change.new:
            return done
        return replace(done, fate=Fate.OVERWRITTEN, reason="the broker took it, and someone has changed it since")
    if refused.said is not Said.NOT_TRIED and done.now == change.new != change.old:
        return done
    fate = Fate.UNKNOWN if refused.said is Said.PERHAPS else Fate.REFUSED
    return replace(done, fate=fate, reason=refused.why)


def _by_word(refused: Refused | None) -> tuple[Fate, str]:
    """Judges by the broker's answer alone, after an interrupt that leaves no time to read the offsets again."""
    if refused is None:
        return Fate.DONE, "the broker took it; it was not read again"
    return Fate.UNKNOWN if refused.said is Said.PERHAPS else Fate.REFUSED, refused.why


def _is_untouched(outcome: Outcome, refused: Refused | None) -> bool:
    """Whether it is certain that this partition needs no undo."""
    if refused is not None and refused.said is Said.NOT_TRIED:
        return True
    is_known = outcome.was_read and outcome.fate in (Fate.DONE, Fate.REFUSED)
    return is_known and outcome.now == outcome.change.old
