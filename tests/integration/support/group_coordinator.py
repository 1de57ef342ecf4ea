"""The coordinator's view of a group and its topics, to compare with the reports of the members."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client

TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A DescribeGroups response: only a Stable group has assignments."""

    state: str
    assignments: Mapping[str, frozenset[str]]
    """The assignments by member id."""


class CoordinatorView:
    """Connections to the group's coordinator and to the leaders of partitions."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._any = Client(host, int(port))
        self._clients: dict[tuple[str, int], Client] = {}
        self._coordinators: dict[str, Client] = {}

    def is_ready(self, group: str) -> bool:
        """Whether the coordinator serves the group: a fresh broker first has to load the partition of the group's
        offsets."""
        (found,) = self._any.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators
        if found.error_code:
            return False
        (described,) = self._ask(group, ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
        return not described.error_code

    def coordinator_id(self, group: str) -> int:
        (found,) = self._any.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators
        assert not found.error_code, found
        return int(found.node_id)

    def describe(self, group: str) -> Described:
        described = self.answer_of(group)
        members = {each.member_id: assigned_partitions(each.member_assignment) for each in described.members}
        return Described(state=described.group_state, assignments=members)

    def answer_of(self, group: str) -> Any:
        """Returns the whole DescribeGroups answer for the group."""
        (described,) = self._ask(group, ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
        assert not described.error_code, described
        return described

    def is_at(self, group: str, generation: int, member_id: str, instance_id: str | None) -> bool:
        """Whether the group is in that generation. The coordinator reveals it only to members."""
        error = self._ask(
            group,
            ApiKey.HEARTBEAT,
            4,
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        ).error_code
        return not error

    def committed(self, group: str) -> dict[str, int]:
        (answer,) = self._ask(group, ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": None}]).groups
        assert not answer.error_code, answer
        return {
            f"{topic.name}-{each.partition_index}": each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def create_topic(self, topic: str, partitions: int) -> None:
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        (created,) = self._any.ask(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout=TIMEOUT).topics
        assert not created.error_code, created

    def add_partitions(self, topic: str, count: int) -> None:
        """Increases the partition count to this number."""
        wanted = {"name": topic, "count": count, "assignments": None}
        (created,) = self._any.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout=TIMEOUT).results
        assert not created.error_code, created

    def has_partitions(self, topic: str, count: int) -> bool:
        """Whether clients can use the partitions: real brokers learn of the controller's decisions a moment later."""
        response = self._any.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
        found = response.topics[0]
        if found.error_code or len(found.partitions) != count or any(each.error_code for each in found.partitions):
            return False
        brokers = {each.node_id: self._client(each.host, each.port) for each in response.brokers}
        return all(
            each.leader_id in brokers and _has_end(brokers[each.leader_id], topic, each.partition_index)
            for each in found.partitions
        )

    def close(self) -> None:
        for client in (self._any, *self._clients.values()):
            client.close()

    def _ask(self, group: str, api_key: int, version: int, **values: Any) -> Any:
        if group not in self._coordinators:
            (found,) = self._any.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators
            assert not found.error_code, found
            self._coordinators[group] = self._client(found.host, found.port)
        return self._coordinators[group].ask(api_key, version, **values)

    def _client(self, host: str, port: int) -> Client:
        if (host, port) not in self._clients:
            self._clients[host, port] = Client(host, port)
        return self._clients[host, port]


def _has_end(leader: Client, topic: str, partition: int) -> bool:
    asked = [{"partition_index": partition, "timestamp": -1}]
    answer = leader.ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": topic, "partitions": asked}])
    return not answer.topics[0].partitions[0].error_code


def assigned_partitions(assignment: bytes) -> frozenset[str]:
    """Parses the consumer protocol's bytes: a version, topics with their partitions, then user data of the assignor."""
    if not assignment:
        return frozenset()
    position = 2
    (topics,) = struct.unpack_from(">i", assignment, position)
    position += 4
    found = set()
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, position)
        topic = assignment[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (count,) = struct.unpack_from(">i", assignment, position)
        found |= {f"{topic}-{index}" for index in struct.unpack_from(f">{count}i", assignment, position + 4)}
        position += 4 + 4 * count
    return frozenset(found)
