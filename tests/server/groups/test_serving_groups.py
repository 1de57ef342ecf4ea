"""Groups over sockets: finding the coordinator, and the fields that it stores of members."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.broker.cluster import NodeId
from kcoord.broker.describe_cluster import offsets_partition
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.server.conftest import Serve, Server

NONE = ErrorCode.none
NOT_COORDINATOR = ErrorCode.not_coordinator
SESSION = timedelta(seconds=30)
GROUP, TRANSACTION, SHARE = 0, 1, 2


def quick(serve: Serve, brokers: int = 1, properties: Mapping[str, str] = MappingProxyType({})) -> Server:
    return serve(brokers=brokers, topics=(("t", 1),), **{"group.initial.rebalance.delay.ms": "0", **properties})


def join(client: Client, group_id: str, version: int = 3, **values: Any) -> Any:
    """Joins with a version up to 3, in which members are added at once."""
    return client.ask(ApiKey.JOIN_GROUP, version, **{**_joining(group_id), **values})


def _joining(group_id: str) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "session_timeout": SESSION,
        "rebalance_timeout": SESSION,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def coordinator(client: Client, group_id: str) -> int:
    found = client.ask(ApiKey.FIND_COORDINATOR, 3, key=group_id, key_type=GROUP)
    assert found.error_code is NONE
    return int(found.node_id)


# Where the coordinator is.


@pytest.mark.fact("A-301")
@pytest.mark.parametrize("version", range(4))
def test_up_to_version_3_one_coordinator_is_looked_for(serve: Serve, version: int) -> None:
    server = quick(serve, brokers=2)
    with server.client() as client:
        for group_id in ("g", ""):
            found = client.ask(ApiKey.FIND_COORDINATOR, version, key=group_id, key_type=GROUP)
            assert found.error_code is NONE
            with Client(found.host, found.port) as at:
                assert coordinator(at, group_id) == found.node_id


@pytest.mark.fact("A-301")
@pytest.mark.parametrize("version", range(4, 7))
def test_from_version_4_on_many_are(serve: Serve, version: int) -> None:
    with quick(serve, brokers=2).client() as client:
        keys = ["g", "", "h", "g"]
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key_type=GROUP, coordinator_keys=keys).coordinators
        assert [line.key for line in found] == keys
        assert [line.error_code for line in found] == [NONE] * 4
        assert [line.node_id for line in found] == [coordinator(client, key) for key in keys]


@pytest.mark.fact("A-302")
@pytest.mark.parametrize(
    ("group_id", "partitions", "partition"),
    [
        ("", 50, 0),
        ("g", 50, 3),  # 103
        ("abc", 50, 4),  # 96,354
        ("polygenelubricants", 50, 0),  # -2^31, of which there is no absolute value: Kafka says 0
        ("orders", 50, 31),  # -1,008,770,331 by its absolute value; without the bit of its sign it would be 17
        ("\N{GRINNING FACE}", 50, 49),  # two units of UTF-16: 1,772,899
        ("g", 7, 5),
    ],
)
def test_a_group_has_the_partition_of_its_javas_hash(group_id: str, partitions: int, partition: int) -> None:
    assert offsets_partition(group_id, partitions) == partition


@pytest.mark.fact("A-302")
def test_groups_of_one_partition_have_one_coordinator_and_others_are_elsewhere(serve: Serve) -> None:
    with quick(serve, brokers=3).client() as client:
        nodes: dict[int, set[int]] = {}
        for number in range(200):
            nodes.setdefault(offsets_partition(f"g{number}", 50), set()).add(coordinator(client, f"g{number}"))
        assert all(len(of_partition) == 1 for of_partition in nodes.values())
        assert {node for of_partition in nodes.values() for node in of_partition} == {1, 2, 3}


@pytest.mark.fact("A-305", "A-306")
@pytest.mark.parametrize("key_type", [SHARE, 3, 127, -1])
@pytest.mark.parametrize("version", [1, 3, 4, 5])
def test_of_other_kinds_of_keys_there_is_no_coordinator(serve: Serve, key_type: int, version: int) -> None:
    with quick(serve).client() as client:
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key_type=key_type, key="g", coordinator_keys=["g"])
        line = found.coordinators[0] if version >= 4 else found
        assert (line.error_code, line.node_id) == (ErrorCode.invalid_request, -1)


def test_the_wrong_node_sends_away_whatever_it_is_asked(serve: Serve) -> None:
    server = quick(serve, brokers=2)
    with server.client() as client:
        right = coordinator(client, "g")
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    with server.client(3 - right) as wrong:
        assert join(wrong, "g").error_code is NOT_COORDINATOR
        member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        assert wrong.ask(ApiKey.SYNC_GROUP, 3, **member, assignments=[]).error_code is NOT_COORDINATOR
        assert wrong.ask(ApiKey.HEARTBEAT, 3, **member).error_code is NOT_COORDINATOR
        leaving = [{"member_id": "m", "group_instance_id": None}]
        assert wrong.ask(ApiKey.LEAVE_GROUP, 3, group_id="g", members=leaving).error_code is NOT_COORDINATOR
        committed = wrong.ask(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "t", "partitions": [offset]}],
        )
        assert committed.topics[0].partitions[0].error_code is NOT_COORDINATOR
        asked = [{"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}]
        fetched = wrong.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False)
        assert fetched.groups[0].error_code is NOT_COORDINATOR
        assert wrong.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=[]).error_code is NOT_COORDINATOR
        assert wrong.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["g"]).groups[0].error_code is NOT_COORDINATOR
        assert wrong.ask(ApiKey.DELETE_GROUPS, 2, groups_names=["g"]).results[0].error_code is NOT_COORDINATOR
    with server.client(right) as there:
        assert join(there, "g").error_code is NONE
        assert [group.group_id for group in _listed(there)] == ["g"]
    with server.client(3 - right) as wrong:
        assert _listed(wrong) == ()


def _listed(client: Client) -> Any:
    return client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups


# What members are remembered as.


@pytest.mark.fact("A-105")
def test_a_member_is_shown_with_the_address_that_it_called_from(serve: Serve) -> None:
    with quick(serve).client(client_id="me") as client:
        joined = join(client, "g")
        [group] = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups
        [member] = group.members
        assert (member.member_id, member.client_id) == (joined.member_id, "me")
        assert member.client_host == "/127.0.0.1"


@pytest.mark.fact("A-411", "J-011")
def test_a_client_without_an_id_becomes_a_member_all_the_same(serve: Serve) -> None:
    with quick(serve).client(client_id=None) as client:
        joined = join(client, "g")
        assert joined.error_code is NONE
        assert joined.member_id.startswith("-")
        assert len(joined.member_id) == 1 + 36
        [group] = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups
        assert [member.client_id for member in group.members] == [""]


@pytest.mark.fact("A-414")
@pytest.mark.parametrize("name", ["\x1b[31mred\x1b[0m", "a\nb", "\0", "\u202eright to left", "tab\tand blank "])
def test_names_are_kept_and_given_back_as_they_are(serve: Serve, name: str) -> None:
    with quick(serve).client(client_id=name) as client:
        joined = join(client, name)
        assert joined.error_code is NONE
        assert joined.member_id[:-37] == name
        [group] = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[name]).groups
        assert group.group_id == name
        assert [(member.member_id, member.client_id) for member in group.members] == [(joined.member_id, name)]
        assert [listed.group_id for listed in _listed(client)] == [name]


# Members that hang up.


def test_a_member_that_hangs_up_while_its_join_is_parked_holds_up_nobody(serve: Serve) -> None:
    server = quick(serve)
    first, newcomer = server.client(), server.client()
    with first, server.client() as operator:
        joined = join(first, "g")
        newcomer.send(ApiKey.JOIN_GROUP, 3, **_joining("g"))  # waits for the first to join again
        _until(lambda: len(server.runtime._pending_requests.requests) == 1)
        newcomer.close()
        _until(lambda: not server.runtime._pending_requests.requests)
        again = join(first, "g", member_id=joined.member_id)
        assert (again.error_code, again.generation_id) == (NONE, 2)
        assert len(again.members) == 2  # the one that is gone counts until its session ends, as in Kafka
        synced = first.ask(
            ApiKey.SYNC_GROUP, 3, group_id="g", generation_id=2, member_id=joined.member_id, assignments=[]
        )
        assert synced.error_code is NONE
        assert operator.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups[0].group_state == "Stable"


def test_a_plan_that_turns_out_not_to_be_kept_while_it_is_handed_out_is_given_to_nobody(serve: Serve) -> None:
    """A large assignment is sent at once, so its record must be flushed before."""
    server = quick(serve)
    with server.client() as leader, server.client() as first, server.client() as second:
        leader_id = join(leader, "g").member_id
        for number, client in enumerate((first, second), start=1):
            client.send(ApiKey.JOIN_GROUP, 3, **_joining("g"))
            _until_parked(server, number)
        generation = join(leader, "g", member_id=leader_id).generation_id
        ids = [client.receive(ApiKey.JOIN_GROUP, 3).member_id for client in (first, second)]
        in_generation = {"group_id": "g", "generation_id": generation}
        for client, member_id in zip((first, second), ids, strict=True):
            client.send(ApiKey.SYNC_GROUP, 3, **in_generation, member_id=member_id, assignments=[])
        _until_parked(server, 2)
        server.on_loop(lambda: fail_to_flush(server, "g"))
        plan = [{"member_id": ids[0], "assignment": bytes(10_000)}, {"member_id": ids[1], "assignment": b"a"}]
        leader.send(ApiKey.SYNC_GROUP, 3, **in_generation, member_id=leader_id, assignments=plan)
        assert second.receive(ApiKey.SYNC_GROUP, 3).error_code is NOT_COORDINATOR
        for client in (leader, first):
            with pytest.raises(ConnectionError):
                client.receive_frame()


def _until_parked(server: Server, requests: int) -> None:
    _until(lambda: len(server.runtime._pending_requests.requests) == requests)


def fail_to_flush(server: Server, group_id: str) -> None:
    """Makes the next flush fail."""
    assert server.runtime.groups is not None
    journal: Any = server.runtime.groups._log
    original = journal.flush

    def fail(now_ms: int) -> dict[int, str]:
        journal.flush = original
        journal._pending.clear()
        return {journal.partition_of(group_id): "no space left"}

    journal.flush = fail


def test_a_fault_in_what_is_due_does_not_stop_the_clock(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(**{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1"})
    with server.client() as client:
        join(client, "g", session_timeout=timedelta(seconds=1))
        groups = server.runtime.groups
        assert groups is not None

        def fails(now: float) -> None:
            raise RuntimeError("a bug")

        def ring() -> None:
            """Runs the tick as the timer does, which then is not set any more."""
            assert server.runtime._alarm
            server.runtime._alarm.cancel()
            server.runtime._tick()

        with monkeypatch.context() as broken:
            broken.setattr(groups, "has_due", fails)
            server.on_loop(ring)
        # Without any request meanwhile, the session expires all the same.
        _until(lambda: bool(server.on_loop(lambda: groups._coordinators[NodeId(1)].groups["g"].is_empty)))
    assert "what was due could not be done" in caplog.text
