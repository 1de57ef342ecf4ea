"""Recovery: the state that a coordinator rebuilds from records, and the members that must join again."""

from collections.abc import Callable
from typing import Any

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.effects import NO_EFFECTS
from kcoord.groups.records import GroupStored, StoredMember
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.settings import Settings
from tests.support.groups.scene import Scene, subscription


def state_of(group: Group) -> dict[str, Any]:
    """Returns the durable state of a group, without tickets and counters."""
    return {
        "state": group.state,
        "since": group.since_ms if group.is_empty else None,
        "generation": group.generation,
        "protocol type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader_id,
        "instances": group.member_ids_by_instance,
        "subscribed topics": group.subscribed_topics,
        "offsets": group.offsets,
        "members": [
            (
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout,
                member.rebalance_timeout,
                member.protocols,
                member.assignment,
                member.session.at,
            )
            for member in group.members.values()
        ],
    }


def _stable(scene: Scene) -> None:
    leader, *_ = scene.stable_group(3, protocols=(("range", subscription("t")),))
    scene.commit({("t", 0): 7, ("u", 1): 8}, member_id=leader.member_id, generation=2, metadata="note")


def _stable_without_leader_of_old(scene: Scene) -> None:
    leader, *others = scene.stable_group(3)
    scene.leave(leader.member_id)
    for asking in [scene.join(other.member_id) for other in others]:
        scene.sync(asking.reply.member_id, 3, {asking.reply.member_id: b"x"})


def _static_came_back(scene: Scene) -> None:
    scene.stable_group(2, static=True, protocols=(("range", subscription("t")),))
    scene.join("", "i0", protocols=(("range", subscription("u")),), session_timeout=20)
    scene.join("", "i1", protocols=(("range", subscription("t")),))


