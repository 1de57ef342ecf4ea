"""The embedded cluster at work: listeners, connections, and the alarms of what waits.

Everything that is decided is decided in synchronous code on the loop; here are the clock, the sockets and the limits.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import UUID, uuid4

from kcoord.api.table import SERVED
from kcoord.broker.cluster import Asked, Cluster, Node, NodeId, Partition, Topic
from kcoord.broker.long_polls import LongPolls
from kcoord.errors import ErrorCode
from kcoord.groups.instant import Instant
from kcoord.server.connection import Connection
from kcoord.server.dispatch import Answer, Arrival, Dispatch, Outcome, Park
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from kcoord.wire.check import BadBody
from kcoord.wire.headers import read_request_start

if TYPE_CHECKING:
    from kcoord.server.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.server")

_BACKLOG = 4096
_LONGEST_NAP = 30.0
_LAST_PORT = 65535
_REST = 1.0


class CannotServe(RuntimeError):
    """The cluster cannot start: a port that is taken, a topic that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a cluster starts with. Port 0 takes free ports; otherwise the nodes take consecutive ones."""

    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None  # what clients are told, where that is not what is listened on
    brokers: int = 1
    topics: tuple[tuple[str, int | None], ...] = ()  # names and partitions
    settings: Settings = field(default_factory=Settings)


class Runtime:
    """`async with Runtime(setup) as runtime:` serves until it is left."""

    def __init__(self, setup: Setup) -> None:
        self._settings = setup.settings
        self._sockets = _bind(setup)
        nodes = [
            Node(node_id=NodeId(number), host=setup.advertised_host or setup.host, port=listening.getsockname()[1])
            for number, listening in enumerate(self._sockets, start=1)
        ]
        self.cluster = Cluster(
            cluster_id=_fresh_cluster_id(), nodes=nodes, settings=setup.settings, fresh_id=_fresh_topic_id
        )
        self.cluster.on_append = self._appended
        self.cluster.on_delete = self._deleted
        self._dispatches = {
            node.node_id: Dispatch(self.cluster, node, _fresh_session_id, lambda: self._groups) for node in nodes
        }
        self._long_polls = LongPolls()
        self._has_groups = False
        self._parked: dict[Ticket, tuple[Connection, Park]] = {}
        self._tickets = 0
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._held_bytes = 0
        self._servers: list[asyncio.Server] = []
        self._chores: list[asyncio.Task[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._is_busy = self._has_slack = False
        self._is_settling = False
        try:
            _create(self.cluster, setup.topics)
        except CannotServe:
            _close_all(self._sockets)
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(_address(node) for node in self.cluster.nodes.values())

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for node, listening in zip(self.cluster.nodes.values(), self._sockets, strict=True):
            self._servers.append(await self._listen(node.node_id, listening))
        idle_check = min(self._settings.connections_max_idle_ms / 4000, _LONGEST_NAP)
        retention_check = self._settings.log_retention_check_interval_ms / 1000
        offsets_check = self._settings.offsets_retention_check_interval_ms / 1000
        self._chores = [
            asyncio.create_task(self._repeat(self._close_idle, idle_check)),
            asyncio.create_task(self._repeat(self._enforce_retention, retention_check)),
            asyncio.create_task(self._repeat(self._expire_offsets, offsets_check)),
            asyncio.create_task(self._repeat(self._give_back_memory, _REST)),
            asyncio.create_task(self._repeat(self._warn_if_full, _REST)),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self._alarm:
            self._alarm.cancel()
        for connection in list(self._connections):
            connection.hang_up()

    # What connections ask of their owner.

    def now(self) -> float:
        return time.monotonic()

    def admit(self, connection: Connection) -> str | None:
        self._connections.add(connection)
        self._per_address[connection.address] += 1
        log.debug("connected peer=%s node=%s", connection.peer, connection.node_id)
        if len(self._connections) > self._settings.max_connections:
            return f"max.connections={self._settings.max_connections} are open"
        if self._per_address[connection.address] > self._settings.max_connections_per_ip:
            return f"max.connections.per.ip={self._settings.max_connections_per_ip} are open from there"
        return None

    def gone(self, connection: Connection) -> None:
        self._connections.discard(connection)
        log.debug("gone peer=%s node=%s", connection.peer, connection.node_id)
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]
        if connection.ticket is not None:
            self._parked.pop(connection.ticket, None)
            self._long_polls.forget(connection.ticket)

    def soon(self, turn: Callable[[], None]) -> None:
        self._loop.call_soon(turn)

    def held(self, change: int) -> None:
        self._held_bytes += change
        if self._held_bytes > self._settings.queued_max_request_bytes and self._connections:
            greediest = max(self._connections, key=lambda connection: connection.held_bytes)
            greediest.close(f"queued.max.request.bytes={self._settings.queued_max_request_bytes} are held")

    def decide(self, connection: Connection, frame: bytes) -> Outcome:
        self._is_busy = self._has_slack = True
        if log.isEnabledFor(logging.DEBUG):
            _log_request(connection, frame)
        self._tickets += 1
        arrival = Arrival(Ticket(self._tickets), _instant(), connection.address)
        return self._dispatches[NodeId(connection.node_id)].decide(frame, arrival)

    def park(self, connection: Connection, park: Park) -> None:
        self._parked[park.ticket] = (connection, park)
        if waiting := park.waiting:
            deadline = self.now() + waiting.request.max_wait
            self._long_polls.park(park.ticket, waiting.watched, waiting.missing_bytes, deadline)

    def settle(self) -> None:
        if self._is_settling:  # an answer lets a connection go on, which settles again: once is enough
            return
        self._is_settling = True
        try:
            while self._answer_ready() or self._answer_members():
                pass
        finally:
            self._is_settling = False
        self._arm()

    @cached_property
    def _groups(self) -> "GroupRuntime":
        """Made with the first request of a group: most of the time until a server is there is spent on imports."""
        from kcoord.server.group_runtime import GroupRuntime

        self._has_groups = True
        return GroupRuntime(self.cluster, lambda: str(uuid4()))

    def _appended(self, partition: Partition, size: int) -> None:
        self._long_polls.appended(partition.topic, partition.index, size)

    def _deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._long_polls.wake(topic.name, partition.index)
        if self._has_groups:
            self._groups.topic_deleted(topic.name, topic.topic_id, _instant())

    def _answer_ready(self) -> bool:
        """Answer the fetches for which enough has come; whether there were any."""
        ready = self._long_polls.take_ready()
        self._answer_fetches(ready)
        return bool(ready)

    def _answer_members(self) -> bool:
        """Answer the members whose group has decided; whether there were any. Some may have hung up meanwhile."""
        replies = self._groups.take_replies() if self._has_groups else []
        for ticket, reply in replies:
            if ticket in self._parked:
                self._answer(ticket, partial(Dispatch.answer, reply=reply))
        return bool(replies)

    def _answer_fetches(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._answer(ticket, partial(Dispatch.finish, now_ms=_now_ms()))

    def _answer(self, ticket: Ticket, finish: Callable[[Dispatch, Park], Answer]) -> None:
        connection, park = self._parked.pop(ticket)
        try:
            answer = finish(self._dispatches[NodeId(connection.node_id)], park)
        except Exception:
            log.exception("bug peer=%s: a parked request could not be answered", connection.peer)
            connection.close("a fault of the server")
        else:
            connection.answer(answer)

    # Time.

    def _arm(self) -> None:
        """Have one alarm set, no later than the earliest deadline. One that rings too early sets the next."""
        deadline = self._deadline()
        if deadline is None or (self._alarm is not None and self._alarm_at <= deadline):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_later(max(0.0, deadline - self.now()), self._tick)

    def _deadline(self) -> float | None:
        deadline = self._long_polls.deadline()
        of_groups = self._groups.deadline() if self._has_groups else None
        if deadline is None or of_groups is None:
            return of_groups if deadline is None else deadline
        return min(deadline, of_groups)

    def _tick(self) -> None:
        self._alarm = None
        self._answer_fetches(self._long_polls.tick(self.now()))
        if self._has_groups:
            self._groups.tick(_instant())
        self.settle()

    async def _repeat(self, chore: Callable[[], None], every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                chore()
            except Exception:
                log.exception("bug: a chore failed; it is tried again in %s s", every)

    def _close_idle(self) -> None:
        allowed_ms = self._settings.connections_max_idle_ms
        oldest_allowed = self.now() - allowed_ms / 1000
        idle = [c for c in self._connections if c.last_active < oldest_allowed and c.ticket is None]
        for connection in idle:
            connection.close(f"idle for more than connections.max.idle.ms={allowed_ms}")

    def _give_back_memory(self) -> None:
        """Once there was nothing to do for a while."""
        if self._has_slack and not self._is_busy:
            self._has_slack = False
            from kcoord.server.memory import give_back  # not before it is needed: ctypes takes its time

            give_back()
        self._is_busy = False

    def _warn_if_full(self) -> None:
        refused, self.cluster.refused_for_memory = self.cluster.refused_for_memory, 0
        if refused:
            most = self._settings.kcoord_log_memory_bytes
            log.warning("full kcoord.log.memory.bytes=%s: batches refused=%s", most, refused)

    def _enforce_retention(self) -> None:
        for partition in self.cluster.partitions():
            before = partition.log.size
            deleted = partition.log.enforce_retention(_now_ms())
            partition.log.expire_producers(_now_ms(), self._settings.producer_id_expiration_ms)
            if deleted:
                self._has_slack = True
                self.cluster.freed(before - partition.log.size)
                log.info("retention topic=%s partition=%s segments=%s", partition.topic, partition.index, deleted)

    def _expire_offsets(self) -> None:
        if self._has_groups:
            self._groups.expire_offsets(_instant())

    async def _listen(self, node_id: NodeId, listening: socket.socket) -> asyncio.Server:
        limit = self._settings.socket_request_max_bytes
        return await self._loop.create_server(
            lambda: Connection(self, node_id, limit), sock=listening, backlog=_BACKLOG
        )


def _log_request(connection: Connection, frame: bytes) -> None:
    with contextlib.suppress(BadBody):
        asked = read_request_start(frame)
        name = SERVED[asked.api_key].name if asked.api_key in SERVED else asked.api_key
        log.debug("request peer=%s node=%s api=%s v%s", connection.peer, connection.node_id, name, asked.api_version)


def _address(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def _bind(setup: Setup) -> list[socket.socket]:
    """One listening socket per node, all of them or none."""
    if setup.port + setup.brokers - 1 > _LAST_PORT:
        raise CannotServe(f"{setup.brokers} brokers from port {setup.port} on do not fit below {_LAST_PORT + 1}")
    bound: list[socket.socket] = []
    for number in range(setup.brokers):
        port = setup.port + number if setup.port else 0
        try:
            family, kind, _, _, address = socket.getaddrinfo(setup.host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, kind)
            bound.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError as error:
            _close_all(bound)
            raise CannotServe(f"cannot listen on {setup.host}:{port}: {error.strerror or error}") from None
    return bound


def _close_all(sockets: Sequence[socket.socket]) -> None:
    for opened in sockets:
        opened.close()


def _create(cluster: Cluster, topics: Sequence[tuple[str, int | None]]) -> None:
    if not topics:
        return
    from kcoord.broker import topics as topic_rules  # only here: most servers start without topics

    new = [
        topic_rules.NewTopic(
            name=name, num_partitions=partitions or topic_rules.USE_DEFAULT, replication_factor=topic_rules.USE_DEFAULT
        )
        for name, partitions in topics
    ]
    asked = Asked(node=cluster.controller, now_ms=_now_ms())
    for line in topic_rules.create_topics(cluster, topic_rules.CreateTopics(topics=tuple(new)), asked).topics:
        if line.error_code is not ErrorCode.none:
            raise CannotServe(f"cannot make the topic {line.name!r}: {line.error_message}")


def _instant() -> Instant:
    return Instant(time.monotonic(), time.time_ns() // 1_000_000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _fresh_cluster_id() -> str:
    """22 characters, as Kafka's: 16 bytes in URL-safe base64."""
    return urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


def _fresh_session_id() -> int:
    return int.from_bytes(os.urandom(4)) % (2**31 - 2) + 1


def _fresh_topic_id() -> UUID:
    return UUID(bytes=os.urandom(16), version=4)
