"""A broker that gives scripted answers over a real connection, also such as no real broker would give."""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from kio.index import load_response_schema

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_request, encode_response
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import read_request_start

SPOKEN: Final = {
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.API_VERSIONS: 0,
}

Answer = Callable[[Any], Mapping[str, Any] | None]
"""Returns the fields of the response to a request; None closes the connection."""


class ScriptedBroker:
    """A broker whose cluster consists of `brokers`, by node id, and `topics`: the leader of each partition, by topic.

    `asked` counts the requests; `hung_up` waits for the other side to close a connection. The broker does not support
    versions before the `oldest` of an API, and closes a connection that sends one.
    """

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.asked: Counter[int] = Counter()
        self.oldest: dict[int, int] = {}
        self.correlation_shift = 0
        self.answers: dict[int, Answer] = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.FIND_COORDINATOR: self.find_coordinators,
        }
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._server.getsockname()
        self.brokers: dict[int, tuple[str, int]] = {node_id: (self.host, self.port)}
        self.topics: dict[str, dict[int, int]] = {}
        self.hung_up = threading.Event()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._threads[0].join()  # after it new connections are refused
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads[1:]:
            thread.join()

    def _start(self, do: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=do, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        splitter = FrameSplitter(1 << 20)
        with connection:
            while chunk := _received(connection):
                for frame in splitter.feed(chunk):
                    response = self._answer(frame)
                    if response is None:
                        return
                    connection.sendall(response)
        self.hung_up.set()

    def _answer(self, frame: bytes) -> bytes | None:
        start = read_request_start(frame)
        header, request = decode_request(frame, start.api_key, start.api_version)
        if header.api_version < self.oldest.get(header.api_key, 0):
            return None
        self.asked[header.api_key] += 1
        fields = self.answers[header.api_key](request)
        if fields is None:
            return None
        response = build_entity(load_response_schema(header.api_key, header.api_version), dict(fields))
        return encode_response(header._replace(correlation_id=header.correlation_id + self.correlation_shift), response)

    # The answers of a healthy broker

    def _versions(self, _: Any) -> Mapping[str, Any]:
        spoken = [
            {"api_key": key, "min_version": self.oldest.get(key, 0), "max_version": newest}
            for key, newest in SPOKEN.items()
        ]
        return {"error_code": ErrorCode.none, "api_keys": spoken}

    def _metadata(self, request: Any) -> Mapping[str, Any]:
        names = [each.name for each in request.topics] if request.topics is not None else list(self.topics)
        brokers = [
            {"node_id": node, "host": host, "port": port, "rack": None} for node, (host, port) in self.brokers.items()
        ]
        return {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": [*map(self._topic, names)]}

    def _topic(self, name: str) -> Mapping[str, Any]:
        if name not in self.topics:
            return {"name": name, "error_code": ErrorCode.unknown_topic_or_partition, "partitions": ()}
        lines = [_partition(number, leader) for number, leader in self.topics[name].items()]
        return {"name": name, "error_code": ErrorCode.none, "partitions": lines}

    def list_offsets(self, request: Any) -> Mapping[str, Any]:
        """Answers that every log is from 0 to ten times the id of its leader."""
        return {"topics": [{"name": topic.name, "partitions": self._ends(topic)} for topic in request.topics]}

    def _ends(self, topic: Any) -> list[Mapping[str, Any]]:
        leaders = self.topics.get(topic.name, {})
        return [
            {
                "partition_index": each.partition_index,
                "error_code": ErrorCode.none
                if leaders.get(each.partition_index) == self.node_id
                else ErrorCode.unknown_topic_or_partition,
                "offset": 0 if each.timestamp == -2 else 10 * self.node_id,
            }
            for each in topic.partitions
        ]

    def find_coordinators(self, request: Any) -> Mapping[str, Any]:
        if hasattr(request, "key"):  # before version 4
            return self.coordinator(request.key)
        return {"coordinators": [self.coordinator(key) for key in request.coordinator_keys]}

    def coordinator(self, group: str, node: int | None = None) -> dict[str, Any]:
        return {
            "key": group,
            "node_id": self.node_id if node is None else node,
            "host": self.host,
            "port": self.port,
            "error_code": ErrorCode.none,
            "error_message": None,
        }


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


def _partition(number: int, leader: int) -> Mapping[str, Any]:
    return {
        "partition_index": number,
        "leader_id": leader,
        "error_code": ErrorCode.none,
        "leader_epoch": 0,
        "replica_nodes": (leader,),
        "isr_nodes": (leader,),
        "offline_replicas": (),
    }
