"""Findings about rebalances, from successive snapshots."""

import pytest

from kcoord.admin.doctor.case import Facts
from kcoord.admin.doctor.examining import examine
from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import Group, GroupType
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import group, member, seen, snapshot, tp

WAITING = group(member("a", topics=["t"]), member("b", topics=["t"]), state="PreparingRebalance")
STABLE = group(member("a", "t-0"), member("b", "t-1"))


def _seen_every(seconds: float, *groups: Group) -> list[Snapshot]:
    return [snapshot(seen(each), after=seconds * number) for number, each in enumerate(groups)]


def test_one_look_at_a_rebalance_is_a_notice() -> None:
    found = findings(snapshot(seen(WAITING)))[Code.STUCK_REBALANCE]
    assert found.severity is Severity.NOTICE
    assert found.title == "the group is rebalancing: PreparingRebalance"
    assert "--for" in found.advice


@pytest.mark.parametrize(
    ("state", "advised"),
    [
        ("PreparingRebalance", "max.poll.interval.ms"),
        ("CompletingRebalance", "the member that leads the group"),
    ],
)
def test_a_rebalance_that_is_seen_all_the_time_is_an_error(state: str, advised: str) -> None:
    waiting = group(*WAITING.members, state=state)
    found = findings(*_seen_every(6, waiting, waiting, waiting))[Code.STUCK_REBALANCE]
    assert found.severity is Severity.ERROR
    assert found.title == f"the rebalance has not ended in 12s: {state}"
    assert found.evidence == (f"in 3 looks: {state}; 2 members",)
    assert advised in found.advice


def test_a_new_group_names_the_members_it_waits_for() -> None:
    late = member("a", "t-0", "t-1", target=(tp("t-0"),), epoch=4)
    done = member("b", target=(), epoch=5, topics=["t"])
    waiting = group(late, done, state="Reconciling", kind=GroupType.CONSUMER, epoch=5, assignment_epoch=5)
    found = findings(*_seen_every(10, waiting, waiting))[Code.STUCK_REBALANCE]
    assert found.evidence == (
        "in 2 looks: Reconciling; 2 members",
        "waits for a 10.0.0.1 (a-id), at epoch 4",
    )


def test_a_rebalance_that_ends_is_well() -> None:
    assert not findings(*_seen_every(10, WAITING, STABLE))


def test_rebalances_that_come_again_and_again_are_counted() -> None:
    snapshots = _seen_every(2, STABLE, WAITING, STABLE, WAITING, STABLE, WAITING, STABLE)
    found = findings(*snapshots)[Code.FREQUENT_REBALANCES]
    assert found.severity is Severity.WARNING
    assert found.title == "at least 3 rebalances in 12s"
    assert found.evidence[0] == "one in 4s in the mean"
    assert found.evidence[1].endswith("Stable → PreparingRebalance")


def test_two_rebalances_are_an_ordinary_deployment() -> None:
    assert not findings(*_seen_every(10, STABLE, WAITING, STABLE, WAITING, STABLE))


def test_members_that_come_back_under_new_ids_are_named_also_where_the_group_seems_stable() -> None:
    lives = [group(member("a", "t-0"), member("b", "t-1", member_id=f"b-{life}")) for life in range(5)]
    found = findings(*_seen_every(3, *lives))[Code.FREQUENT_REBALANCES]
    assert found.title == "at least 4 rebalances in 12s"
    assert found.evidence[1] == "b 10.0.0.1: came back under 5 member ids"
    assert found.facts["member_ids_by_client"] == {"b 10.0.0.1": 5}
    assert "max.poll.interval.ms" in found.advice


def test_partitions_that_wander_between_the_same_members_are_rebalances() -> None:
    other = group(member("a", "t-1"), member("b", "t-0"))
    found = findings(*_seen_every(3, STABLE, other, STABLE, other))
    assert found.keys() == {Code.FREQUENT_REBALANCES}


def test_the_epochs_of_a_new_group_count_what_looks_do_not_see() -> None:
    groups = [
        group(member("a", "t-0"), kind=GroupType.CONSUMER, epoch=epoch, assignment_epoch=epoch) for epoch in (3, 3, 9)
    ]
    found = findings(*_seen_every(10, *groups))[Code.FREQUENT_REBALANCES]
    assert found.title == "at least 6 rebalances in 20s"


def test_a_storm_in_which_no_look_finds_it_stable_is_not_stuck() -> None:
    storm = [group(member("a", topics=["t"], member_id=f"a-{life}"), state="PreparingRebalance") for life in range(6)]
    assert findings(*_seen_every(3, *storm)).keys() == {Code.FREQUENT_REBALANCES}


def test_three_rebalances_without_a_stable_moment_are_a_storm_and_not_one_that_is_stuck() -> None:
    storm = [group(member("a", topics=["t"], member_id=f"a-{life}"), state="PreparingRebalance") for life in range(4)]
    assert findings(*_seen_every(5, *storm)).keys() == {Code.FREQUENT_REBALANCES}


def test_a_group_that_stays_stable_however_often_it_is_looked_at_does_not_rebalance() -> None:
    assert not findings(*_seen_every(5, *[STABLE] * 10))


def test_what_changes_in_another_group_is_no_evidence() -> None:
    states = (STABLE, WAITING, STABLE, WAITING, STABLE, WAITING, STABLE)
    others = [group(member("x", "t-0", member_id=f"x-{life}"), name="other") for life in range(len(states))]
    snapshots = [
        snapshot(seen(ours), seen(other), after=2 * number)
        for number, (ours, other) in enumerate(zip(states, others, strict=True))
    ]
    storms = {finding.group: finding for finding in examine(snapshots, Facts())}
    assert {change["kind"] for change in storms["g"].facts["changes"]} == {"state"}
    assert {change["kind"] for change in storms["other"].facts["changes"]} == {"member-left", "member-joined"}


def test_a_member_is_waited_for_until_it_has_its_target_in_the_epoch_of_the_plan() -> None:
    behind = member("behind", "t-0", target=(tp("t-0"),), epoch=4)
    busy = member("busy", "t-1", target=(), epoch=5)
    done = member("done", "t-2", target=(tp("t-2"),), epoch=5)
    waiting = group(behind, busy, done, state="Reconciling", kind=GroupType.CONSUMER, epoch=5, assignment_epoch=5)
    found = findings(snapshot(seen(waiting)))[Code.STUCK_REBALANCE]
    assert [each["client_id"] for each in found.facts["behind"]] == ["behind", "busy"]
