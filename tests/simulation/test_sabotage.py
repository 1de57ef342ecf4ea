"""The simulation can fail: each sabotage breaks the coordinator in one point, and is detected as such."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.classic import joining, sessions, syncing
from kcoord.groups.classic.fencing import fence_identity
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.prevalidated import PrevalidatedHeartbeat, PrevalidatedJoin
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.deadlines import Deadline, Deadlines
from kcoord.groups.effects import NO_EFFECTS, Effects
from kcoord.groups.offsets import committing
from kcoord.groups.records import OffsetsStored, Record
from kcoord.server.groups.group_runtime import GroupRuntime, RepeatedCommitAppender
from kcoord.storage.superseded import BatchesToRead, SupersededBatches
from kcoord.tickets import Ticket, Waits
from tests.simulation.server import WatchedLog
from tests.simulation.simulation import Simulation, SimulationFailed, run_all

SEEDS: Final = range(60)
STEPS: Final = 1000

Patch = pytest.MonkeyPatch


def sessions_are_not_renewed(patch: Patch) -> None:
    patch.setattr(Group, "renew_session", lambda group, member, now: None)


def silent_members_are_not_removed(patch: Patch) -> None:
    patch.setattr(sessions, "remove", lambda group, member: NO_EFFECTS)


def the_sync_phase_never_ends(patch: Patch) -> None:
    patch.setattr(Group, "end_sync_phase", lambda group: None)


def the_join_phase_never_ends(patch: Patch) -> None:
    patch.setattr(Group, "limit_join_phase", lambda group, deadline: None)


def an_alarm_rings_too_late(patch: Patch) -> None:
    def set_late(deadlines: Deadlines, deadline: Deadline, at: float) -> None:
        original(deadlines, deadline, at + 5)
        deadline.at = at

    original = Deadlines.set
    patch.setattr(Deadlines, "set", set_late)


def what_is_parked_is_answered_twice(patch: Patch) -> None:
    def take_some_twice(runtime: GroupRuntime) -> Any:
        replies = original(runtime)
        return replies + replies[-1:]

    original = GroupRuntime.take_replies
    patch.setattr(GroupRuntime, "take_replies", take_some_twice)


def who_waits_is_forgotten_when_the_groups_are_let_go(patch: Patch) -> None:
    _replace_effects(patch, Coordinator, "unload", lambda effects: NO_EFFECTS)


def an_assignment_is_not_journalled(patch: Patch) -> None:
    _replace_effects(patch, Coordinator, "sync", lambda effects: effects._replace(records=()))


def a_commit_is_not_journalled(patch: Patch) -> None:
    _replace_effects(patch, Coordinator, "commit", lambda effects: effects._replace(records=()))


def a_static_member_that_came_back_is_not_journalled(patch: Patch) -> None:
    _replace_effects(patch, joining, "join", lambda effects: effects._replace(records=()))


def a_failed_append_is_ignored(patch: Patch) -> None:
    def flush(log: WatchedLog, now_ms: int) -> dict[int, str]:
        original(log, now_ms)
        return {}

    original = WatchedLog.flush
    patch.setattr(WatchedLog, "flush", flush)


def offsets_are_not_replayed(patch: Patch) -> None:
    _replay_only(patch, lambda record: not isinstance(record, OffsetsStored))


def commits_of_an_old_generation_are_accepted(patch: Patch) -> None:
    def fence(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
        return fence_identity(group, member_id, instance_id)

    patch.setattr(committing, "fence", fence)


def who_is_gone_may_commit(patch: Patch) -> None:
    patch.setattr(committing, "fence", lambda group, member_id, instance_id, generation: None)


def a_generation_is_given_out_twice(patch: Patch) -> None:
    def begin_generation(group: Group, wall_ms: int) -> None:
        before = group.generation
        original(group, wall_ms)
        group.generation = max(before, 1)

    original = Group.begin_generation
    patch.setattr(Group, "begin_generation", begin_generation)


def a_member_that_is_removed_is_still_counted(patch: Patch) -> None:
    def remove(group: Group, member: Member) -> None:
        original(group, member)
        group.protocol_support["range"] = group.protocol_support.get("range", 0) + 1

    original = Group.remove
    patch.setattr(Group, "remove", remove)


def deadlines_are_never_cleared(patch: Patch) -> None:
    patch.setattr(Deadlines, "clear", lambda deadlines, deadline: None)


def members_do_not_learn_of_a_rebalance(patch: Patch) -> None:
    patch.setitem(sessions.HEARTBEAT_ERRORS, State.PREPARING_REBALANCE, ErrorCode.none)


def the_leaders_plan_is_not_handed_out(patch: Patch) -> None:
    patch.setattr(syncing, "_distribute_assignments", lambda group, plan, at: NO_EFFECTS)


def prevalidation_outlives_its_generation(patch: Patch) -> None:
    patch.setattr(PrevalidatedHeartbeat, "heartbeat", lambda prevalidated, now: True)


def a_prevalidated_join_waits_for_ever(patch: Patch) -> None:
    def ask(prevalidated: PrevalidatedJoin, subscriptions: tuple[bytes, ...], ticket: Ticket) -> Waits | None:
        reply = original(prevalidated, subscriptions, ticket)
        if reply is not None:
            prevalidated._group.take_join(prevalidated._member)
        return reply

    original = PrevalidatedJoin.apply
    patch.setattr(PrevalidatedJoin, "apply", ask)


def prevalidated_commits_are_not_journalled(patch: Patch) -> None:
    patch.setattr(RepeatedCommitAppender, "append", lambda appender, record, at: None)


def the_last_commit_counts_as_overtaken(patch: Patch) -> None:
    patch.setattr(
        SupersededBatches, "to_read", lambda overtaken, end_offset: BatchesToRead(all_before=0, base_offsets=())
    )


NOTICED: Final[dict[Callable[[Patch], None], str]] = {
    sessions_are_not_renewed: "a member would stay though it is silent",
    silent_members_are_not_removed: "a member would stay though it is silent",
    the_sync_phase_never_ends: "syncs are waited for although there is no plan to come",
    the_join_phase_never_ends: "a join phase ends some time",
    an_alarm_rings_too_late: "would be overslept",
    what_is_parked_is_answered_twice: "a request is answered once",
    who_waits_is_forgotten_when_the_groups_are_let_go: "who is not answered waits with a member",
    an_assignment_is_not_journalled: "no assignment leaves before its record",
    a_commit_is_not_journalled: "an acknowledged commit is kept",
    a_static_member_that_came_back_is_not_journalled: "a member of a Stable group is known after a crash",
    a_failed_append_is_ignored: "an acknowledged commit is kept|before its record|journals took|the log gives",
    offsets_are_not_replayed: "the log gives other offsets",
    commits_of_an_old_generation_are_accepted: "another generation is refused|although it was fenced",
    who_is_gone_may_commit: "who is no member is refused|another generation is refused|although it was fenced",
    a_generation_is_given_out_twice: "has two owners in generation",
    a_member_that_is_removed_is_still_counted: "protocols are miscounted",
    deadlines_are_never_cleared: "a sync phase goes on although there is no plan to come",
    members_do_not_learn_of_a_rebalance: "not Stable with all members",
    the_leaders_plan_is_not_handed_out: "not Stable with all members",
    prevalidation_outlives_its_generation: "who is no member is refused|another generation is refused",
    a_prevalidated_join_waits_for_ever: "who is not answered waits with a member",
    the_last_commit_counts_as_overtaken: "the log gives",
    prevalidated_commits_are_not_journalled: "an acknowledged commit is kept|the log gives other offsets",
}


@pytest.mark.parametrize("sabotage", NOTICED, ids=lambda sabotage: sabotage.__name__)
def test_sabotage_is_noticed(sabotage: Callable[[Patch], None], monkeypatch: Patch) -> None:
    sabotage(monkeypatch)
    with pytest.raises(SimulationFailed, match=NOTICED[sabotage]):
        run_all(SEEDS, STEPS)


def test_a_failure_says_how_to_see_it_again(monkeypatch: Patch) -> None:
    sessions_are_not_renewed(monkeypatch)
    with pytest.raises(SimulationFailed) as failure:
        Simulation(7, 500).run()
    *_, last = str(failure.value).splitlines()
    assert last.endswith("KCOORD_SIMULATION_STEPS=500 .venv/bin/python -m tests.simulation 7")
    assert "c0        Join" in str(failure.value), "what happened before is told"


def _replace_effects(patch: Patch, owner: Any, name: str, change: Callable[[Effects], Effects]) -> None:
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *arguments: change(original(*arguments)))


def _replay_only(patch: Patch, is_replayed: Callable[[Record], bool]) -> None:
    original = Coordinator.replay
    patch.setattr(Coordinator, "replay", lambda self, record: original(self, record) if is_replayed(record) else None)