def _empty(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.commit({("t", 0): 7}, member_id=member.member_id, generation=1)
    scene.pass_time(10)


def _never_joined(scene: Scene) -> None:
    scene.join(needs_known_id=True)
    scene.pass_time(60)


def _simple(scene: Scene) -> None:
    scene.commit({("t", 0): 7})
    scene.commit({("t", 0): 8, ("t", 1): 9})
    scene.delete_offsets({"t": [1]})


@pytest.mark.parametrize(
    "live", [_stable, _stable_without_leader_of_old, _static_came_back, _empty, _never_joined, _simple]
)
def test_what_is_read_is_what_was_there(scene: Scene, live: Callable[[Scene], None]) -> None:
    live(scene)
    group = scene.coordinator.groups["g"]
    for member in group.members.values():
        group.renew_session(member, scene.now)
    before = state_of(group)
    if live is _simple:
        before["since"] = None  # no record has the time when it was made
    if live is _static_came_back:
        # As in Kafka, subscriptions are stored when a generation begins, and when a group is loaded.
        assert before["subscribed topics"] == {"t"}
        before["subscribed topics"] = {"t", "u"}
    scene.restart()
    assert scene.coordinator.groups["g"] is not group
    assert state_of(scene.coordinator.groups["g"]) == before


def test_a_deleted_group_is_not_read_again(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.commit({("t", 0): 7}, member_id=member.member_id, generation=1)
    scene.leave(member.member_id)
    scene.delete_groups("g")
    scene.restart()
    assert scene.coordinator.groups == {}


def test_members_go_on_after_a_restart_with_all_of_a_session_before_them(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.pass_time(9)
    scene.restart()
    scene.pass_time(9.9)
    assert scene.sync(follower.member_id, 2).reply.assignment == b"assignment of 1"
    assert scene.heartbeat(leader.member_id, 2).error_code is ErrorCode.none
    scene.pass_time(0.1)
    assert scene.heartbeat(leader.member_id, 2).error_code is ErrorCode.rebalance_in_progress
    assert scene.heartbeat(follower.member_id, 2).error_code is ErrorCode.unknown_member_id


def test_after_a_restart_a_leader_still_begins_rebalances_and_a_follower_does_not(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.restart()
    assert scene.join(follower.member_id).reply.generation_id == 2
    assert scene.join(leader.member_id).is_parked


def test_a_rebalance_that_was_under_way_is_forgotten(scene: Scene) -> None:
    """The last record has a stable group, so its members go on; members that joined since must join again."""
    leader, follower = scene.stable_group(2)
    newcomer = scene.join()
    scene.join(leader.member_id)
    scene.join(follower.member_id)
    scene.restart()
    assert scene.state() == "Stable"
    assert scene.heartbeat(leader.member_id, 2).error_code is ErrorCode.none
    assert scene.heartbeat(newcomer.reply.member_id, 3).error_code is ErrorCode.unknown_member_id


def test_a_group_that_is_larger_than_allowed_meanwhile_shrinks_to_those_first_to_return(scene: Scene) -> None:
    members = scene.stable_group(4)
    scene.settings = Settings(group_initial_rebalance_delay_ms=0, group_max_size=2)
    scene.restart()
    assert scene.state() == "PreparingRebalance"
    assert scene.heartbeat(members[3].member_id, 2).error_code is ErrorCode.rebalance_in_progress
    askings = [scene.join(member.member_id) for member in reversed(members)]
    refused = JoinReply(member_id="", error_code=ErrorCode.group_max_size_reached)
    assert [asking.reply for asking in askings[2:]] == [refused, refused]
    scene.pass_time(60)
    assert {asking.reply.generation_id for asking in askings[:2]} == {3}
    assert {asking.reply.leader for asking in askings[:2]} <= {members[2].member_id, members[3].member_id}


def test_a_record_that_names_a_leader_that_is_no_member_stops_nothing(scene: Scene) -> None:
    """Such a record is never written, but it may be corrupt."""
    member = StoredMember(
        member_id="m",
        instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10,
        rebalance_timeout=60,
        subscription=b"subscription",
        assignment=b"",
    )
    scene.records = [
        GroupStored(
            group_id="g",
            generation=4,
            protocol_type="consumer",
            protocol="range",
            leader_id="nobody",
            since_ms=0,
            members=(member,),
        )
    ]
    scene.restart()
    reply = scene.join("m").reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (ErrorCode.none, 5, "m")


# Letting go.


def test_whoever_waits_is_told_when_the_coordinator_lets_go(scene: Scene) -> None:
    leader, follower, _ = scene.stable_group(3, group_id="joining")
    joins = [
        scene.join(leader.member_id, group_id="joining"),
        scene.join(group_id="joining"),
        scene.join("", "i", group_id="joining"),
    ]
    _, *waiting = scene.completing_group(3, group_id="syncing")
    syncs = [scene.sync(member.member_id, 2, group_id="syncing") for member in waiting]
    given = scene.join(needs_known_id=True, group_id="given").reply.member_id
    assert all(asking.is_parked for asking in joins)
    assert all(asking.is_parked for asking in syncs)
    scene.take(scene.coordinator.unload(scene.at()))
    error = ErrorCode.not_coordinator
    assert [asking.reply.error_code for asking in joins] == [error] * 3
    assert joins[0].reply == JoinReply(member_id=leader.member_id, error_code=error)
    assert [asking.reply for asking in syncs] == [SyncReply(error_code=error)] * 2
    assert scene.coordinator.groups == {}
    assert scene.heartbeat(follower.member_id, 2, group_id="joining").error_code is ErrorCode.unknown_member_id
    assert scene.join(given, group_id="given").reply.error_code is ErrorCode.unknown_member_id


def test_letting_go_writes_nothing(scene: Scene) -> None:
    scene.stable_group(2)
    scene.join()
    effects = scene.coordinator.unload(scene.at())
    assert effects.records == ()
    assert scene.coordinator.unload(scene.at()) == NO_EFFECTS


def test_a_coordinator_that_let_go_can_read_its_groups_again(scene: Scene) -> None:
    """This happens after a failed append: durable records are replayed, and the others have no effect."""
    leader, follower = scene.stable_group(2)
    records = list(scene.records)
    scene.join(leader.member_id)
    scene.join(follower.member_id)
    scene.sync(leader.member_id, 3, {})
    scene.take(scene.coordinator.unload(scene.at()))
    for record in records:
        scene.coordinator.replay(record)
    scene.take(scene.coordinator.resume(scene.at()))
    assert scene.state() == "Stable"
    assert scene.sync(follower.member_id, 2).reply.assignment == b"assignment of 1"
    scene.pass_time(10)
    assert scene.state() == "Empty"
