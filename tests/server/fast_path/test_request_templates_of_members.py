"""Repeated joins and syncs: matched by their bytes, and never mistaken for another member's or an earlier one."""

import time
from collections.abc import Sequence
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.api.caller import Caller
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.server.dispatch.routes import route_for
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.server.fast_path.request_template import START, RequestTemplate
from tests.server.conftest import Serve
from tests.server.groups.test_serving_groups import SESSION, quick

CALLER = Caller("c", "/10.0.0.1")

Protocols = Sequence[tuple[str, bytes]]

names = st.sampled_from(["range", "sticky", ""])
sizes = st.sampled_from([0, 1, 3, 126, 127, 128, 500])


def a_join(version: int, correlation_id: int, protocols: Protocols, **values: Any) -> bytes:
    """Returns a join as a frame without its length prefix."""
    asked = {
        "group_id": "g",
        "session_timeout": SESSION,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": subscription} for name, subscription in protocols],
        **({"rebalance_timeout": SESSION} if version >= 1 else {}),
        **({"reason": "why not"} if version >= 8 else {}),
        **values,
    }
    return _frame(ApiKey.JOIN_GROUP, version, correlation_id, asked)


def a_sync(version: int, correlation_id: int, generation: int, plan: dict[str, bytes]) -> bytes:
    asked: dict[str, Any] = {
        "group_id": "g",
        "generation_id": generation,
        "member_id": "m",
        "assignments": [{"member_id": member_id, "assignment": part} for member_id, part in plan.items()],
        **({"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}),
    }
    return _frame(ApiKey.SYNC_GROUP, version, correlation_id, asked)


def _frame(api_key: int, version: int, correlation_id: int, asked: dict[str, Any]) -> bytes:
    header = RequestHeader(api_key, version, correlation_id, "c")
    return encode_request(header, build_entity(request_type(api_key, version), asked))[4:]


def read(frame: bytes) -> Any:
    by = route_for(int.from_bytes(frame[:2]), int.from_bytes(frame[2:4]))
    return by.to_request(by.read(frame)[1], CALLER)


def remembered(frame: bytes) -> RequestTemplate:
    return RequestTemplate(frame, route_for(int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])), read(frame))


@given(st.sampled_from(range(10)), st.lists(st.tuples(names, sizes), max_size=4), st.randoms(use_true_random=False))
def test_a_join_that_is_known_asks_what_it_would_ask_if_it_were_read(
    version: int, shape: Sequence[tuple[str, int]], random: Random
) -> None:
    first, again = (
        a_join(version, random.randint(0, 2**31 - 1), [(name, random.randbytes(size)) for name, size in shape])
        for _ in range(2)
    )
    known = remembered(first)
    is_each_named_once = len({name for name, _ in shape}) == len(shape)
    assert known.parse(again) == (read(again) if is_each_named_once else None)


@given(st.sampled_from(range(10)), st.tuples(sizes, sizes), st.tuples(sizes, sizes))
def test_subscriptions_of_other_sizes_are_read(version: int, before: tuple[int, int], now: tuple[int, int]) -> None:
    first, again = (
        a_join(version, 1, [("range", bytes(one)), ("sticky", bytes(other))]) for one, other in (before, now)
    )
    assert (remembered(first).parse(again) is not None) == (before == now)


