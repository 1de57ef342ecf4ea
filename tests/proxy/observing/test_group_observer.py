"""What a proxy learns of groups from forwarded requests and responses."""

import logging

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.proxy.observing.group_observer import GroupObserver

from ..guard_scene import Clock, Coordinator, FakeClient, answered, asked, join, joining_beat

ANN, BOB = FakeClient(client_id="ann", host="10.0.0.1"), FakeClient(client_id="bob", host="10.0.0.2")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watching(clock: Clock) -> GroupObserver:
    return GroupObserver(clock)


@pytest.fixture
def coordinator(watching: GroupObserver) -> Coordinator:
    return Coordinator(watching)


@pytest.fixture
def stable(coordinator: Coordinator) -> Coordinator:
    """Returns a coordinator whose group has members a, the leader, and b, in generation 2."""
    coordinator.join_and_answer(ANN, "g", "a", generation=1, leads=("a",))
    coordinator.sync(ANN, "g", "a", generation=1)
    second = join("g", "b")
    coordinator.ask(BOB, second)
    coordinator.beat(ANN, "g", "a", generation=1, error_code=ErrorCode.rebalance_in_progress)
    coordinator.join_and_answer(ANN, "g", "a", generation=2, leads=("a", "b"))
    coordinator.admit(BOB, second, "b", generation=2)
    for client, member_id in ((ANN, "a"), (BOB, "b")):
        coordinator.sync(client, "g", member_id, generation=2)
    return coordinator


def _state(watching: GroupObserver, group_id: str = "g") -> str:
    group = watching.group(group_id)
    assert group is not None
    return str(group.state)


def _size(watching: GroupObserver, clock: Clock, group_id: str = "g") -> int:
    group = watching.group(group_id)
    assert group is not None
    return group.size(clock())


def heartbeat(
    coordinator: Coordinator,
    client: FakeClient,
    member_id: str,
    epoch: int,
    *,
    epoch_in_answer: int = 0,
    instance_id: str | None = None,
    error_code: ErrorCode = ErrorCode.none,
) -> None:
    """Sends a ConsumerGroupHeartbeat and its answer."""
    request = joining_beat("g", member_id, member_epoch=epoch, instance_id=instance_id)
    coordinator.answer(
        client, request, member_id=member_id, member_epoch=epoch_in_answer, assignment=None, error_code=error_code
    )


def _kind(watching: GroupObserver) -> str:
    (view,) = watching.groups()
    return view.kind


def test_a_member_that_asks_for_an_id_changes_nothing(coordinator: Coordinator, watching: GroupObserver) -> None:
    request = join("g")
    coordinator.ask(ANN, request)
    coordinator.give_id(ANN, request, "a")
    assert watching.group("g") is None
    assert not watching.rebalances


def test_a_group_goes_through_its_states_as_its_members_join_and_sync(
    coordinator: Coordinator, watching: GroupObserver
) -> None:
    request = join("g", "a")
    coordinator.ask(ANN, request)
    assert _state(watching) == "PreparingRebalance"
    coordinator.admit(ANN, request, "a", generation=1, leads=("a",))
    assert _state(watching) == "CompletingRebalance"
    coordinator.sync(ANN, "g", "a", generation=1)
    assert _state(watching) == "Stable"
    assert watching.rebalances == {"joined": 1}


def test_a_rebalance_is_counted_once_for_all_its_members(stable: Coordinator, watching: GroupObserver) -> None:
    assert watching.rebalances == {"joined": 2}
    assert watching.groups_by_state() == {"Stable": 1}
    assert watching.member_count() == 2


def test_an_operator_sees_who_the_members_are(stable: Coordinator, watching: GroupObserver) -> None:
    (view,) = watching.groups()
    assert (view.group_id, view.kind, view.state, view.generation) == ("g", "classic", "Stable", 2)
    assert (view.protocol_type, view.protocol, view.rebalances) == ("consumer", "range", 2)
    assert [(each.member_id, each.client_id, each.host) for each in view.members] == [
        ("a", "app", "10.0.0.1"),
        ("b", "app", "10.0.0.2"),
    ]


