"""Passes the bytes between one client and a broker on, and notes what the client is asked and answers as leader.

It can tell the client of more replicas than there are, on brokers in racks, as `kcoord serve` has no racks.
"""

import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_request, decode_response, encode_response
from kcoord.protocol.frames import FrameSplitter, framed
from kcoord.protocol.headers import RequestHeader

HOST = b"127.0.0.1"
MAX_FRAME_BYTES = 1 << 26
RACKS: Final = {"r1": 101, "r2": 102, "r3": 103}
"""A broker in each rack, with its id. They all are at the relay's address; the broker itself is in no rack."""

ReplicaRacks: TypeAlias = Mapping[str, Sequence[Sequence[str]]]  # by topic, of each partition


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member as the leader gets it in the response to its JoinGroup."""

    member_id: str
    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """One rebalance that the client has led: the members that it got, and the assignments that it sent."""

    generation: int
    strategy: str
    members: Sequence[JoinedMember]
    assignments: Mapping[str, bytes] | None
    """None if the client ended instead."""
    racks: ReplicaRacks
    """The racks that it was told of."""


class LeaderRelay:
    """Listens on a port of its own. In responses with the broker's address, it puts its own in that one's place, so
    that the client stays with it."""

    def __init__(self, bootstrap: str) -> None:
        _, _, port = bootstrap.rpartition(":")
        self._upstream = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.led: list[Led] = []
        self.racks: ReplicaRacks = {}
        self._joined: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.error: Exception | None = None
        """What ended a connection, other than its client or broker."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _hang_up(self._listener, *self._sockets)
        for each in (self._listener, *self._sockets):
            each.close()
        if self.error:
            raise self.error

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._upstream))
                self._sockets += [client, broker]
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asked: dict[int, tuple[int, int]] = {}
                ways = [
                    (client, broker, lambda frame, asked=asked: self._request(frame, asked)),
                    (broker, client, lambda frame, asked=asked: self._response(frame, asked)),
                ]
                for way in ways:
                    threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, observe: Callable[[bytes], bytes]) -> None:
        try:
            _pass_on(source, target, observe)
        except OSError:
            pass
        except Exception as error:
            self.error = error
        finally:
            _hang_up(source, target)

    def _request(self, frame: bytes, asked: dict[int, tuple[int, int]]) -> bytes:
        api_key, api_version, correlation_id = struct.unpack_from(">hhi", frame)
        asked[correlation_id] = api_key, api_version
        if api_key == ApiKey.SYNC_GROUP:
            _, request = decode_request(frame, api_key, api_version)
            with self._lock:
                self._note(request)
        return frame

    def _response(self, frame: bytes, asked: dict[int, tuple[int, int]]) -> bytes:
        (correlation_id,) = struct.unpack_from(">i", frame)
        api_key, api_version = asked.pop(correlation_id)
        if api_key == ApiKey.JOIN_GROUP:
            _, response = decode_response(frame, api_key, api_version)
            with self._lock:
                self._joined[response.generation_id] = response
        if api_key == ApiKey.METADATA:
            frame = _with_racks(frame, api_version, self.racks)
        if api_key in (ApiKey.METADATA, ApiKey.FIND_COORDINATOR):
            return frame.replace(HOST + self._upstream.to_bytes(4), HOST + self.port.to_bytes(4))
        return frame

    def unanswered(self) -> list[Led]:
        """Returns the last rebalance, if the client has sent no assignments for it."""
        with self._lock:
            generation = max(self._joined, default=-1)
            if generation < 0 or any(each.generation == generation for each in self.led):
                return []
            joined = self._joined[generation]
            return [self._led(joined, None)] if joined.leader == joined.member_id else []

    def _note(self, sync: Any) -> None:
        joined = self._joined.get(sync.generation_id)
        if joined is not None and joined.leader == joined.member_id:
            self.led.append(self._led(joined, {each.member_id: bytes(each.assignment) for each in sync.assignments}))

    def _led(self, joined: Any, assignments: Mapping[str, bytes] | None) -> Led:
        members = [
            JoinedMember(
                member_id=each.member_id,
                instance_id=getattr(each, "group_instance_id", None),
                subscription=bytes(each.metadata),
            )
            for each in joined.members
        ]
        return Led(
            generation=joined.generation_id,
            strategy=joined.protocol_name,
            members=members,
            assignments=assignments,
            racks=self.racks,
        )


def _with_racks(frame: bytes, api_version: int, racks: ReplicaRacks) -> bytes:
    """Adds the brokers in racks to a Metadata response, and replicas on them to the partitions."""
    correlation_id, response = decode_response(frame, ApiKey.METADATA, api_version)
    (broker,) = response.brokers
    brokers = (broker, *(replace(broker, node_id=node_id, rack=rack) for rack, node_id in RACKS.items()))
    topics = tuple(
        replace(topic, partitions=tuple(_with_replicas(each, racks[topic.name]) for each in topic.partitions))
        if topic.name in racks
        else topic
        for topic in response.topics
    )
    header = RequestHeader(
        api_key=ApiKey.METADATA, api_version=api_version, correlation_id=correlation_id, client_id=None
    )
    return encode_response(header, replace(response, brokers=brokers, topics=topics))[4:]


def _with_replicas(partition: Any, racks: Sequence[Sequence[str]]) -> Any:
    added = (RACKS[rack] for rack in racks[partition.partition_index])
    return replace(partition, replica_nodes=(*partition.replica_nodes, *added))


def _pass_on(source: socket.socket, target: socket.socket, observe: Callable[[bytes], bytes]) -> None:
    splitter = FrameSplitter(MAX_FRAME_BYTES)
    while chunk := source.recv(1 << 16):
        for frame in splitter.feed(chunk):
            target.sendall(framed([observe(bytes(frame))]))
        if splitter.error:
            raise splitter.error


def _hang_up(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
