"""One cluster and the actors that are connected to it: each reads only the responses to its own requests.

A JoinGroup or SyncGroup may be parked. Waiting cannot show whether it is; so other requests are sent to the coordinator
after it, one after the other, on a probe connection that never has parked requests:

 1  a heartbeat of an unknown member. Once it is answered, the server has read all that was sent before. (Not needed
    after a request that is never parked, and whose response is therefore awaited.)
 2  a commit to a separate group. The coordinator decides one request after the other, and answers this one when its
    record is written, hence after all records of earlier requests: their responses are in flight.
 3  DescribeGroups. Its response leaves after those responses: a request that has none by now is parked.

This holds for a server of one thread, and for a broker with one thread for the network, one for requests and one for
the coordinator (see KAFKA_SETTINGS). One thing Kafka leaves to a further thread, even if it is due at once: the end of
the join phase of a group that was empty, or whose last member has just left. So while such a group prepares its
rebalance, the probes are repeated.
"""

import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from tests.differential.groups.support.group_memory import Memory
from tests.differential.groups.support.group_requests import (
    MAY_PARK,
    Ask,
    Group,
)
from tests.support.differential.pair import hung_up
from tests.support.differential.plain import Plain

PROBE_TOPIC: Final = "group-orders"
_UNUSED: Final = ("Dead", "Empty")
_PREPARING: Final = "PreparingRebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a step, and the member id that it contained."""

    number: int
    ask: Ask
    member_id: str


@dataclass(slots=True, kw_only=True)
class StepResult:
    """The raw answers of a step, and the groups after it."""

    answers: dict[int, tuple[Request, Any]]  # in the order of the steps
    described: Any

    def has_member(self, member_id: str) -> bool:
        return any(member.member_id == member_id for group in self.described.groups for member in group.members)


class Connection(Client):
    """One of an actor's connections, and its request without a response."""

    pending: Request | None = None

    def fileno(self) -> int:
        return self._socket.fileno()


