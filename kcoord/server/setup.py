"""What a cluster starts with: addresses, topics, ids."""

import os
import resource
import socket
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kcoord.broker.cluster import Asked, Cluster, Node
from kcoord.errors import ErrorCode
from kcoord.journal.file_store import FileStores
from kcoord.settings import Settings

_LAST_PORT: Final = 65535


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


def address(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def bind(setup: Setup) -> list[socket.socket]:
    """One listening socket per node, all of them or none."""
    if setup.port + setup.brokers - 1 > _LAST_PORT:
        raise CannotServe(f"{setup.brokers} brokers from port {setup.port} on do not fit below {_LAST_PORT + 1}")
    bound: list[socket.socket] = []
    for number in range(setup.brokers):
        port = setup.port + number if setup.port else 0
        try:
            family, kind, _, _, where = socket.getaddrinfo(setup.host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, kind)
            bound.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
        except OSError as error:
            close_all(bound)
            raise CannotServe(f"cannot listen on {setup.host}:{port}: {error.strerror or error}") from None
    return bound


def close_all(sockets: Sequence[socket.socket]) -> None:
    for opened in sockets:
        opened.close()


def create_topics(cluster: Cluster, topics: Sequence[tuple[str, int | None]], now_ms: int) -> None:
    if not topics:
        return
    from kcoord.broker import topics as topic_rules  # only here: most servers start without topics

    new = [
        topic_rules.NewTopic(
            name=name, num_partitions=partitions or topic_rules.USE_DEFAULT, replication_factor=topic_rules.USE_DEFAULT
        )
        for name, partitions in topics
    ]
    asked = Asked(node=cluster.controller, now_ms=now_ms)
    for line in topic_rules.create_topics(cluster, topic_rules.CreateTopics(topics=tuple(new)), asked).topics:
        if line.error_code is not ErrorCode.none:
            raise CannotServe(f"cannot make the topic {line.name!r}: {line.error_message}")


def record_stores() -> FileStores:
    """Stores for records, with half of the files that this process may open: the others are for connections."""
    return FileStores(most_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def fresh_cluster_id() -> str:
    """22 characters, as Kafka's: 16 bytes in URL-safe base64."""
    return urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()


def fresh_session_id() -> int:
    return int.from_bytes(os.urandom(4)) % (2**31 - 2) + 1


def fresh_topic_id() -> UUID:
    return UUID(bytes=os.urandom(16), version=4)
