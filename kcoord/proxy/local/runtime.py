"""The coordinator's runtime in the proxy's process: that of `kcoord serve`, without listeners, and with the upstream's
topics."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kcoord.broker.cluster import Cluster, NodeId
from kcoord.broker.offsets_topic import make_offsets_topic
from kcoord.groups.topics import Topics
from kcoord.offsets_log.group_log import GroupLog
from kcoord.server.clock import now_ms
from kcoord.server.cluster_runtime import ClusterRuntime, fresh_member_id
from kcoord.server.connection.connection import Connection
from kcoord.server.groups.group_journal import Journal
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.server.setup import Setup, make_cluster
from kcoord.settings import Settings

_NO_PORT: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJournal:
    """Settings of a journal in this process: groups' records are stored in memory or, with `data_dir`, in files; with
    `fsync`, responses wait for the disk.
    """

    data_dir: Path | None = None
    fsync: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSetup:
    """The settings of a LocalRuntime: limits and timeouts, and where groups' records are stored."""

    settings: Settings = field(default_factory=Settings)
    local_journal: LocalJournal = field(default_factory=LocalJournal)

    def limited_to(self, largest_record: int) -> "RuntimeSetup":
        """Returns the settings with message.max.bytes limited to what the journal's topic takes, so that assignments
        that are too large are refused in time.
        """
        limit = min(self.settings.message_max_bytes, largest_record)
        return replace(self, settings=replace(self.settings, message_max_bytes=limit))


class LocalRuntime(ClusterRuntime):
    """The group coordinator in the proxy's process: a cluster of one node without listeners. `connect` makes its
    connections. Raises CannotServe.
    """

    def __init__(
        self, setup: RuntimeSetup, topics: Topics, make_journal: Callable[[NodeId], Journal] | None = None
    ) -> None:
        """Without `make_journal`, groups are stored as `setup` states."""
        server_setup = Setup(
            settings=setup.settings, data_dir=setup.local_journal.data_dir, fsync=setup.local_journal.fsync
        )
        super().__init__(make_cluster(server_setup, [_NO_PORT], now_ms()))
        self._topics = topics
        self._make_journal = make_journal
        self._node_id = self.cluster.controller.node_id

    @property
    def caching_allowed(self) -> bool:
        """Always False: cached responses would be sent before client_link has been given the request."""
        return False

    def connect(self) -> Connection:
        """Makes a connection to the coordinator, which has no transport yet."""
        return Connection(self, self._node_id, self._settings.socket_request_max_bytes)

    @property
    def coordinator(self) -> GroupRuntime:
        """The group runtime, made at first use."""
        return self._get_or_make_groups()

    def read_groups(self) -> None:
        """Loads the groups whose partitions of the journal are not loaded, in the background."""
        self._maintenance.load_groups(self.coordinator)

    def _make_groups(self) -> GroupRuntime:
        return GroupRuntime(self.cluster, fresh_member_id, self._journal, self._topics)

    def _journal(self, cluster: Cluster) -> Journal:
        if self._make_journal is not None:
            return self._make_journal(self._node_id)
        make_offsets_topic(cluster, now_ms())
        return GroupLog(cluster)