@dataclass(slots=True, kw_only=True)
class GroupSide:
    """`ask` sends a request; `drain` returns the answers that have come since, and the groups' current state."""

    address: tuple[str, int]
    memory: Memory
    patience: float = 10.0  # seconds to wait for a join phase that should end at once
    _connections: dict[int, list[Connection]] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _is_read: bool = False  # the newest request was answered: the server has read all that was sent
    _probe: Client = field(init=False)
    _groups: list[str] = field(init=False)
    _describe: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._probe = Client(*self.address, client_id="aside")
        self.watch(2)

    def watch(self, groups: int) -> None:
        """Selects the groups to describe after each step: those that the actors use."""
        self._groups = [str(self.memory.resolved(Group(number))) for number in range(groups)]
        self._describe = _encoded(ApiKey.DESCRIBE_GROUPS, 6, groups=self._groups)

    def ask(self, number: int, ask: Ask) -> None:
        connection = self._free_connection(ask.actor)
        values = {"timeout": timedelta(seconds=20), **self.memory.resolved(ask.values)}
        connection.send(ask.api_key, ask.version, **values)
        connection.pending = Request(number=number, ask=ask, member_id=str(values.get("member_id", "")))
        self._is_read = ask.api_key not in MAY_PARK
        if self._is_read:
            _wait_for(connection)

    def wait_for_all(self) -> None:
        """Waits until no request is parked."""
        for connection in self._all_connections():
            if connection.pending:
                _wait_for(connection)

    def drain(self) -> StepResult:
        """Returns the answers since the last call, and the groups' current state."""
        described = self._barrier()
        deadline = time.monotonic() + self.patience
        while self._is_join_phase_ending(described) and time.monotonic() < deadline:
            described = self._barrier()
        if self._first_joined(described):
            described = self._barrier()  # for responses that were in flight together with the last description
        self._states = _states(described)
        return StepResult(answers=dict(sorted(self._receive(), key=_step)), described=described)

    def outcome(self, result: StepResult) -> Plain:
        """Translates a step's result to shared names, adds the parked requests, and updates the actors' state."""
        for request, answer in result.answers.values():
            if answer is not hung_up:
                self.memory.learn(request.ask, answer)
        return {
            "answers": {number: self._words(*answered) for number, answered in result.answers.items()},
            "parked": sorted(self.parked()),
            **self.memory.words(ApiKey.DESCRIBE_GROUPS, result.described),
        }

    def parked(self) -> dict[int, Request]:
        waiting = [connection.pending for connection in self._all_connections()]
        return {request.number: request for request in waiting if request}

    def forget(self, number: int) -> None:
        """Stops waiting for this answer."""
        for connections in self._connections.values():
            for connection in [each for each in connections if each.pending and each.pending.number == number]:
                connections.remove(connection)
                connection.close()

    def is_waiting(self, actor: int) -> bool:
        return any(connection.pending for connection in self._connections.get(actor, ()))

    def hang_up(self, actor: int) -> None:
        for connection in self._connections.pop(actor, ()):
            connection.close()

    def delete_groups(self) -> None:
        """Removes the members of the sequence's groups and deletes the groups, so that a long run does not fill the
        clusters."""
        for group in self._probe.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=self._groups).groups:
            leaving = [{"member_id": member.member_id, "group_instance_id": None} for member in group.members]
            if leaving:
                self._probe.ask(ApiKey.LEAVE_GROUP, 3, group_id=group.group_id, members=leaving)
        self._probe.ask(ApiKey.DELETE_GROUPS, 2, groups_names=self._groups)
        self.close()

    def close(self) -> None:
        for actor in list(self._connections):
            self.hang_up(actor)
        self._probe.close()

    def _barrier(self) -> Any:
        """Describes the groups; when this returns, no response is in flight."""
        if not self._is_read:
            self._ask_probe(_HEARTBEAT_OF_NOBODY)
        self._ask_probe(_PROBE_COMMIT)
        return decode_response(self._ask_probe(self._describe), ApiKey.DESCRIBE_GROUPS, 6)[1]

    def _ask_probe(self, request: bytes) -> bytes:
        self._probe.send_bytes(request)
        return self._probe.receive_frame()

    def _is_join_phase_ending(self, described: Any) -> bool:
        preparing = [group for group in described.groups if group.group_state == _PREPARING]
        just_began = [group for group in preparing if self._states.get(group.group_id) != _PREPARING]
        first = self._first_joined(described)
        return any(not group.members or group.group_id in first for group in just_began)

    def _first_joined(self, described: Any) -> list[str]:
        """Returns the groups that were empty at the last description and have been joined since."""
        was_used = {group for group, state in self._states.items() if state not in _UNUSED}
        return [group for group, state in _states(described).items() if group not in was_used and state not in _UNUSED]

    def _receive(self) -> Iterable[tuple[int, tuple[Request, Any]]]:
        waiting = [connection for connection in self._all_connections() if connection.pending]
        for connection in _readable(waiting):
            assert connection.pending
            request, connection.pending = connection.pending, None
            yield request.number, (request, self._answer(connection, request.ask))

    def _answer(self, connection: Connection, ask: Ask) -> Any:
        try:
            return connection.receive(ask.api_key, ask.version)
        except (Disconnected, ConnectionError):
            self._connections[ask.actor].remove(connection)
            connection.close()
            return hung_up

    def _words(self, request: Request, answer: Any) -> Plain:
        return answer if answer is hung_up else self.memory.words(request.ask.api_key, answer)

    def _free_connection(self, actor: int) -> Connection:
        connections = self._connections.setdefault(actor, [])
        for connection in connections:
            if not connection.pending:
                return connection
        connections.append(Connection(*self.address, client_id=f"actor-{actor}"))
        # Before the first response on a new connection, the server may not even have accepted it.
        connections[-1].send_bytes(_HEARTBEAT_OF_NOBODY)
        connections[-1].receive_frame()
        return connections[-1]

    def _all_connections(self) -> list[Connection]:
        return [connection for connections in self._connections.values() for connection in connections]


def _step(came: tuple[int, object]) -> int:
    return came[0]


def _states(described: Any) -> dict[str, str]:
    return {line.group_id: line.group_state for line in described.groups}


def _readable(connections: Sequence[Connection]) -> list[Connection]:
    """Returns the connections that have data or are closed."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(0)} if connections else set()
    return [connection for connection in connections if connection.fileno() in ready]


def _wait_for(connection: Connection) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    assert poll.poll(30_000), f"no answer within 30 s: {connection.pending}"


def _encoded(api_key: int, version: int, **values: Any) -> bytes:
    """Encodes a request that is sent often."""
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=0, client_id="aside")
    return encode_request(header, build_entity(request_type(api_key, version), values))


_HEARTBEAT_OF_NOBODY: Final = _encoded(ApiKey.HEARTBEAT, 0, group_id="aside", member_id="nobody", generation_id=0)
_PROBE_COMMIT: Final = _encoded(
    ApiKey.OFFSET_COMMIT,
    8,
    group_id="aside",
    topics=[{"name": PROBE_TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 0}]}],
)
