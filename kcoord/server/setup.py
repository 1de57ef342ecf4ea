"""The set-up of a cluster: addresses, topics, ids, storage."""

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Node, NodeId, RequestContext
from kcoord.broker.log.storage import EphemeralStorage
from kcoord.errors import ErrorCode
from kcoord.exceptions import LocalFailure
from kcoord.protocol.uuids import format_uuid
from kcoord.server.listener.descriptors import descriptor_limit, files_for_records
from kcoord.settings import Settings

if TYPE_CHECKING:
    from kcoord.security.listener import Listener
    from kcoord.storage.data_dir import DataDir

log = logging.getLogger("kcoord.server")

_LAST_PORT: Final = 65535
_NO_LIMIT: Final = 2**63 - 1


class CannotServe(LocalFailure, RuntimeError):
    """Raised when the cluster cannot start: a port is taken, a topic is invalid, or a folder cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parameters of `kcoord serve`. Port 0 takes free ports; otherwise the nodes take consecutive ones."""

    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None  # for clients, if it differs from `host`
    brokers: int = 1
    topics: tuple[tuple[str, int | None], ...] = ()  # names and partitions
    settings: Settings = field(default_factory=Settings)
    data_dir: Path | None = None  # None: all data is lost when the process ends
    fsync: bool = False  # with a data dir: responses wait for fsync
    listener: "Listener | None" = None  # security of the listeners; None: no TLS, no login
    rules: Path | None = None  # a file of authorization rules; None: every client may do everything


def settings_of(properties: Mapping[str, str], data_dir: Path | None) -> Settings:
    """Parses broker settings from properties, which are texts by Kafka's names. Raises BadSetting."""
    if data_dir is None:
        return Settings.from_properties(properties)
    # The default limit is for records that end with the process. A data dir is limited by its disk.
    return Settings.from_properties({"kcoord.log.bytes": str(_NO_LIMIT), **properties})


def bind(setup: Setup) -> list[socket.socket]:
    """Binds one listening socket per node, all of them or none. Raises CannotServe."""
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


def make_cluster(setup: Setup, ports: Sequence[int], now_ms: int) -> Cluster:
    """Makes the cluster with a node for each port, the given topics, and those of the data folder. Raises
    CannotServe.
    """
    if setup.data_dir is None:
        from kcoord.storage.spill_store import SpillStores

        stores = SpillStores(most_files=files_for_records(descriptor_limit()))
        cluster = Cluster(
            cluster_id=_fresh_cluster_id(),
            nodes=_nodes(setup, ports, first=1),
            settings=setup.settings,
            fresh_id=_fresh_topic_id,
            storage=EphemeralStorage(stores.make),
        )
    else:
        cluster = _open_data_dir_cluster(setup, setup.data_dir, ports, now_ms)
    try:
        _create_topics(cluster, setup.topics, now_ms)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _nodes(setup: Setup, ports: Sequence[int], *, first: int) -> list[Node]:
    host = setup.advertised_host or setup.host
    return [Node(node_id=NodeId(number), host=host, port=port) for number, port in enumerate(ports, start=first)]


def _open_data_dir_cluster(setup: Setup, folder: Path, ports: Sequence[int], now_ms: int) -> Cluster:
    from kcoord.storage.data_dir import BadDataDir, DataDir
    from kcoord.storage.topic_discovery import load_topics

    try:
        data_dir = DataDir(
            folder,
            fresh_cluster_id=_fresh_cluster_id,
            most_files=files_for_records(descriptor_limit()),
            is_synced=setup.fsync,
        )
    except BadDataDir as error:
        raise CannotServe(str(error)) from None
    cluster = _cluster_in(data_dir, setup, ports)
    try:
        load_topics(cluster, data_dir, _fresh_topic_id, now_ms)
    except BadDataDir as error:
        cluster.close()
        raise CannotServe(str(error)) from None
    except BaseException:
        cluster.close()
        raise
    if offsets := cluster.topics.get(OFFSETS_TOPIC):
        count = len(offsets.partitions)
        if count != setup.settings.offsets_topic_num_partitions:
            log.info("offsets.topic.num.partitions=%s: so many partitions has %s", count, OFFSETS_TOPIC)
        cluster.settings = replace(cluster.settings, offsets_topic_num_partitions=count)
    return cluster


def _cluster_in(data_dir: "DataDir", setup: Setup, ports: Sequence[int]) -> Cluster:
    return Cluster(
        cluster_id=data_dir.cluster_id,
        nodes=_nodes(setup, ports, first=data_dir.node_id),
        settings=setup.settings,
        fresh_id=_fresh_topic_id,
        storage=data_dir,
    )


def _create_topics(cluster: Cluster, topics: Sequence[tuple[str, int | None]], now_ms: int) -> None:
    topics = [(name, partitions) for name, partitions in topics if not _topic_exists(cluster, name, partitions)]
    if not topics:
        return
    from kcoord.broker import topics as topic_rules  # imported here, since most servers start without topics

    new = [
        topic_rules.NewTopic(
            name=name, num_partitions=partitions or topic_rules.USE_DEFAULT, replication_factor=topic_rules.USE_DEFAULT
        )
        for name, partitions in topics
    ]
    context = RequestContext(node=cluster.controller, now_ms=now_ms)
    for line in topic_rules.create_topics(cluster, topic_rules.CreateTopics(topics=tuple(new)), context).topics:
        if line.error_code is not ErrorCode.none:
            raise CannotServe(f"cannot make the topic {line.name!r}: {line.error_message}")


def _topic_exists(cluster: Cluster, name: str, partitions: int | None) -> bool:
    """Whether the topic exists in the data dir. Raises CannotServe if its number of partitions differs."""
    found = cluster.topics.get(name)
    if found is None:
        return False
    if partitions not in (None, len(found.partitions)):
        raise CannotServe(f"the topic {name!r} is there with {len(found.partitions)} partitions, not {partitions}")
    return True


def _fresh_cluster_id() -> str:
    """Returns an id of 22 characters, as Kafka makes them."""
    return format_uuid(os.urandom(16))


def fresh_session_id() -> int:
    """Returns a random id for a fetch session."""
    return int.from_bytes(os.urandom(4)) % (2**31 - 2) + 1


def _fresh_topic_id() -> UUID:
    return UUID(bytes=os.urandom(16), version=4)