@given(st.sampled_from(range(6)), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_a_sync_that_is_known_asks_what_it_would_ask_if_it_were_read(version: int, before: int, now: int) -> None:
    known, again = remembered(a_sync(version, 1, before, {})), a_sync(version, 2, now, {})
    assert known.parse(again) == read(again)
    assert known.parse(again).generation == now


@pytest.mark.parametrize("version", range(10))
def test_a_join_in_which_anything_but_subscriptions_differs_is_not_known(version: int) -> None:
    subscriptions = (b"subscription 1", b"subscription 2")
    first = a_join(version, 1, [("range", subscriptions[0]), ("sticky", subscriptions[1])])
    free = {*range(4, 8)}
    for subscription in subscriptions:
        at = first.index(subscription)
        free |= {*range(at, at + len(subscription))}
    _assert_free(first, free)


@pytest.mark.parametrize("version", range(6))
def test_a_sync_in_which_anything_but_the_generation_differs_is_not_known(version: int) -> None:
    generation = 0x01234567
    first = a_sync(version, 1, generation, {"m": b"a plan", "n": b"another"})
    at = first.index(pack(">i", generation))
    _assert_free(first, {*range(4, 8), *range(at, at + 4)})


def _assert_free(first: bytes, free: set[int]) -> None:
    known = remembered(first)
    for position in range(START.stop, len(first)):
        changed = bytearray(first)
        changed[position] ^= 0x01
        assert (known.parse(bytes(changed)) is not None) == (position in free)
    assert known.parse(first + b"\0") is None
    assert known.parse(first[:4] + first) is None
    assert known.parse(first[:-1]) is None


def test_a_tagged_field_that_is_not_known_changes_nothing() -> None:
    plain = a_join(9, 1, [("range", b"before")])
    first, again = (plain[:-1].replace(b"before", text) + b"\x01\x63\x02no" for text in (b"before", b"after!"))
    known = remembered(first)
    assert known.parse(again) == read(again) == read(plain)._replace(protocols=(("range", b"after!"),))


def test_a_member_is_known_from_its_second_join_on_which_has_its_id() -> None:
    client_session, by = ClientSession("10.0.0.1"), route_for(ApiKey.JOIN_GROUP, 9)
    without_id, with_id = a_join(9, 1, [("range", b"1")], member_id=""), a_join(9, 2, [("range", b"2")])
    for frame in (without_id, with_id):
        client_session.add_template(frame, by, read(frame))
    known = client_session.templates[with_id[:4]]
    assert known.parse(a_join(9, 3, [("range", b"3")])) == read(a_join(9, 3, [("range", b"3")]))


def test_members_that_rebalance_again_and_again_get_their_own_answers(serve: Serve) -> None:
    server = quick(serve)
    with server.client() as first, server.client() as second, server.client() as onlooker:
        leader, follower = Rebalancing(first), Rebalancing(second)
        leader.join(b"alone")
        leader.joined()
        follower.join(b"round 0")
        _wait_until_rebalancing(onlooker)
        for number in range(12):
            leader.join(b"round %d" % number * (1 + number % 5 // 4))  # now and then of another size
            leader_reply, follower_reply = leader.joined(), follower.joined()
            assert (leader_reply.generation_id, follower_reply.generation_id) == (number + 2, number + 2)
            assert leader_reply.leader == follower_reply.leader == leader.member_id
            assert [each.metadata for each in leader_reply.members] == [leader.subscription, follower.subscription]
            assert follower_reply.members == ()
            follower.sync({})
            leader.sync(
                {leader.member_id: b"of the leader %d" % number, follower.member_id: b"of the other %d" % number}
            )
            assert leader.assignment() == b"of the leader %d" % number
            assert follower.assignment() == b"of the other %d" % number
            follower.join(b"round %d" % (number + 1))


def _wait_until_rebalancing(client: Client) -> None:
    deadline = time.monotonic() + 60
    while client.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].group_state != "PreparingRebalance":
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Rebalancing:
    """A member that numbers its requests and checks the correlation id of each answer."""

    def __init__(self, client: Client, join_version: int = 3) -> None:
        self.subscription = b""
        self.member_id = ""
        self._client = client
        self._join_version = join_version
        self._generation = 0
        self._asked = 0

    def join(self, subscription: bytes) -> None:
        self.subscription = subscription
        self._send(a_join(self._join_version, self._next(), [("range", subscription)], member_id=self.member_id))

    def joined(self) -> Any:
        response = self._receive(ApiKey.JOIN_GROUP, self._join_version)
        assert self.member_id in ("", response.member_id)
        self.member_id, self._generation = response.member_id, response.generation_id
        return response

    def sync(self, plan: dict[str, bytes]) -> None:
        frame = a_sync(3, self._next(), self._generation, plan)
        self._send(frame.replace(b"\x00\x01m", pack(">h", len(self.member_id)) + self.member_id.encode(), 1))

    def assignment(self) -> bytes:
        assignment: bytes = self._receive(ApiKey.SYNC_GROUP, 3).assignment
        return assignment

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def _send(self, frame: bytes) -> None:
        self._client.send_bytes(len(frame).to_bytes(4) + frame)

    def _receive(self, api_key: int, version: int) -> Any:
        correlation_id, response = decode_response(self._client.receive_frame(), api_key, version)
        assert correlation_id == self._asked
        assert response.error_code == 0
        return response
