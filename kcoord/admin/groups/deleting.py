"""Deletes groups: which of them may be deleted, which offsets are lost with them, and how to restore those."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import format_count
from kcoord.admin.interruption import NEVER, Stop
from kcoord.admin.model import Committed, Group, GroupType, Refusal, Resource, TopicPartition, refused_names
from kcoord.admin.offsets.files.undo_files import Undo, UndoDestination, UndoStep, write_undo
from kcoord.errors import ErrorCode

GROUPS_AT_ONCE: Final = 100  # in one batch; a stop takes effect between batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A group that is to be deleted, with its committed offsets, which are lost with it."""

    group: Group
    committed: Mapping[TopicPartition, Committed]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics for which the group has committed offsets, sorted."""
        return tuple(sorted({tp.topic for tp in self.committed}))

    @property
    def why_not(self) -> str | None:
        """Why the group must not be deleted now (it has members); None if it may."""
        members = len(self.group.members)
        return f"it has {format_count(members, 'member')}: stop its members first" if members else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """The groups that are to be deleted, and errors for those that could not be read."""

    deletions: tuple[Deletion, ...]
    refused: tuple[Refusal, ...]


class Status(StrEnum):
    """The status of a group after its deletion was requested, judged by whether it exists now."""

    DELETED = "deleted"
    NOT_DELETED = "kept"
    UNKNOWN = "unknown"  # it could not be read again, or it still exists and may be deleted soon
    NOT_TRIED = "not-tried"  # the deletion was interrupted before


class Outcome(NamedTuple):
    """The outcome of deleting one group: its status, and `why` it is not deleted, or not known to be; empty
    otherwise."""

    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The result of deleting groups: the outcome of each group, and the path of the undo file. `undo_path` is None if
    there is nothing to undo.

    That may turn out only after the file was written; the file is then removed.
    """

    outcomes: Mapping[str, Outcome]
    undo_path: Path | None
    has_removed_undo: bool = False
    was_stopped: bool = False

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the groups that are not deleted, or not known to be."""
        return tuple(name for name, outcome in self.outcomes.items() if outcome.status is not Status.DELETED)


def plan_deletion(cluster: ClusterClient, names: Collection[str]) -> DeletionPlan:
    """Reads the groups that are to be deleted, and their committed offsets. Groups with members are part of the plan,
    with the reason against their deletion."""
    described = cluster.describe_groups(names)
    committed = cluster.committed(list(described.found))
    return DeletionPlan(
        deletions=tuple(
            Deletion(group=group, committed=committed.found[name])
            for name, group in sorted(described.found.items())
            if name in committed.found
        ),
        refused=(*described.refused, *committed.refused),
    )


def delete(
    cluster: ClusterClient,
    plan: DeletionPlan,
    *,
    undo: UndoDestination,
    now: datetime,
    on_undo_written: Callable[[Path], None] = lambda _: None,
    stop: Stop = NEVER,
) -> Deleted:
    """Deletes the groups of a plan: reads them again, writes the undo file, sends the requests, and checks which of the
    groups still exist.

    The broker itself refuses to delete a group that has got a member since it was read. `on_undo_written` gets the path
    of the undo file before anything is deleted; from then on no failure is raised: it becomes an outcome. No further
    batch begins after `stop` was requested. After a KeyboardInterrupt the broker's responses count, as far as they have
    come.
    """
    wanted = [deletion.group.name for deletion in plan.deletions]
    again = {deletion.group.name: deletion for deletion in plan_deletion(cluster, wanted).deletions}
    against = {name: _why_not(again.get(name)) for name in wanted}
    outcomes = {name: Outcome(Status.NOT_DELETED, why_not) for name, why_not in against.items() if why_not is not None}
    free = {name: again[name] for name, why_not in against.items() if why_not is None}
    if not free:
        return Deleted(outcomes=outcomes, undo_path=None)
    taken_back = _undo_of(free.values(), cluster, now)
    stop.begin()
    undo_path = write_undo(taken_back, undo) if taken_back.groups else None
    if undo_path is not None:
        on_undo_written(undo_path)
    result = _delete_all(cluster, free, stop)
    outcomes |= result.outcomes
    is_untouched = undo_path is not None and all(
        _is_untouched(outcomes[name], free[name], result.reread.found.get(name)) for name in free
    )
    if undo_path is not None and is_untouched:
        undo_path.unlink(missing_ok=True)
    return Deleted(
        outcomes={name: outcomes[name] for name in wanted},
        undo_path=None if is_untouched else undo_path,
        has_removed_undo=is_untouched,
        was_stopped=result.was_stopped,
    )


def _why_not(deletion: Deletion | None) -> str | None:
    return "it is gone already, or cannot be seen any more" if deletion is None else deletion.why_not


def _undo_of(deletions: Collection[Deletion], cluster: ClusterClient, now: datetime) -> Undo:
    """Covers only groups that have offsets, and no share groups: their positions cannot be committed."""
    restorable = [each for each in deletions if each.committed and each.group.type is not GroupType.SHARE]
    topics = (
        cluster.topics({tp.topic for deletion in restorable for tp in deletion.committed}).found if restorable else {}
    )
    return Undo(
        operation="groups delete",
        cluster_id=cluster.cluster_id(),
        made_at=now,
        groups=tuple(
            (
                deletion.group.name,
                tuple(
                    UndoStep(
                        tp=tp,
                        topic_id=topics[tp.topic].id if tp.topic in topics else None,
                        before=offset._replace(reported_lag=None),
                        after=None,
                    )
                    for tp, offset in sorted(deletion.committed.items())
                ),
            )
            for deletion in restorable
        ),
    )


class _BatchResult(NamedTuple):
    """The outcomes of groups, and what exists now."""

    outcomes: Mapping[str, Outcome]
    reread: "_Reread"
    was_stopped: bool


def _delete_all(cluster: ClusterClient, names: Collection[str], stop: Stop) -> _BatchResult:
    steps = _Progress()
    reread = _Reread({}, ())
    is_cut_off = False
    try:
        _delete(cluster, list(names), steps, stop)
        reread = _reread(cluster, steps.begun)
    except KeyboardInterrupt:
        is_cut_off = True
    outcomes = {
        name: _outcome(name, steps, reread) if name in steps.begun else Outcome(Status.NOT_TRIED, "interrupted before")
        for name in names
    }
    return _BatchResult(outcomes, reread, was_stopped=is_cut_off or stop.is_asked())


@dataclass(slots=True)
class _Progress:
    """The groups for which a deletion was requested, and the broker's answers. It is consistent at any moment of an
    interrupt."""

    begun: list[str] = field(default_factory=list)
    errors: dict[str, ErrorCode] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def _delete(cluster: ClusterClient, names: list[str], steps: _Progress, stop: Stop) -> None:
    for first in range(0, len(names), GROUPS_AT_ONCE):
        if stop.is_asked():
            return
        batch = names[first : first + GROUPS_AT_ONCE]
        steps.begun += batch
        try:
            steps.errors |= cluster.delete_groups(batch).found
        except Exception as error:  # any failure: some groups may be deleted, and that must be reported
            steps.failures |= dict.fromkeys(batch, f"it failed: {error}")


class _Reread(NamedTuple):
    """The result of reading the groups again: those that exist, and the names of those that do not."""

    found: Mapping[str, Deletion]
    gone: Collection[str]


def _reread(cluster: ClusterClient, names: list[str]) -> _Reread:
    try:
        plan = plan_deletion(cluster, names)
    except Exception:  # then nothing is known, and the outcomes say so
        return _Reread({}, ())
    absent = refused_names(plan.refused, Resource.GROUP, errors={ErrorCode.group_id_not_found})
    return _Reread(
        {deletion.group.name: deletion for deletion in plan.deletions},
        absent.intersection(names),
    )


def _outcome(name: str, steps: _Progress, reread: _Reread) -> Outcome:
    """Judges by what exists now. The broker's answer counts only for a group that cannot be read again."""
    error = steps.errors.get(name)
    reason = steps.failures.get(name) or _format_error(error)
    if name in reread.gone:
        return Outcome(Status.DELETED)
    if name not in reread.found:
        if error is ErrorCode.none:
            return Outcome(Status.DELETED)
        return Outcome(Status.UNKNOWN, f"{reason}; it could not be read again: look with `kcoord groups list`")
    if error is ErrorCode.none:
        return Outcome(Status.NOT_DELETED, "the broker deleted it, and it is there again")
    if error in _MAY_BE_DONE:
        return Outcome(Status.UNKNOWN, f"{reason}; it is there still, and may be deleted yet")
    return Outcome(Status.NOT_DELETED, reason)


def _is_untouched(outcome: Outcome, before: Deletion, now: Deletion | None) -> bool:
    if outcome.status is Status.NOT_TRIED:
        return True
    return outcome.status is Status.NOT_DELETED and now is not None and now.committed == before.committed


# A coordinator also sends these errors if its records were not replicated in time; they may be replicated later.
_MAY_BE_DONE: Final = (
    None,
    ErrorCode.network_exception,
    ErrorCode.request_timed_out,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.unknown_server_error,
)
_WHY: Final = {
    ErrorCode.non_empty_group: "a member has joined it meanwhile (NON_EMPTY_GROUP)",
    ErrorCode.group_authorization_failed: "not allowed: DELETE on the group is needed (GROUP_AUTHORIZATION_FAILED)",
    ErrorCode.network_exception: "the connection broke (NETWORK_EXCEPTION)",
}


def _format_error(error: ErrorCode | None) -> str:
    if error is None:
        return "the broker said nothing of it"
    return _WHY.get(error, error.name.upper())