def test_who_leaves_is_the_cause_of_the_rebalance_that_follows(
    stable: Coordinator, watching: GroupObserver, caplog: pytest.LogCaptureFixture
) -> None:
    stable.leave(BOB, "g", "b", reason="the consumer is being\nclosed")
    assert _state(watching) == "PreparingRebalance"
    stable.beat(ANN, "g", "a", generation=2, error_code=ErrorCode.rebalance_in_progress)
    with caplog.at_level(logging.INFO):
        stable.join_and_answer(ANN, "g", "a", generation=3, leads=("a",))
        stable.sync(ANN, "g", "a", generation=3)
    assert watching.rebalances == {"joined": 2, "left": 1}
    assert caplog.messages == [
        "rebalance group=g generation=3 members=1 cause=left protocol=range why='the consumer is being\\nclosed'"
    ]


def test_the_last_who_leaves_leaves_an_empty_group(stable: Coordinator, watching: GroupObserver) -> None:
    stable.leave(BOB, "g", "b")
    stable.leave(ANN, "g", "a")
    assert _state(watching) == "Empty"
    assert watching.member_count() == 0


def test_a_member_that_is_missing_without_having_left_has_expired(stable: Coordinator, watching: GroupObserver) -> None:
    stable.beat(ANN, "g", "a", generation=2, error_code=ErrorCode.rebalance_in_progress)
    stable.join_and_answer(ANN, "g", "a", generation=3, leads=("a",))
    stable.sync(ANN, "g", "a", generation=3)
    assert watching.rebalances == {"joined": 2, "session-expired": 1}


def test_a_rebalance_that_nobody_here_began_came_from_elsewhere(stable: Coordinator, watching: GroupObserver) -> None:
    for client, member_id in ((ANN, "a"), (BOB, "b")):
        stable.beat(client, "g", member_id, generation=2, error_code=ErrorCode.rebalance_in_progress)
    stable.join_and_answer(BOB, "g", "b", generation=3)
    stable.join_and_answer(ANN, "g", "a", generation=3, leads=("a", "b", "of-another-proxy"))
    stable.sync(ANN, "g", "a", generation=3)
    assert watching.rebalances == {"joined": 2, "elsewhere": 1}
    assert watching.member_count() == 3


@pytest.mark.parametrize(("topics", "cause"), [(("orders", "bills"), "new-subscription"), (("orders",), "rejoined")])
def test_a_member_that_joins_again_is_told_by_its_topics(
    stable: Coordinator, watching: GroupObserver, topics: tuple[str, ...], cause: str
) -> None:
    request = join("g", "a", topics=topics, reason="because")
    stable.ask(ANN, request)
    stable.join_and_answer(BOB, "g", "b", generation=3)
    stable.admit(ANN, request, "a", generation=3, leads=("a", "b"))
    stable.sync(ANN, "g", "a", generation=3)
    assert watching.rebalances == {"joined": 2, cause: 1}


def test_a_join_that_is_answered_with_the_generation_that_there_is_was_no_rebalance(
    stable: Coordinator, watching: GroupObserver
) -> None:
    stable.join_and_answer(BOB, "g", "b", generation=2)
    assert _state(watching) == "Stable"
    assert watching.rebalances == {"joined": 2}


def test_a_static_member_that_returns_takes_its_own_place(coordinator: Coordinator, watching: GroupObserver) -> None:
    coordinator.join_and_answer(ANN, "g", "a-1", generation=1, leads=("a-1",), group_instance_id="a")
    coordinator.sync(ANN, "g", "a-1", generation=1)
    request = join("g", group_instance_id="a")
    coordinator.ask(ANN, request)
    coordinator.admit(ANN, request, "a-2", generation=1)
    assert watching.rebalances == {"joined": 1}
    again = join("g", group_instance_id="a", topics=("bills",))
    coordinator.ask(ANN, again)
    coordinator.admit(ANN, again, "a-3", generation=2, leads=("a-3",))
    coordinator.sync(ANN, "g", "a-3", generation=2)
    assert watching.rebalances == {"joined": 1, "static-returned": 1}
    assert watching.member_count() == 1


