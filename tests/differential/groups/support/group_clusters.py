"""The two clusters that groups are compared on, and their settings."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from tests.differential.groups.support.group_memory import Memory
from tests.differential.groups.support.group_sequences import PARTITIONS, TOPICS
from tests.differential.groups.support.group_side import GroupSide
from tests.support.differential.pair import cluster_id, wait_for_coordinators, wait_until
from tests.support.differential.plain import Naming, learn_topics

MAX_SIZE: Final = 8

SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "2500",
    "group.max.size": str(MAX_SIZE),
    "offsets.retention.check.interval.ms": "86400000",  # each check removes empty groups without offsets
}
KAFKA_SETTINGS: Final[Mapping[str, str]] = {
    # With these, responses come in the order of the coordinator's decisions: see group_side.
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    "group.coordinator.append.linger.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCluster:
    """A cluster that is ready for groups, with its topics."""

    address: tuple[str, int]
    cluster_id: str
    topics: Any

    @classmethod
    def at(cls, bootstrap: str) -> Self:
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)
        wait_for_coordinators(address)
        return cls(address=address, cluster_id=cluster_id(address), topics=_make_topics(address))

    def side(self, grid: float = 1.0) -> GroupSide:
        """Opens new connections, and reserves group ids that no other test uses."""
        naming = Naming(port=self.address[1], cluster_id=self.cluster_id)
        learn_topics(self.topics, naming)
        prefix = f"diff-{secrets.token_hex(4)}-"
        return GroupSide(address=self.address, memory=Memory(naming=naming, prefix=prefix, grid=grid))


def _make_topics(address: tuple[str, int]) -> Any:
    """Creates the topics, and returns their Metadata when they exist."""
    with Client(*address) as client:
        new = [{"name": topic, "num_partitions": PARTITIONS, "replication_factor": 1} for topic in TOPICS]
        client.ask(ApiKey.CREATE_TOPICS, 7, topics=new, timeout=timedelta(seconds=20))

        def metadata() -> Any:
            asked = [{"name": topic} for topic in TOPICS]
            return client.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False)

        wait_until(lambda: all(not topic.error_code for topic in metadata().topics))
        return metadata()
