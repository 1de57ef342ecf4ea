"""Clients' requests and a coordinator's answers, as the proxy's interceptors see them, without sockets."""

from dataclasses import dataclass, field
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_type,
    response_type,
)
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import Answer, Decision, Interceptor, Pass, Replace, Request
from kcoord.proxy.observing.group_observer import GroupObserver


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


@dataclass(eq=False)
class FakeClient:
    """A client's connection that records the reasons for which it was hung up on."""

    client_id: str = "app"
    host: str = "10.0.0.7"
    peer: str = "10.0.0.7:5555"
    node_id: int | None = 1
    principal: str | None = None
    hung_up: list[str] = field(default_factory=list)

    def answer(self, pieces: list[bytes]) -> None:
        raise AssertionError("nothing is taken here")

    def hang_up(self, reason: str) -> None:
        self.hung_up.append(reason)


def asked(api_key: int, version: int, client_id: str = "app", **values: Any) -> Request:
    header = RequestHeader(api_key, version, 42, client_id)
    frame = encode_request(header, build_entity(request_type(api_key, version), values))[4:]
    return Request(frame=frame, api_key=api_key, api_version=version, correlation_id=42)


def answered(request: Request, **values: Any) -> bytes:
    """Encodes a broker's answer to a request."""
    header = RequestHeader(request.api_key, request.api_version, request.correlation_id)
    entity_type = response_type(request.api_key, request.api_version)
    return encode_response(header, build_entity(entity_type, values))[4:]


def subscription(*topics: str, version: int = 0) -> bytes:
    encoded = version.to_bytes(2) + len(topics).to_bytes(4)
    for topic in topics:
        encoded += len(topic).to_bytes(2) + topic.encode()
    encoded += (-1).to_bytes(4, signed=True)
    if version >= 1:
        encoded += (0).to_bytes(4)  # owned partitions
    if version >= 2:
        encoded += (7).to_bytes(4)  # generation
    if version >= 3:
        encoded += (-1).to_bytes(2, signed=True)  # rack
    return encoded


def join(
    group_id: str, member_id: str = "", *, version: int = 9, topics: tuple[str, ...] = ("orders",), **more: Any
) -> Request:
    values: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout": 10.0,
        "rebalance_timeout": 60.0,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(*topics)}],
    }
    return asked(ApiKey.JOIN_GROUP, version, **(values | more))


def joining_beat(group_id: str, member_id: str, **more: Any) -> Request:
    """Encodes a ConsumerGroupHeartbeat, which joins unless another epoch is given."""
    values: dict[str, Any] = {"group_id": group_id, "member_id": member_id, "member_epoch": 0, "topic_partitions": None}
    return asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, subscribed_topic_names=["orders"], **(values | more))


def response_of(decision: Decision, request: Request) -> Any:
    """Decodes the response of an Answer."""
    assert isinstance(decision, Answer)
    correlation_id, response = decode_response(b"".join(decision.pieces)[4:], request.api_key, request.api_version)
    assert correlation_id == request.correlation_id
    return response


def forwarded_by(decision: Decision, request: Request) -> Any:
    """Decodes the request that replaces the client's."""
    assert isinstance(decision, Replace)
    header, entity = decode_request(decision.frame, request.api_key, request.api_version)
    assert (header.correlation_id, header.client_id) == (42, "app")
    return entity


class Coordinator:
    """A scripted coordinator behind an observing proxy: the test states its answers."""

    def __init__(self, observer: GroupObserver, *guards: Interceptor) -> None:
        self.observer = observer
        self.guards = guards

    def ask(self, client: FakeClient, request: Request) -> Decision:
        """Shows a request to the guards, and to the observer unless a guard decides otherwise than PASS."""
        for guard in self.guards:
            decision = guard.request(client, request)
            if not isinstance(decision, Pass):
                return decision
        if request.api_key in self.observer.interests:
            return self.observer.request(client, request)
        return Pass()

    def answer(self, client: FakeClient, request: Request, **values: Any) -> None:
        self.observer.response(client, request, answered(request, **values))

    def join_and_answer(
        self,
        client: FakeClient,
        group_id: str,
        member_id: str,
        *,
        generation: int,
        leads: tuple[str, ...] = (),
        **joining: Any,
    ) -> None:
        """Sends a join and its answer at once; the answer lists all members if the joiner leads."""
        request = join(group_id, member_id, **joining)
        self.ask(client, request)
        self.admit(client, request, member_id, generation=generation, leads=leads)

    def admit(
        self, client: FakeClient, request: Request, member_id: str, *, generation: int, leads: tuple[str, ...] = ()
    ) -> None:
        self.answer(
            client,
            request,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=leads[0] if leads else "somebody",
            member_id=member_id,
            members=[{"member_id": each, "metadata": b""} for each in leads],
        )

    def give_id(self, client: FakeClient, request: Request, member_id: str) -> None:
        self.answer(client, request, error_code=ErrorCode.member_id_required, member_id=member_id, protocol_name="")

    def sync(self, client: FakeClient, group_id: str, member_id: str, *, generation: int) -> None:
        request = asked(ApiKey.SYNC_GROUP, 5, group_id=group_id, member_id=member_id, generation_id=generation)
        self.answer(client, request, protocol_type="consumer", protocol_name="range", assignment=b"")

    def beat(
        self,
        client: FakeClient,
        group_id: str,
        member_id: str,
        *,
        generation: int,
        error_code: ErrorCode = ErrorCode.none,
    ) -> None:
        request = asked(ApiKey.HEARTBEAT, 4, group_id=group_id, member_id=member_id, generation_id=generation)
        self.answer(client, request, error_code=error_code)

    def leave(self, client: FakeClient, group_id: str, member_id: str, reason: str | None = None) -> None:
        request = asked(ApiKey.LEAVE_GROUP, 5, group_id=group_id, members=[{"member_id": member_id, "reason": reason}])
        self.answer(client, request, members=[{"member_id": member_id}])