def test_a_generation_that_is_never_complete_is_counted_when_the_next_comes(
    coordinator: Coordinator, watching: GroupObserver
) -> None:
    coordinator.join_and_answer(ANN, "g", "a", generation=1, leads=("a",))
    coordinator.join_and_answer(ANN, "g", "a", generation=2, leads=("a",))
    assert watching.rebalances == {"joined": 1}
    coordinator.sync(ANN, "g", "a", generation=2)
    assert watching.rebalances.total() == 2


def test_a_group_that_was_deleted_begins_anew(stable: Coordinator, watching: GroupObserver) -> None:
    stable.leave(ANN, "g", "a")
    stable.leave(BOB, "g", "b")
    stable.join_and_answer(ANN, "g", "new", generation=1, leads=("new",))
    stable.sync(ANN, "g", "new", generation=1)
    (view,) = watching.groups()
    assert (view.generation, view.state, len(view.members)) == (1, "Stable", 1)
    assert watching.rebalances == {"joined": 3}


def test_a_client_that_hangs_up_waits_no_longer(stable: Coordinator, watching: GroupObserver) -> None:
    new = FakeClient()
    stable.ask(new, join("g", "c"))
    assert _state(watching) == "PreparingRebalance"
    watching.on_closed(new)
    assert _state(watching) == "Stable"


def test_a_client_that_hangs_up_waits_no_longer_in_any_of_the_groups_that_it_asked_to_join(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    for group_id in ("g", "h"):
        coordinator.ask(ANN, join(group_id, "c"))
    assert [watching.group(group_id).size(clock()) for group_id in ("g", "h")] == [1, 1]  # type: ignore[union-attr]
    watching.on_closed(ANN)
    assert [watching.group(group_id).size(clock()) for group_id in ("g", "h")] == [0, 0]  # type: ignore[union-attr]


def test_joins_of_one_client_wait_each_for_its_own_answer(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    same = join("g", version=3)
    for _ in range(3):
        coordinator.ask(ANN, same)
    assert _size(watching, clock) == 3
    coordinator.admit(ANN, same, "a", generation=1, leads=("a",))
    assert _size(watching, clock) == 3
    coordinator.answer(ANN, same, error_code=ErrorCode.not_coordinator, protocol_name="")
    assert _size(watching, clock) == 2


def test_a_static_member_on_the_way_back_is_counted_once(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    coordinator.join_and_answer(ANN, "g", "a-1", generation=1, leads=("a-1",), group_instance_id="a")
    for client in (ANN, BOB):
        coordinator.ask(client, join("g", group_instance_id="a"))
        coordinator.ask(client, join("g", group_instance_id="new"))
    assert _size(watching, clock) == 2
    clock.pass_time(11)
    assert _size(watching, clock) == 2


def test_a_generation_that_is_older_than_the_proxy_is_no_rebalance(
    coordinator: Coordinator, watching: GroupObserver
) -> None:
    coordinator.beat(ANN, "g", "a", generation=57)
    (view,) = watching.groups()
    assert (view.state, view.generation, len(view.members)) == ("Stable", 57, 1)
    assert not watching.rebalances


def test_silent_members_are_not_counted_for_longer_than_their_session(
    stable: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    clock.pass_time(9)
    stable.beat(ANN, "g", "a", generation=2)
    clock.pass_time(2)
    assert watching.member_count() == 1


def test_members_that_do_not_come_by_here_are_there_as_long_as_their_generation(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    coordinator.join_and_answer(ANN, "g", "a", generation=1, leads=("a", "far", "away"))
    for _ in range(5):
        clock.pass_time(9)
        coordinator.beat(ANN, "g", "a", generation=1)
    assert watching.member_count() == 3
    clock.pass_time(11)
    assert watching.member_count() == 0


def test_a_member_that_the_coordinator_does_not_know_is_forgotten(stable: Coordinator, watching: GroupObserver) -> None:
    stable.beat(BOB, "g", "b", generation=2, error_code=ErrorCode.unknown_member_id)
    assert watching.member_count() == 1


def test_a_bounded_number_of_groups_is_remembered_those_last_heard_of(clock: Clock) -> None:
    watching = GroupObserver(clock, max_groups=2)
    coordinator = Coordinator(watching)
    for group_id in ("old", "busy"):
        coordinator.join_and_answer(ANN, group_id, "a", generation=1, leads=("a",))
    coordinator.beat(ANN, "old", "a", generation=1)
    coordinator.join_and_answer(ANN, "new", "a", generation=1, leads=("a",))
    assert {view.group_id for view in watching.groups()} == {"old", "new"}


def test_errors_are_counted_by_api_and_name(stable: Coordinator, watching: GroupObserver) -> None:
    before = watching.errors.copy()
    for _ in range(2):
        stable.beat(ANN, "g", "a", generation=1, error_code=ErrorCode.illegal_generation)
    stable.beat(ANN, "g", "a", generation=2)
    assert watching.errors - before == {(12, "ILLEGAL_GENERATION"): 2}


def test_errors_about_groups_that_are_not_known_make_none(coordinator: Coordinator, watching: GroupObserver) -> None:
    coordinator.beat(ANN, "guessed", "x", generation=1, error_code=ErrorCode.unknown_member_id)
    assert watching.group("guessed") is None


def test_an_answer_that_cannot_be_read_is_passed_by(watching: GroupObserver) -> None:
    watching.response(ANN, join("g", "a"), b"\x00\x00\x00\x2a\x00rubbish")
    assert watching.group("g") is None


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_a_join_is_understood(coordinator: Coordinator, watching: GroupObserver, version: int) -> None:
    coordinator.join_and_answer(ANN, "g", "a", generation=1, leads=("a",), version=version)
    assert _state(watching) == "CompletingRebalance"


def test_members_of_the_newer_protocol_are_known_by_their_heartbeats(watching: GroupObserver, clock: Clock) -> None:
    def beat(member_id: str, epoch: int, epoch_in_answer: int, topics: list[str] | None = None) -> None:
        request = asked(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout=60.0,
            subscribed_topic_names=topics,
            topic_partitions=None,
        )
        frame = answered(
            request, member_id=member_id, member_epoch=epoch_in_answer, heartbeat_interval=5.0, assignment=None
        )
        watching.response(ANN, request, frame)

    beat("a", 0, 1, ["orders"])
    beat("b", 0, 2, ["orders"])
    assert watching.groups_by_state() == {"Reconciling": 1}
    beat("a", 1, 2)
    assert watching.groups_by_state() == {"Stable": 1}
    beat("a", 2, 3, ["orders", "bills"])
    beat("b", 2, 3)
    beat("b", -1, -1)
    beat("a", 3, 4)
    assert watching.rebalances == {"joined": 2, "new-subscription": 1, "left": 1}
    assert watching.member_count() == 1
    clock.pass_time(100)
    beat("a", 4, 4)
    (view,) = watching.groups()
    assert (view.kind, view.generation, len(view.members)) == ("consumer", 4, 1)


# Groups of one kind that clients use as the other kind


def test_a_refused_heartbeat_of_the_newer_protocol_leaves_a_classic_group_as_it_is(
    stable: Coordinator, watching: GroupObserver
) -> None:
    for epoch in (0, 7):
        heartbeat(stable, ANN, "zz", epoch, error_code=ErrorCode.group_id_not_found)
    assert (_kind(watching), _state(watching), watching.member_count()) == ("classic", "Stable", 2)


@pytest.mark.parametrize("error", [ErrorCode.member_id_required, ErrorCode.inconsistent_group_protocol])
def test_a_refused_join_leaves_a_group_of_the_newer_protocol_as_it_is(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock, error: ErrorCode
) -> None:
    heartbeat(coordinator, ANN, "a", 0, epoch_in_answer=1)
    request = join("g", version=3)
    coordinator.ask(BOB, request)
    assert (_kind(watching), _size(watching, clock)) == ("consumer", 2)
    coordinator.answer(BOB, request, error_code=error, protocol_name="")
    assert (_kind(watching), _size(watching, clock)) == ("consumer", 1)


@pytest.mark.parametrize("instance_id", [None, "a"])
def test_a_leave_that_is_refused_of_all_it_names_leaves_the_group_as_it_is(
    coordinator: Coordinator, watching: GroupObserver, instance_id: str | None
) -> None:
    heartbeat(coordinator, ANN, "a", 0, epoch_in_answer=1)
    stranger = {"member_id": "", "group_instance_id": instance_id}
    request = asked(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[stranger])
    coordinator.answer(BOB, request, members=[{**stranger, "error_code": ErrorCode.unknown_member_id}])
    assert (_kind(watching), watching.member_count()) == ("consumer", 1)


def test_a_group_that_is_answered_for_as_one_of_the_other_kind_is_one_and_has_the_same_members(
    coordinator: Coordinator, watching: GroupObserver, clock: Clock
) -> None:
    coordinator.join_and_answer(ANN, "g", "a", generation=4, leads=("a",))
    heartbeat(coordinator, BOB, "b", 0, epoch_in_answer=5)
    assert (_kind(watching), watching.member_count()) == ("consumer", 2)
    coordinator.join_and_answer(ANN, "g", "a", generation=5)
    assert (_kind(watching), watching.member_count()) == ("classic", 2)
    (view,) = watching.groups()
    assert (view.generation, view.rebalances) == (5, 2)
    for _ in range(4):
        clock.pass_time(9)
        coordinator.beat(ANN, "g", "a", generation=5)
        heartbeat(coordinator, BOB, "b", 5, epoch_in_answer=5)
    clock.pass_time(9)
    coordinator.beat(ANN, "g", "a", generation=5)
    assert watching.member_count() == 2
    clock.pass_time(40)
    coordinator.beat(ANN, "g", "a", generation=5)
    assert watching.member_count() == 1, "who is not heard of does not live on by turns of the kind"


def test_a_classic_group_that_nobody_is_left_of_may_begin_anew_as_one_of_the_newer_protocol(
    stable: Coordinator, watching: GroupObserver
) -> None:
    stable.leave(ANN, "g", "a")
    stable.leave(BOB, "g", "b")
    heartbeat(stable, ANN, "new", 0, epoch_in_answer=1)
    assert watching.rebalances == {"joined": 3}
    (view,) = watching.groups()
    assert (view.kind, view.generation, len(view.members)) == ("consumer", 1, 1)


def test_a_static_member_of_the_newer_protocol_keeps_its_place_and_takes_it_again(
    coordinator: Coordinator, watching: GroupObserver
) -> None:
    heartbeat(coordinator, ANN, "a-1", 0, epoch_in_answer=1, instance_id="a")
    heartbeat(coordinator, ANN, "a-1", -2, epoch_in_answer=-2, instance_id="a")
    assert watching.member_count() == 1
    heartbeat(coordinator, BOB, "a-2", 0, epoch_in_answer=1, instance_id="a")
    assert watching.member_count() == 1
    heartbeat(coordinator, BOB, "a-2", -1, epoch_in_answer=-1, instance_id="a")
    assert watching.member_count() == 0
    assert watching.rebalances == {"joined": 1}


def test_who_has_a_wrong_epoch_is_a_member_still_and_who_is_not_known_is_none(
    coordinator: Coordinator, watching: GroupObserver
) -> None:
    heartbeat(coordinator, ANN, "a", 0, epoch_in_answer=1)
    heartbeat(coordinator, ANN, "a", 7, error_code=ErrorCode.fenced_member_epoch)
    assert watching.member_count() == 1
    heartbeat(coordinator, ANN, "a", 7, error_code=ErrorCode.unknown_member_id)
    assert watching.member_count() == 0
